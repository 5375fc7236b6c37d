"""Imported weights: whole or not at all, told where they come from, never over something else."""

import hashlib

import pytest
import torch
from tests.tiny_tabicl import OFFICIAL, write_official

from priorline.checkpoints import load_weights
from priorline.errors import CheckpointError, InputError
from priorline.importing import import_checkpoint


@pytest.fixture
def official(tmp_path):
    return write_official(tmp_path / "official.ckpt")


def test_imported_weights_load_and_name_their_source(official, tmp_path):
    result = import_checkpoint("tabicl", official, tmp_path / "mine")
    module, content = load_weights(tmp_path / "mine")
    wanted = torch.load(official, weights_only=True)["state_dict"]
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in module.state_dict().items())
    source = content["metadata"]["source"]
    assert source["file"] == "official.ckpt"
    assert source["sha256"] == result.source_sha256 == hashlib.sha256(official.read_bytes()).hexdigest()
    assert source["config"] == OFFICIAL
    assert "BSD 3-Clause" in source["note"]
    assert result.problem_types == ("classification",)
    assert not result.reused


def test_the_same_file_again_is_found_and_another_does_not_replace_it(official, tmp_path):
    first = import_checkpoint("tabicl", official, tmp_path / "mine")
    again = import_checkpoint("tabicl", official, tmp_path / "mine")
    assert again.reused
    assert again.weights_hash == first.weights_hash
    other = write_official(tmp_path / "other.ckpt", seed=1)
    with pytest.raises(CheckpointError, match=r"holds other weights \(official\.ckpt\); choose another name"):
        import_checkpoint("tabicl", other, tmp_path / "mine")
    assert import_checkpoint("tabicl", official, tmp_path / "mine").reused


def test_a_folder_of_other_things_is_left_alone(official, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "draft.txt").write_text("dear")
    with pytest.raises(CheckpointError, match=r"letters"):
        import_checkpoint("tabicl", official, tmp_path / "letters")
    assert (tmp_path / "letters" / "draft.txt").read_text() == "dear"


def test_a_refused_file_leaves_nothing_behind(official, tmp_path):
    official.write_bytes(official.read_bytes()[:4000])
    with pytest.raises(CheckpointError, match=r"official\.ckpt"):
        import_checkpoint("tabicl", official, tmp_path / "out" / "mine")
    assert not (tmp_path / "out").exists()


def test_unknown_kinds_and_files_are_told(official, tmp_path):
    with pytest.raises(InputError, match="did you mean 'tabicl'"):
        import_checkpoint("tabicle", official, tmp_path / "mine")
    with pytest.raises(CheckpointError, match="name the checkpoint that you downloaded"):
        import_checkpoint("tabicl", tmp_path / "nowhere.ckpt", tmp_path / "mine")
