import pytest
import torch

from priorline.training.throughput import Throughput, peak_memory_bytes


def test_rates_count_only_steps_and_start_anew_after_reading():
    meter = Throughput(torch.device("cpu"))
    for _ in range(2):
        meter.start()
        torch.randn(100, 100).sum()
        meter.stop(datasets=4, cells=400)
    first = meter.read()
    assert first["datasets_per_s"] > 0
    assert first["cells_per_s"] == pytest.approx(100 * first["datasets_per_s"])
    assert meter.read()["datasets_per_s"] == 0


def test_peak_memory_of_the_process_is_plausible_and_never_falls():
    before = peak_memory_bytes(torch.device("cpu"))
    held = torch.ones(20_000_000)
    assert peak_memory_bytes(torch.device("cpu")) >= before > 50e6
    assert held.nbytes < peak_memory_bytes(torch.device("cpu"))
