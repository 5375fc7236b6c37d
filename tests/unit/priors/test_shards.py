"""Shards: the same bytes for any number of workers, whole files, named damage."""

import warnings
from pathlib import Path

import pytest
import torch

from priorline.batches import BatchSpec
from priorline.errors import ShardError
from priorline.priors.shards import read_batches, read_manifest, verify_shards, write_shards
from priorline.priors.tabicl import TabICLPrior, TabICLPriorConfig

PRIOR = TabICLPrior(TabICLPriorConfig(max_columns=4))
SPECS = [BatchSpec(seed=seed, num_datasets=2, group_size=2, rows=32, train_size=20) for seed in range(7)]
VALIDATION = [BatchSpec(seed=100, num_datasets=2, group_size=2, rows=32, train_size=20)]
IDENTITY = {"prior": "test", "seed": 0}


def write(folder: Path, workers: int = 1, identity=IDENTITY, on_progress=None):
    return write_shards(
        PRIOR,
        SPECS,
        VALIDATION,
        folder,
        batches_per_shard=3,
        identity=identity,
        num_workers=workers,
        on_progress=on_progress,
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_any_number_of_workers_gives_the_same_bytes(tmp_path):
    assert write(tmp_path / "none", 0) == write(tmp_path / "one", 1) == write(tmp_path / "two", 2)
    assert contents(tmp_path / "none") == contents(tmp_path / "one") == contents(tmp_path / "two")
    assert set(contents(tmp_path / "one")) == {
        "manifest.json",
        *(f"train-0000{number}.safetensors" for number in range(3)),
        "validation-00000.safetensors",
    }


def test_shards_hold_the_stream(tmp_path):
    manifest = write(tmp_path)
    assert (manifest.num_batches, manifest.num_datasets) == (7, 14)
    stored = list(read_batches(tmp_path))
    assert len(stored) == 7
    for spec, batch in zip(SPECS, stored, strict=True):
        assert batch.train_size == 20
        wanted = PRIOR.sample(spec).tensors()
        assert all(torch.equal(tensor, wanted[name]) for name, tensor in batch.tensors().items())
    assert len(list(read_batches(tmp_path, split="validation"))) == 1


@pytest.mark.parametrize("start", [0, 1, 3, 5, 7])
def test_reading_starts_anywhere(tmp_path, start):
    write(tmp_path)
    later = list(read_batches(tmp_path, start=start))
    assert len(later) == 7 - start
    if later:
        assert torch.equal(later[0].y_BR, PRIOR.sample(SPECS[start]).y_BR)


def test_writing_again_does_nothing(tmp_path):
    first = write(tmp_path)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    calls: list[int] = []
    assert write(tmp_path, on_progress=lambda done, total: calls.append(done)) == first
    assert not calls
    assert stamps == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


def test_a_killed_run_is_finished_and_its_shards_are_kept(tmp_path):
    class KillError(BaseException):
        pass

    def kill(done, total):
        if done == 2:
            raise KillError

    with pytest.raises(KillError):
        write(tmp_path / "broken", on_progress=kill)
    assert not (tmp_path / "broken/manifest.json").exists()
    kept = (tmp_path / "broken/train-00000.safetensors").stat().st_mtime_ns
    write(tmp_path / "broken")
    write(tmp_path / "whole")
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")
    assert (tmp_path / "broken/train-00000.safetensors").stat().st_mtime_ns == kept


def test_a_repair_that_is_killed_keeps_the_intact_shards(tmp_path):
    write(tmp_path)
    before = contents(tmp_path)
    for name in ("train-00001", "train-00002"):
        (tmp_path / f"{name}.safetensors").unlink()
    kept = (tmp_path / "train-00000.safetensors").stat().st_mtime_ns

    def kill(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, on_progress=kill)
    (tmp_path / ".train-00002.safetensors.1.tmp").write_bytes(b"half a shard")
    write(tmp_path)
    assert contents(tmp_path) == before
    assert (tmp_path / "train-00000.safetensors").stat().st_mtime_ns == kept


def test_shards_of_another_size_are_not_mistaken_for_the_wanted_ones(tmp_path):
    write(tmp_path / "three")
    write_shards(PRIOR, SPECS, VALIDATION, tmp_path / "two", batches_per_shard=2, identity=IDENTITY)
    write(tmp_path / "two")
    assert contents(tmp_path / "two") == contents(tmp_path / "three")


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_a_damaged_shard_is_named_and_made_anew(tmp_path, damage):
    write(tmp_path)
    before = contents(tmp_path)
    path = tmp_path / "train-00001.safetensors"
    if damage == "remove":
        path.unlink()
    else:
        content = path.read_bytes()
        path.write_bytes(content[:-9] if damage == "truncate" else content[:-9] + b"\x00" * 9)
    assert verify_shards(tmp_path) == ["train-00001.safetensors"]
    with pytest.raises(ShardError, match=r"train-00001.*priors generate"):
        list(read_batches(tmp_path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        write(tmp_path)
    assert damage == "remove" or any("train-00001" in str(item.message) for item in caught)
    assert contents(tmp_path) == before


def test_a_folder_of_another_configuration_is_refused(tmp_path):
    write(tmp_path)
    with pytest.raises(ShardError, match="seed changed"):
        write(tmp_path, identity={"prior": "test", "seed": 1})


def test_an_unfinished_or_damaged_folder_says_what_to_do(tmp_path):
    with pytest.raises(ShardError, match="priors generate"):
        read_manifest(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(ShardError, match="remove the folder"):
        read_manifest(tmp_path)
    (tmp_path / "manifest.json").unlink()
    (tmp_path / "identity.json").write_text("{")
    with pytest.raises(ShardError, match="remove the folder"):
        write(tmp_path)
