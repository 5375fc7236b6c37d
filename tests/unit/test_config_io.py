from pathlib import Path

import pytest
from pydantic import Field

from priorline.config_io import (
    Config,
    apply_overrides,
    config_hash,
    load_params,
    parse_assignments,
)
from priorline.errors import ConfigError


class Inner(Config):
    steps: int = Field(default=3, ge=1)
    names: tuple[str, ...] = ("a",)


class Outer(Config):
    seed: int = 0
    stages: tuple[Inner, ...] = (Inner(), Inner(steps=5))


def test_override_reaches_into_a_list_and_leaves_the_rest():
    changed = apply_overrides(Outer(), {"stages.1.steps": 9, "seed": 4})
    assert changed == Outer(seed=4, stages=(Inner(), Inner(steps=9)))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("sed", 1, "did you mean 'seed'"),
        ("stages.0.step", 1, "did you mean 'steps'"),
        ("stages.7.steps", 1, "2 entries"),
        ("stages.0.steps", 0, "greater than or equal to 1"),
        ("stages.0.steps", "many", "valid integer"),
        ("seed.deeper", 1, "unknown key"),
    ],
)
def test_a_bad_override_names_path_and_remedy(path, value, message):
    with pytest.raises(ConfigError, match=message):
        apply_overrides(Outer(), {path: value})


def test_assignments_are_typed_as_yaml():
    assert parse_assignments(["a.b=3", "c=[1, 2]", "d=null", "e=x=y"]) == {
        "a.b": 3,
        "c": [1, 2],
        "d": None,
        "e": "x=y",
    }
    with pytest.raises(ConfigError, match="PATH=VALUE"):
        parse_assignments(["novalue"])


def test_params_file_flattens_and_refuses_unknown_keys(tmp_path: Path):
    path = tmp_path / "params.yaml"
    path.write_text("config: smoke\nset:\n  training: {max_steps: 5}\n  seed: 1\n")
    assert load_params(path) == ("smoke", {"training.max_steps": 5, "seed": 1})
    path.write_text("config: smoke\nsets: {}\n")
    with pytest.raises(ConfigError, match="must hold"):
        load_params(path)


def test_hash_follows_content_not_identity():
    assert config_hash(Outer()) == config_hash(Outer())
    assert config_hash(Outer()) != config_hash(Outer(seed=1))
