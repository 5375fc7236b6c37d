"""The stream: specs in order, the same bytes for any number of workers, from any start."""

import pytest
import torch

from priorline.batches import BatchSpec
from priorline.priors.stream import stream_batches
from priorline.priors.tabicl import TabICLPrior, TabICLPriorConfig

PRIOR = TabICLPrior(TabICLPriorConfig(max_columns=4))
SPECS = [BatchSpec(seed=seed, num_datasets=2, group_size=2, rows=32, train_size=20) for seed in range(5)]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_any_number_of_workers_gives_the_same_bytes_from_any_start(workers):
    streamed = list(stream_batches(PRIOR, SPECS, start=1, num_workers=workers))
    assert len(streamed) == 4
    for spec, batch in zip(SPECS[1:], streamed, strict=True):
        wanted = PRIOR.sample(spec).tensors()
        assert all(torch.equal(tensor, wanted[name]) for name, tensor in batch.tensors().items())


def test_a_stream_may_start_at_its_end():
    assert list(stream_batches(PRIOR, SPECS, start=5)) == []
