"""Official TabICL checkpoints: both generations are read; what is not one is refused with the reason."""

import os
import pickle

import pytest
import torch
from tests.tiny_tabicl import OFFICIAL, TINY, random_tiny

from priorline.errors import CheckpointError
from priorline.models.tabicl.adapter import read_official


@pytest.fixture
def state():
    return random_tiny(0).state_dict()


@pytest.fixture
def write(tmp_path, state):
    """Return a function: changes of config and state in, path of the file out."""

    def save(config=None, tensors=None, **content):
        path = tmp_path / "official.ckpt"
        torch.save({"config": OFFICIAL | (config or {}), "state_dict": state | (tensors or {}), **content}, path)
        return path

    return save


def test_the_15_keys_of_v1_are_our_defaults(write, state):
    config, tensors = read_official(write(curr_step=7, optimizer_state={"state": {}}))
    assert config == TINY
    assert list(tensors) == list(state)
    assert all(torch.equal(tensors[name], state[name]) for name in state)


def test_half_precision_weights_become_float32(write, state):
    half = {name: tensor.half() for name, tensor in state.items()}
    _, tensors = read_official(write(tensors=half))
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}


class RunsCode:
    def __reduce__(self):
        return os.mkdir, ("hostile",)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_file_with_code_is_refused_and_nothing_of_it_runs(tmp_path, monkeypatch, legacy):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "hostile.ckpt"
    torch.save({"config": RunsCode(), "state_dict": {}}, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(CheckpointError, match=r"hostile\.ckpt is refused, nothing of it was run"):
        read_official(path)
    assert not (tmp_path / "hostile").exists()


@pytest.mark.parametrize("keep", [0, 1, 50, 3000, -1])
def test_a_cut_file_is_refused_by_name(write, keep):
    path = write()
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=r"official\.ckpt"):
        read_official(path)


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\x00" * 999, pickle.dumps([1, 2]), pickle.dumps({"config": {}})])
def test_a_file_of_another_kind_is_refused_by_name(tmp_path, content):
    path = tmp_path / "other.ckpt"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"other\.ckpt"):
        read_official(path)
    with pytest.raises(CheckpointError, match="is not a file"):
        read_official(tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"norm_first": False}, "norm_first=False is not supported; published models have True"),
        ({"activation": "relu"}, "activation='relu' is not supported"),
        ({"icl_ssmax": "ssmax"}, "config cannot be used: icl_ssmax"),
        ({"col_nheads": 4}, "'col_nheads'; did you mean 'col_nhead'"),
        ({"col_feature_group": "valid"}, "col_feature_group='valid' is not supported"),
        ({"embed_dim": "wide"}, "config cannot be used: embed_dim"),
        ({"icl_nhead": 3}, "icl_num_heads=3 must divide the width 16"),
        ({"embed_dim": 16}, "of another shape: col_embedder"),
        ({"icl_num_blocks": 2}, "missing: icl_predictor.tf_icl.blocks.1"),
    ],
)
def test_a_configuration_that_does_not_fit_is_told(write, config, message):
    with pytest.raises(CheckpointError, match=message) as caught:
        read_official(write(config))
    assert "official.ckpt" in str(caught.value)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"extra.weight": torch.ones(2)}, "1 unknown: extra.weight"),
        ({"icl_predictor.ln.weight": [1.0] * 16}, "1 no tensors: icl_predictor.ln.weight"),
        ({"icl_predictor.ln.weight": torch.full((16,), torch.nan)}, "not finite floats: icl_predictor.ln.weight"),
        ({"icl_predictor.ln.weight": torch.ones(16, dtype=torch.int64)}, "not finite floats: icl_predictor.ln.weight"),
    ],
)
def test_weights_that_do_not_fit_are_told(write, tensors, message):
    with pytest.raises(CheckpointError, match=message):
        read_official(write(tensors=tensors))


def test_a_file_without_its_parts_is_told(tmp_path):
    path = tmp_path / "half.ckpt"
    torch.save({"state_dict": {}, "epoch": 3}, path)
    with pytest.raises(CheckpointError, match=r"lacks config \(dict\); it holds state_dict, epoch"):
        read_official(path)
    torch.save({"config": {"dropout": 0.0}, "state_dict": {}}, path)
    with pytest.raises(CheckpointError, match="config lacks max_classes, embed_dim"):
        read_official(path)
