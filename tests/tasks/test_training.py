"""The lock that keeps two pretraining runs from sharing a GPU, against a real Prefect server."""

import threading
import time

import pytest
from prefect import get_client

from tasks.training import GPU_LIMIT, describe_chain, device_lock


def test_one_training_holds_the_gpu_at_a_time(prefect_server):
    spans: list[tuple[float, float]] = []

    def hold() -> None:
        with device_lock("cuda:0"):
            start = time.monotonic()
            time.sleep(0.5)
            spans.append((start, time.monotonic()))

    with device_lock("cuda"):
        pass  # makes the limit, so that two threads do not race for its creation
    threads = [threading.Thread(target=hold) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = sorted(spans)
    assert second[0] >= first[1]
    with get_client(sync_client=True) as client:
        assert client.read_global_concurrency_limit_by_name(GPU_LIMIT).limit == 1


def test_a_cpu_needs_no_lock():
    with device_lock("cpu"):
        pass


def test_a_chain_is_checked_before_anything_runs():
    assert describe_chain("smoke", {}) == ["tabicl-smoke", "limix-smoke"]
    with pytest.raises(ValueError, match="did you mean"):
        describe_chain("smoke", {"training.max_step": 3})
