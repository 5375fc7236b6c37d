"""Weights of tiny random models."""

import pytest
import torch

from priorline.checkpoints import save_weights
from priorline.models import MODELS
from priorline.models.tabicl.config import TabICLConfig

TINY = TabICLConfig(
    embed_dim=8,
    col_num_blocks=1,
    col_num_heads=2,
    col_num_inds=4,
    row_num_blocks=1,
    row_num_heads=2,
    row_num_cls=2,
    icl_num_blocks=1,
    icl_num_heads=2,
    zero_init=False,
)


def build_model(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS["tabicl"].build(TINY)


def write(directory, model):
    save_weights(directory, model, kind="tabicl", model_config=model.config.model_dump(mode="json"), metadata={})
    return directory


@pytest.fixture(scope="session")
def random_weights(tmp_path_factory):
    """Folder of a tiny model with random weights, for all that does not depend on skill."""
    return write(tmp_path_factory.mktemp("random") / "weights", build_model(seed=0))


@pytest.fixture(scope="session")
def other_weights(tmp_path_factory):
    """Folder of the same architecture with other random weights."""
    return write(tmp_path_factory.mktemp("other") / "weights", build_model(seed=1))
