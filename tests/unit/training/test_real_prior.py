"""The loop on the real prior, sampled while it trains."""

from pathlib import Path

import torch
from toy_training import NUM_COLUMNS, SEED, new_model, run, toy_config

from priorline.priors.stream import stream_batches
from priorline.priors.tabicl import TabICLPriorConfig
from priorline.training.curriculum import Curriculum


def test_real_prior_feeds_the_loop_and_its_resume(tmp_path: Path):
    prior = TabICLPriorConfig(max_columns=NUM_COLUMNS, max_classes=2)
    config = toy_config(max_steps=4, validation_batches=1)
    curriculum = Curriculum(config, SEED)
    sources = {
        "batches": lambda start: stream_batches(prior, curriculum.train_specs, start=start),
        "validation": lambda: stream_batches(prior, curriculum.validation_specs),
    }
    unbroken, resumed = new_model(), new_model()
    run(unbroken, config, tmp_path / "unbroken", **sources)
    run(resumed, config, tmp_path / "resumed", should_stop=lambda: True, **sources)
    result = run(resumed, config, tmp_path / "resumed", **sources)
    assert (result.resumed_from, result.steps) == (1, 4)
    wanted = unbroken.state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in resumed.state_dict().items())
