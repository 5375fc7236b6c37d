"""The loop on the real prior, sampled while it trains."""

from pathlib import Path

import torch
from torch import nn
from toy_training import SEED, run, toy_config, toy_stage

from priorline.models.tabicl.config import TabICLConfig
from priorline.models.tabicl.model import TabICL
from priorline.priors.stream import stream_batches
from priorline.priors.tabicl import TabICLPrior, TabICLPriorConfig
from priorline.training.curriculum import Curriculum


def build() -> nn.Module:
    torch.manual_seed(0)
    return TabICL(TabICLConfig(embed_dim=16, col_num_blocks=1, row_num_blocks=1, icl_num_blocks=1))


def test_real_prior_feeds_the_loop_and_its_resume(tmp_path: Path):
    prior = TabICLPrior(TabICLPriorConfig(max_columns=4))
    config = toy_config(stages=(toy_stage("one", 4),), validation_batches=1)
    curriculum = Curriculum(config, SEED)
    sources = {
        "batches": lambda start: stream_batches(prior, curriculum.train_specs, start=start),
        "validation": lambda: stream_batches(prior, curriculum.validation_specs),
    }
    unbroken, resumed = build(), build()
    run(unbroken, config, tmp_path / "unbroken", **sources)
    run(resumed, config, tmp_path / "resumed", should_stop=lambda: True, **sources)
    result = run(resumed, config, tmp_path / "resumed", **sources)
    assert (result.resumed_from, result.steps) == (1, 4)
    wanted = unbroken.state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in resumed.state_dict().items())
