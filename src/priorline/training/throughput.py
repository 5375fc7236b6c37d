"""How fast training runs and how much memory it has taken, as numbers for the log."""

import resource
import sys
import time

import torch


class Throughput:
    """Datasets and cells per second of training, since the last reading.

    Time spent on validation, checkpoints and logging does not count.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._datasets = self._cells = 0
        self._seconds = 0.0
        self._started = 0.0

    def start(self) -> None:
        """Begin a training step."""
        self._started = time.perf_counter()

    def stop(self, *, datasets: int, cells: int) -> None:
        """End a training step that saw ``datasets`` tables of ``cells`` valid cells in all."""
        self._seconds += time.perf_counter() - self._started
        self._datasets += datasets
        self._cells += cells

    def read(self) -> dict[str, float]:
        """Return ``datasets_per_s``, ``cells_per_s`` and ``peak_memory_mb``, and start anew."""
        seconds = max(self._seconds, 1e-9)
        rates = {"datasets_per_s": self._datasets / seconds, "cells_per_s": self._cells / seconds}
        self._datasets = self._cells = 0
        self._seconds = 0.0
        return {**rates, "peak_memory_mb": peak_memory_bytes(self._device) / 1e6}


def peak_memory_bytes(device: torch.device) -> int:
    """Return the most memory taken so far: of the tensors on a GPU, of the process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
