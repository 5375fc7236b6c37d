import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from priorline.inference.ensemble import plan_views, probabilities
from priorline.inference.in_context import ContextReader
from priorline.inference.memory import available_mb, budget_mb, new_rows, plan_memory
from priorline.models import MODELS
from priorline.models.tabicl.config import PRESETS, TabICLConfig


class NearestRow(torch.nn.Module):
    """A learner whose answer is known: the class of the nearest train row, columns in any order."""

    def __init__(self, **config):
        super().__init__()
        self.config = TabICLConfig(embed_dim=4, row_num_heads=1, row_num_cls=1, icl_num_blocks=1, **config)
        self.place = torch.nn.Parameter(torch.zeros(1))
        self.calls = []

    def summarize_columns(self, x_NC, y_N, *, chunk_cells):
        self.calls.append("columns")
        return

    def represent_with(self, x_RC, summary, column_orders, *, chunk_cells, y_N=None, out=None):
        self.calls.append(("rows", len(column_orders), len(x_RC)))
        return torch.stack([x_RC[:, list(order)] for order in column_orders])

    def predict_rows(self, train_BNE, y_BN, query_BME, *, chunk_rows):
        return self.predict_with(self.read_context(train_BNE, y_BN, chunk_rows=chunk_rows), query_BME, chunk_rows=1)

    def read_context(self, train_BNE, y_BN, *, chunk_rows):
        self.calls.append("context")
        return train_BNE, y_BN

    def predict_with(self, context, query_BME, *, chunk_rows):
        train_BNE, y_BN = context
        codes_BM = y_BN.gather(1, torch.cdist(query_BME, train_BNE).argmin(dim=-1))
        if not self.config.max_classes:
            return codes_BM[..., None]
        return 9.0 * torch.nn.functional.one_hot(codes_BM.long(), 10).float()


PREDICT_IN_BUDGET = """
import resource, sys
import numpy as np
from priorline.inference.estimators import TabICLClassifier

x = np.random.default_rng(0).normal(size=(21_000, 20))
classifier = TabICLClassifier(sys.argv[1], num_members=4, memory_budget_mb=float(sys.argv[2]))
classifier.fit(x[:200], x[:200, 0] > 0).predict_proba(x[:200])
classifier.fit(x[:20_000], x[:20_000, 0] > 0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert np.isfinite(classifier.predict_proba(x[20_000:])).all()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def reader_and_query(model, num_classes, num_members=8, **settings):
    generator = np.random.default_rng(0)
    x_NC = generator.normal(size=(4 * (num_classes or 5), 5)).astype(np.float32)
    views = plan_views(
        num_members,
        num_columns=5,
        num_classes=num_classes or 1,
        normalizations=("none", "power"),
        feature_shuffle="latin",
        class_shift=num_classes is not None,
        generator=generator,
    )
    targets_N = np.arange(len(x_NC)) % num_classes if num_classes else x_NC[:, 0]
    chosen_M = generator.permutation(len(x_NC))[: 3 * (num_classes or 5)]
    train = {"none": x_NC, "power": 2 * x_NC}
    reader = ContextReader(model, train, targets_N, views, num_classes=num_classes, **settings)
    return reader, {norm: x[chosen_M] for norm, x in train.items()}, targets_N[chosen_M]


@pytest.mark.parametrize("num_classes", [2, 10, 12, 26, 137])
@pytest.mark.parametrize("memory_budget_mb", [1024.0, 0.01])
@pytest.mark.parametrize("cache", [None, "repr", "kv"])
@pytest.mark.filterwarnings("ignore:a context of")
def test_members_in_any_order_agree_on_the_class(num_classes, memory_budget_mb, cache):
    reader, query, wanted = reader_and_query(NearestRow(), num_classes, memory_budget_mb=memory_budget_mb, cache=cache)
    for _ in range(2):
        proba = probabilities(reader.sum_outputs(query), reader.num_members, True)
        assert (proba.argmax(axis=1) == wanted).all()
        # All members are equally sure, so every one must have had its classes put back in place.
        assert proba.max(axis=1).min() > 0.98


def test_members_share_what_they_can():
    model = NearestRow()
    reader, query, _ = reader_and_query(model, 3, num_members=8)
    reader.sum_outputs(query)
    # Two normalisations; of each, two column orders with two class shifts.
    assert model.calls.count("columns") == 2
    assert model.calls.count(("rows", 2, 12)) == 2
    assert model.calls.count(("rows", 2, 9)) == 2
    assert model.calls.count("context") == 8
    grouped = NearestRow(col_affine=False, col_feature_group="circular")
    reader, query, _ = reader_and_query(grouped, 3, num_members=8)
    reader.sum_outputs(query)
    assert grouped.calls.count("columns") == 4
    aware = NearestRow(col_target_aware=True)
    reader, query, _ = reader_and_query(aware, 3, num_members=8)
    reader.sum_outputs(query)
    assert aware.calls.count("columns") == 8


def test_a_cache_spares_what_it_keeps():
    for cache, columns, contexts in ((None, 4, 16), ("repr", 2, 16), ("kv", 2, 8)):
        model = NearestRow()
        reader, query, _ = reader_and_query(model, 3, cache=cache)
        first, second = reader.sum_outputs(query), reader.sum_outputs(query)
        assert torch.equal(first, second)
        assert (model.calls.count("columns"), model.calls.count("context")) == (columns, contexts)


def test_values_of_a_regressor_are_averaged_without_shifts():
    reader, query, wanted_M = reader_and_query(NearestRow(max_classes=0), None)
    outputs_MK = reader.sum_outputs(query) / reader.num_members
    np.testing.assert_allclose(outputs_MK[:, 0].numpy(), wanted_M, rtol=1e-6)


@pytest.mark.parametrize("preset", ["tabicl-v1", "tabicl-v2", "tabicl-v2-regressor"])
@pytest.mark.parametrize("cache", ["repr", "kv"])
@pytest.mark.parametrize("offload", ["none", "cpu", "disk"])
def test_caches_pieces_and_offload_change_no_result_and_have_the_size_they_say(preset, cache, offload):
    torch.manual_seed(0)
    sizes = {"embed_dim": 16, "col_num_blocks": 2, "col_num_inds": 8, "row_num_blocks": 1, "icl_num_blocks": 2}
    config = PRESETS[preset]().model_copy(update=sizes | {"row_num_heads": 4, "zero_init": False})
    model = MODELS["tabicl"].build(config).eval().requires_grad_(False)
    num_classes = 12 if config.max_classes else None
    plain, query, _ = reader_and_query(model, num_classes, memory_budget_mb=1024)
    wanted = plain.sum_outputs(query)
    reader, _, _ = reader_and_query(model, num_classes, memory_budget_mb=1024, cache=cache, offload=offload)
    for _ in range(2):
        torch.testing.assert_close(reader.sum_outputs(query), wanted, atol=1e-4, rtol=1e-4)
    held = {}

    def count(item):
        if isinstance(item, torch.Tensor):
            held[item.untyped_storage().data_ptr()] = item.untyped_storage().nbytes()
        elif callable(item) and item.__closure__:
            for cell in item.__closure__:
                count(cell.cell_contents)
        elif isinstance(item, list | tuple):
            for part in item:
                count(part)

    for context in reader._contexts.values():
        count([context.summary, context.rows_ONE, context.predicts])
    assert sum(held.values()) / 2**20 <= 1.15 * reader.cache_mib(cache)
    assert reader.cache_mib(None) == 0 < reader.cache_mib("repr") < reader.cache_mib("kv")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("preset", ["tabicl-v1", "tabicl-v2", "tabicl-v2-regressor"])
@pytest.mark.parametrize("offload", ["none", "cpu", "disk"])
def test_a_gpu_gives_the_results_of_the_cpu(preset, offload):
    torch.manual_seed(0)
    config = PRESETS[preset]().model_copy(update={"icl_num_blocks": 2, "zero_init": False})
    model = MODELS["tabicl"].build(config).eval().requires_grad_(False)
    num_classes = 12 if config.max_classes else None
    wanted_reader, query, _ = reader_and_query(model, num_classes)
    wanted = wanted_reader.sum_outputs(query)
    for cache in (None, "repr", "kv"):
        reader, _, _ = reader_and_query(model.cuda(), num_classes, cache=cache, offload=offload)
        for _ in range(2):
            torch.testing.assert_close(reader.sum_outputs(query).cpu(), wanted, atol=1e-3, rtol=1e-3)


def test_a_cache_beyond_its_bound_falls_back_with_a_warning():
    model = NearestRow()
    with pytest.warns(UserWarning, match=r"cache='kv' of 20 rows takes .* MiB, more than cache_mb=0;"):
        reader, query, wanted_M = reader_and_query(model, 5, cache="kv", cache_mb=1e-4)
    assert reader.cache is None
    assert (reader.sum_outputs(query).argmax(dim=1).numpy() == wanted_M).all()


@pytest.mark.parametrize("preset", PRESETS)
def test_a_smaller_budget_never_asks_for_larger_pieces(preset):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plans = [
            plan_memory(PRESETS[preset](), 20_000, 5_000, 20, num_orders=2, budget=budget, on_cpu=False)
            for budget in (0.1, 64, 1024, 64_000)
        ]
    for name in ("query_rows", "chunk_cells", "chunk_rows"):
        sizes = [getattr(plan, name) for plan in plans]
        assert sizes == sorted(sizes)
        assert sizes[0] >= 1


def test_twenty_thousand_rows_stay_within_the_budget(random_weights):
    command = [sys.executable, "-c", PREDICT_IN_BUDGET, str(random_weights), "64"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # Without cutting, the peak is above 190 MiB.
    assert float(done.stdout) < 64


def test_a_context_beyond_the_budget_is_named():
    with pytest.warns(UserWarning, match="50000 rows takes about .* MiB, more than memory_budget_mb=256"):
        plan_memory(PRESETS["tabicl-v1"](), 50_000, 1000, 20, num_orders=1, budget=256, on_cpu=True)


def test_the_budget_follows_machine_and_container(tmp_path, monkeypatch):
    limit, use = tmp_path / "memory.max", tmp_path / "memory.current"
    limits = ((str(limit), str(use)),)
    unlimited = available_mb(())
    assert available_mb(limits) == pytest.approx(unlimited, rel=0.1)
    limit.write_text("max\n")
    use.write_text("1000\n")
    assert available_mb(limits) == pytest.approx(unlimited, rel=0.1)
    limit.write_text(str(600 * 2**20))
    use.write_text(str(100 * 2**20))
    assert available_mb(limits) == 500
    monkeypatch.setattr("priorline.inference.memory.available_mb", lambda: 500.0)
    assert budget_mb(None) == 250
    assert budget_mb(7.5) == 7.5
    monkeypatch.setattr("priorline.inference.memory.available_mb", lambda: 0.0)
    assert budget_mb(None) == 64


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_rows_on_disk_leave_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    rows = new_rows((2, 100, 64), torch.device("cpu"), "disk")
    rows[:] = 1.0
    assert str(tmp_path) in Path(f"/proc/{os.getpid()}/maps").read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == []
    assert rows.sum() == 2 * 100 * 64
