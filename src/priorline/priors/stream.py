"""An endless, seeded stream of batches: the same bytes for any number of workers."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from priorline.batches import Batch, BatchSpec
from priorline.priors.base import Prior

PREFETCH_PER_WORKER = 4
"""Batches that a worker samples ahead."""


class _SpecDataset(Dataset[Batch]):
    def __init__(self, prior: Prior, specs: Sequence[BatchSpec], start: int) -> None:
        self._prior, self._specs, self._start = prior, specs, start

    def __len__(self) -> int:
        return len(self._specs) - self._start

    def __getitem__(self, index: int) -> Batch:
        return self._prior.sample(self._specs[self._start + index])


def stream_batches(
    prior: Prior, specs: Sequence[BatchSpec], *, start: int = 0, num_workers: int = 0
) -> Iterator[Batch]:
    """Yield ``prior.sample(spec)`` for ``specs[start:]``, in order.

    Parameters
    ----------
    num_workers : int
        Processes that sample ahead; 0 samples in the caller's.
    """
    dataset = _SpecDataset(prior, specs, start)
    if num_workers == 0:
        yield from (dataset[index] for index in range(len(dataset)))
        return
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=num_workers,
        prefetch_factor=PREFETCH_PER_WORKER,
        # Forking a process in which XGBoost or OpenMP threads ran can hang; a fresh one cannot.
        multiprocessing_context="forkserver",
        worker_init_fn=_one_thread,
        collate_fn=_unchanged,
    )
    yield from loader


def _one_thread(worker: int) -> None:
    torch.set_num_threads(1)


def _unchanged(batch: Any) -> Any:
    return batch
