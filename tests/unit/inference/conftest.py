"""Weights of tiny random models."""

import pytest
from tests.tiny_tabicl import random_tiny

from priorline.checkpoints import save_weights


def write(directory, model):
    save_weights(directory, model, kind="tabicl", model_config=model.config.model_dump(mode="json"), metadata={})
    return directory


@pytest.fixture(scope="session")
def random_weights(tmp_path_factory):
    """Folder of a tiny model with random weights, for all that does not depend on skill."""
    return write(tmp_path_factory.mktemp("random") / "weights", random_tiny(seed=0))


@pytest.fixture(scope="session")
def other_weights(tmp_path_factory):
    """Folder of the same architecture with other random weights."""
    return write(tmp_path_factory.mktemp("other") / "weights", random_tiny(seed=1))
