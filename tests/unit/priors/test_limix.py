"""LimiX's prior: graphs, roles, edges, types, missing cells, difficulty, the same bytes anywhere."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from priorline.batches import BatchSpec
from priorline.config_io import build
from priorline.errors import ConfigError, ShardError
from priorline.priors import build_prior
from priorline.priors.causal_graph import GraphConfig, draw_columns, draw_graph, draw_target
from priorline.priors.edge_functions import AGGREGATORS, EDGE_FUNCTIONS, join, standard
from priorline.priors.limix import LimiXPrior, LimiXPriorConfig
from priorline.priors.shards import read_batches, write_shards
from priorline.priors.solvability import skill

CONFIG = LimiXPriorConfig(columns=(3, 8))


def spec(seed=0, **changes) -> BatchSpec:
    return BatchSpec(**({"seed": seed, "num_datasets": 6, "group_size": 6, "rows": 96, "train_size": 60} | changes))


def structures(tree) -> Counter:
    if isinstance(tree, int):
        return Counter()
    return sum((structures(part) for part in tree["parts"]), Counter([tree["kind"]]))


@pytest.mark.parametrize("num_nodes", [1, 2, 7, 40])
def test_graphs_are_acyclic_and_made_of_all_local_structures(num_nodes):
    kinds: Counter = Counter()
    for seed in range(40):
        graph = draw_graph(num_nodes, GraphConfig(), np.random.default_rng(seed))
        assert all(0 <= cause < effect < num_nodes for cause, effect in graph.edges)
        assert len(set(graph.edges)) == len(graph.edges)
        assert max(Counter(effect for _, effect in graph.edges).values(), default=0) <= GraphConfig().most_parents
        kinds += structures(graph.structure)
    assert num_nodes == 1 or set(kinds) == {"chain", "fork", "collider"}


def test_roles_follow_the_paths_of_the_graph():
    graph = draw_graph(12, GraphConfig(), np.random.default_rng(3))
    children = {node: [effect for cause, effect in graph.edges if cause == node] for node in range(12)}

    def reached(node):
        return set(children[node]).union(*map(reached, children[node])) if children[node] else set()

    for target in range(12):
        for node in set(range(12)) - {target}:
            above, below = node in {n for n in range(12) if target in reached(n)}, node in reached(target)
            common = any({node, target} <= reached(n) for n in range(12))
            wanted = "ancestor" if above else "descendant" if below else "relative" if common else "distractor"
            assert graph.role(node, target) == wanted


def test_columns_are_chosen_by_their_role():
    roles: Counter = Counter()
    for seed in range(60):
        generator = np.random.default_rng(seed)
        graph = draw_graph(20, GraphConfig(), generator)
        target = draw_target(graph, GraphConfig(), generator)
        none = draw_columns(graph, target, 5, GraphConfig(distractor_share=(0.0, 0.0)), generator)
        informative = sum(graph.role(node, target) != "distractor" for node in range(20) if node != target)
        assert sum(graph.role(node, target) != "distractor" for node in none) == min(5, informative)
        assert target not in none
        roles.update(graph.role(node, target) for node in draw_columns(graph, target, 5, GraphConfig(), generator))
    assert set(roles) == {"ancestor", "descendant", "relative", "distractor"}
    assert len(draw_columns(draw_graph(2, GraphConfig(), generator), 1, 7, GraphConfig(), generator)) == 7


@pytest.mark.parametrize("name", EDGE_FUNCTIONS)
@pytest.mark.parametrize("width", [1, 4])
def test_every_edge_function_is_finite_and_depends_on_its_cause(name, width):
    x_RW = standard(np.random.default_rng(0).normal(size=(200, width)))
    for seed in range(10):
        out_RW = EDGE_FUNCTIONS[name](x_RW, np.random.default_rng(seed))
        again_RW = EDGE_FUNCTIONS[name](x_RW, np.random.default_rng(seed))
        assert out_RW.shape == x_RW.shape
        assert np.isfinite(out_RW).all()
        assert np.array_equal(out_RW, again_RW)
    spread = [np.ptp(EDGE_FUNCTIONS[name](x_RW, np.random.default_rng(seed))) for seed in range(5)]
    assert max(spread) > 0
    linear = np.linalg.lstsq(x_RW, EDGE_FUNCTIONS[name](x_RW, np.random.default_rng(1)), rcond=None)[1]
    assert (name == "linear") == bool(len(linear) and (linear < 1e-6).all())


@pytest.mark.parametrize("how", AGGREGATORS)
def test_aggregators_join_any_number_of_causes(how):
    parts = [np.random.default_rng(seed).normal(size=(50, 3)).astype(np.float32) for seed in range(4)]
    for count in (1, 4):
        joined = join(parts[:count], how, np.random.default_rng(0))
        assert joined.shape == (50, 3)
        assert np.isfinite(joined).all()


def test_skill_tells_a_clear_table_from_noise():
    generator = np.random.default_rng(0)
    x_RC = generator.normal(size=(200, 4))
    x_RC[::7, 1] = np.nan
    assert skill(x_RC, x_RC[:, 0] * 2, 120, is_class=False) > 0.95
    assert skill(x_RC, (x_RC[:, 0] > 0).astype(int), 120, is_class=True) > 0.8
    assert skill(x_RC, generator.normal(size=200), 120, is_class=False) < 0.15
    assert skill(x_RC, generator.integers(0, 2, 200), 120, is_class=True) < 0.3


def test_batches_hold_mixed_types_missing_cells_and_both_kinds_of_target():
    prior = LimiXPrior(CONFIG)
    batches = [prior.sample(spec(seed)) for seed in range(24)]
    assert {batch.y_BR.dtype for batch in batches} == {torch.int64, torch.float32}
    assert any(batch.x_BRC.isnan().any() for batch in batches)
    assert any((batch.num_categories_BC > 0).any() for batch in batches)
    for batch in batches:
        columns = batch.x_BRC.shape[2]
        assert (batch.num_columns_B == columns).all()
        assert not batch.x_BRC.isinf().any()
        for x_RC, y_R, sizes_C in zip(batch.x_BRC, batch.y_BR, batch.num_categories_BC, strict=True):
            for column in range(columns):
                known = x_RC[: batch.train_size, column]
                known = known[known.isfinite()]
                assert known.unique().numel() > 1
                if sizes_C[column]:
                    seen = x_RC[:, column][x_RC[:, column].isfinite()]
                    assert set(seen.tolist()) <= set(known.tolist()) <= set(range(int(sizes_C[column])))
            if y_R.dtype == torch.int64:
                assert set(y_R[batch.train_size :].tolist()) <= set(y_R[: batch.train_size].tolist())
            else:
                torch.testing.assert_close(y_R[: batch.train_size].mean(), torch.tensor(0.0), atol=0.2, rtol=0)


def test_levels_come_in_about_the_wanted_shares():
    levels: Counter = Counter()
    config = CONFIG.model_copy(update={"solvability": (0.6, 0.2, 0.2), "max_tries": 20})
    for seed in range(25):
        levels.update(one["solvability"] for one in LimiXPrior(config).sample(spec(seed)).provenance)
    shares = {name: count / 150 for name, count in levels.items()}
    assert shares["easy"] == pytest.approx(0.6, abs=0.12)
    assert shares["hard"] == pytest.approx(0.2, abs=0.12)


def test_shards_keep_every_byte_and_the_graphs(tmp_path: Path):
    prior, specs = build_prior(CONFIG), [spec(seed) for seed in range(3)]
    write_shards(prior, specs, specs[:1], tmp_path / "one", batches_per_shard=2, identity={"a": 1})
    write_shards(prior, specs, specs[:1], tmp_path / "two", batches_per_shard=2, identity={"a": 1}, num_workers=2)
    for stored, again, wanted in zip(
        read_batches(tmp_path / "one"), read_batches(tmp_path / "two"), map(prior.sample, specs), strict=True
    ):
        assert stored.provenance == wanted.provenance
        assert {"structure", "edges", "target", "columns", "roles", "skill"} <= set(stored.provenance[0])
        for name, tensor in wanted.tensors().items():
            assert torch.equal(stored.tensors()[name].nan_to_num(-9), tensor.nan_to_num(-9)), name
            assert torch.equal(again.tensors()[name].nan_to_num(-9), tensor.nan_to_num(-9)), name


def test_what_cannot_be_sampled_is_refused():
    with pytest.raises(ShardError, match="less than 2 rows"):
        LimiXPrior(CONFIG).sample(spec(rows=30, train_size=29))
    with pytest.raises(ConfigError, match="shares that sum to 1"):
        build(LimiXPriorConfig, {"solvability": [0.5, 0.1, 0.1]})
