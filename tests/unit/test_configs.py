import pytest

from priorline.config_io import build, config_hash
from priorline.configs import CHAINS, RUNS, RunConfig, get_chain, get_config, list_configs
from priorline.errors import ConfigError
from priorline.models import MODELS


@pytest.mark.parametrize("name", sorted(RUNS))
def test_every_run_survives_a_round_trip_through_json(name):
    run = RUNS[name]()
    assert run.name == name
    again = build(RunConfig, run.model_dump(mode="json"))
    assert again == run
    assert config_hash(again) == config_hash(run)


@pytest.mark.parametrize("name", sorted(RUNS))
def test_every_stage_trains_parts_that_the_model_has(name):
    run = RUNS[name]()
    parts = MODELS[run.model.kind].parts
    for stage in run.training.stages:
        assert set(stage.trainable_parts) <= set(parts)


def test_overrides_reach_one_model_or_all():
    assert get_chain("smoke", {"tabicl.seed": 3})[0].seed == 3
    assert all(run.seed == 5 for run in get_chain("smoke", {"seed": 5}))


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'tabicl-smoke'"):
        get_config("tabicl-smok")
    with pytest.raises(ConfigError, match="did you mean 'tabicl'"):
        get_config("tabicl-smoke", {"model.kind": "tabcil"})
    with pytest.raises(ConfigError, match="did you mean 'embed_dim'"):
        get_config("tabicl-smoke", {"model.embed_dims": 8})


def test_a_prior_of_more_classes_than_the_model_tells_apart_is_refused():
    with pytest.raises(ConfigError, match="lower the prior's max_classes"):
        get_config("tabicl-smoke", {"prior.table.max_classes": 12})


def test_every_listed_config_says_what_it_is():
    listed = list_configs()
    assert set(listed) == {*RUNS, *CHAINS}
    assert all(len(line) > 10 for line in listed.values())


def test_paper_preset_follows_the_document():
    short, medium, long = RUNS["tabicl-v1"]().training.stages
    assert (short.steps, medium.steps, long.steps) == (160_000, 2_000, 50)
    assert (short.micro_batch_size, medium.micro_batch_size, long.micro_batch_size) == (4, 1, 1)
    assert (medium.rows[0].low, medium.rows[0].high, medium.rows[0].scale) == (1_000, 40_000, "log_uniform")
    assert long.trainable_parts == ("icl_predictor",)
    assert RUNS["tabicl-v1-released"]().training.stages[0].steps == 100_000
