import json
import os
import pickle
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from tests.tiny_tabicl import TINY
from torch import Tensor, nn

from priorline.checkpoints import (
    latest_checkpoint,
    load_weights,
    save_checkpoint,
    save_weights,
    sole_writer,
    weights_hash,
)
from priorline.errors import CheckpointError
from priorline.models import MODELS

FILES = ("model.safetensors", "trainer.safetensors", "state.json", "checkpoint.json")


def save(directory: Path, step: int, value: float = 0.0, **changes) -> Path:
    content = {
        "model_state": {"w": torch.full((3, 4), value), "n": torch.tensor(step)},
        "trainer_tensors": {"w/exp_avg": torch.full((3, 4), value + 1)},
        "state": {"progress": {"step": step}},
        "keep": 2,
    }
    return save_checkpoint(directory, step=step, **{**content, **changes})


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@contextmanager
def full_disk(size_bytes: int) -> Iterator[None]:
    """Let no file grow beyond ``size_bytes``: writes fail as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_no_checkpoint_is_none(tmp_path: Path):
    assert latest_checkpoint(tmp_path) is None
    assert latest_checkpoint(tmp_path / "missing") is None


def test_newest_checkpoint_comes_back_whole(tmp_path: Path):
    save(tmp_path, 5)
    path = save(tmp_path, 12, 0.5)
    checkpoint = latest_checkpoint(tmp_path)
    assert checkpoint is not None
    assert (checkpoint.path, checkpoint.step, checkpoint.state) == (path, 12, {"progress": {"step": 12}})
    assert torch.equal(checkpoint.model_state()["w"], torch.full((3, 4), 0.5))
    assert checkpoint.model_state()["n"].item() == 12
    assert torch.equal(checkpoint.trainer_tensors()["w/exp_avg"], torch.full((3, 4), 1.5))


def test_shared_strided_and_empty_tensors_keep_their_values(tmp_path: Path):
    base = torch.arange(12.0).reshape(3, 4)
    state = {"base": base, "tied": base, "view": base[1], "turned": base.T, "none": torch.zeros(0, 3)}
    save(tmp_path, 1, model_state=state)
    checkpoint = latest_checkpoint(tmp_path)
    assert checkpoint is not None
    loaded = checkpoint.model_state()
    assert all(torch.equal(loaded[name], value) for name, value in state.items())
    assert (checkpoint.path / "model.safetensors").stat().st_size < 1000, "a view does not drag its base along"


def test_last_ones_stay_and_later_ones_of_a_former_run_go(tmp_path: Path):
    for step in (10, 20, 30):
        save(tmp_path, step)
    assert names(tmp_path) == ["step-00000020", "step-00000030"]
    save(tmp_path, 25)
    assert names(tmp_path) == ["step-00000020", "step-00000025"]


def test_step_can_be_written_again(tmp_path: Path):
    save(tmp_path, 10, 1.0)
    save(tmp_path, 10, 2.0)
    checkpoint = latest_checkpoint(tmp_path)
    assert checkpoint is not None
    assert checkpoint.model_state()["w"][0, 0] == 2.0
    assert names(tmp_path) == ["step-00000010"]


@pytest.mark.parametrize("fault", ["flipped bit", "truncated", "missing"])
@pytest.mark.parametrize("name", FILES)
def test_corrupt_newest_is_named_and_the_previous_used(tmp_path: Path, name: str, fault: str):
    save(tmp_path, 10)
    file = save(tmp_path, 20) / name
    content = bytearray(file.read_bytes())
    if fault == "missing":
        file.unlink()
    elif fault == "truncated":
        file.write_bytes(content[:-2])
    else:
        content[len(content) // 2] ^= 0x80
        file.write_bytes(content)
    with pytest.warns(UserWarning, match=rf"step-00000020/{re.escape(name)} is"):
        checkpoint = latest_checkpoint(tmp_path)
    assert checkpoint is not None
    assert checkpoint.step == 10


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_all_corrupt_is_an_error_that_names_each(tmp_path: Path):
    for step in (10, 20):
        (save(tmp_path, step) / "state.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"step-00000020.*step-00000010.*start anew"):
        latest_checkpoint(tmp_path)


@pytest.mark.parametrize("size_bytes", [0, 200, 5_000])
def test_full_disk_leaves_the_previous_checkpoint_and_no_leftovers(tmp_path: Path, size_bytes: int):
    save(tmp_path, 10)
    with (
        full_disk(size_bytes),
        pytest.raises(CheckpointError, match="cannot write the checkpoint of step 20"),
    ):
        save(tmp_path, 20, trainer_tensors={"w": torch.zeros(100_000)})
    assert names(tmp_path) == ["step-00000010"]
    checkpoint = latest_checkpoint(tmp_path)
    assert checkpoint is not None
    assert checkpoint.step == 10
    save(tmp_path, 20)
    assert names(tmp_path) == ["step-00000010", "step-00000020"]


def test_unserialisable_state_leaves_no_leftovers(tmp_path: Path):
    save(tmp_path, 10)
    with pytest.raises(ValueError, match="not JSON compliant"):
        save(tmp_path, 20, state={"loss": float("nan")})
    assert names(tmp_path) == ["step-00000010"]


def test_leftovers_of_a_killed_writer_are_cleared(tmp_path: Path):
    save(tmp_path, 10)
    (tmp_path / ".new-step-00000020").mkdir()
    (tmp_path / ".new-step-00000020" / "model.safetensors").write_bytes(b"half")
    save(tmp_path, 15).rename(tmp_path / ".old-step-00000015")  # killed between two renames
    checkpoint = latest_checkpoint(tmp_path)
    assert checkpoint is not None
    assert checkpoint.step == 15
    assert names(tmp_path) == ["step-00000010", "step-00000015"]


def test_folder_has_one_writer_at_a_time_and_is_free_after_an_error(tmp_path: Path):
    with sole_writer(tmp_path):  # noqa: SIM117 - the inner one is refused
        with pytest.raises(CheckpointError, match="another process trains"), sole_writer(tmp_path):
            pass
    with pytest.raises(KeyError), sole_writer(tmp_path):
        raise KeyError
    with sole_writer(tmp_path):
        pass


def build(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return MODELS["tabicl"].build(TINY)


def store(directory: Path, model: nn.Module, **metadata) -> None:
    save_weights(directory, model, kind="tabicl", model_config=TINY.model_dump(mode="json"), metadata=metadata)


def state(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.state_dict())


def test_weights_come_back_as_the_same_module_ready_to_predict(tmp_path: Path):
    model = build()
    store(tmp_path / "weights", model, steps=7)
    loaded, content = load_weights(tmp_path / "weights")
    assert not loaded.training
    assert state(loaded).keys() == state(model).keys()
    assert all(torch.equal(state(loaded)[name], value) for name, value in state(model).items())
    assert content["metadata"] == {"steps": 7}
    assert (content["format"], content["format_version"], content["kind"]) == (
        "priorline-weights",
        1,
        "tabicl",
    )


def test_loading_does_not_move_the_random_stream(tmp_path: Path):
    store(tmp_path / "weights", build())
    torch.manual_seed(0)
    wanted = torch.rand(1)
    torch.manual_seed(0)
    load_weights(tmp_path / "weights")
    assert torch.equal(torch.rand(1), wanted)


def test_hash_names_the_weights_not_the_story(tmp_path: Path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        store(tmp_path / name, build(seed), story=name)
    assert weights_hash(tmp_path / "a") == weights_hash(tmp_path / "b") != weights_hash(tmp_path / "c")


def test_weights_are_replaced_whole(tmp_path: Path):
    folder = tmp_path / "weights [1]"  # brackets mean something to glob
    store(folder, build(0))
    before = weights_hash(folder)
    store(folder, build(1))
    assert weights_hash(folder) != before
    assert names(tmp_path) == ["weights [1]"]
    assert names(folder) == ["config.json", "model.safetensors"]


def test_full_disk_leaves_the_previous_weights(tmp_path: Path):
    folder = tmp_path / "weights"
    store(folder, build(0))
    before = weights_hash(folder)
    with full_disk(100), pytest.raises(CheckpointError, match="cannot write the weights"):
        store(folder, build(1))
    assert names(tmp_path) == ["weights"]
    assert weights_hash(folder) == before
    load_weights(folder)


def test_corrupt_weights_are_refused_by_file(tmp_path: Path):
    store(tmp_path, build())
    file = tmp_path / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is corrupt"):
        load_weights(tmp_path)


def test_pickled_weights_are_never_opened(tmp_path: Path):
    """Even with the right checksum: the file is read as safetensors and as nothing else."""
    import hashlib

    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "trapped"),))

    folder = tmp_path / "weights"
    store(folder, build())
    payload = pickle.dumps(Trap())
    (folder / "model.safetensors").write_bytes(payload)
    edit(folder, sha256=hashlib.sha256(payload).hexdigest())
    with pytest.raises(CheckpointError, match="does not fit"):
        load_weights(folder)
    assert names(tmp_path) == ["weights"]


def edit(folder: Path, **changes) -> None:
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, **changes}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "is not a priorline-weights file"),
        ({"format_version": 2}, "has format_version 2, this Priorline reads 1"),
        ({"kind": "tabcil"}, "'tabcil' is unknown; did you mean 'tabicl'"),
        ({"sha256": None}, "lacks sha256"),
        ({"model": {"kind": "tabicl", "embed": 8}}, "embed.*did you mean 'embed_dim'"),
        ({"model": {**TINY.model_dump(mode="json"), "embed_dim": 16}}, "does not fit"),
    ],
)
def test_unusable_config_is_refused_with_its_reason(tmp_path: Path, changes: dict, message: str):
    store(tmp_path, build())
    edit(tmp_path, **changes)
    with pytest.raises(CheckpointError, match=message):
        load_weights(tmp_path)


def test_missing_weights_are_named(tmp_path: Path):
    with pytest.raises(CheckpointError, match=r"no weights at .*absent"):
        load_weights(tmp_path / "absent")
    with pytest.raises(CheckpointError, match=r"config\.json is missing"):
        weights_hash(tmp_path)
