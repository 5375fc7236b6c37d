"""The hand-written backward passes against autograd on the plain composition."""

import pytest
import torch
import torch.nn.functional as F

from priorline.models.common.attention import AttentionBlock
from priorline.models.common.rope import RotaryPositions


def gradients(block, call, lean, monkeypatch):
    if not lean:
        monkeypatch.setattr("priorline.models.common.attention._lean", lambda x: False)
    x_BTE = torch.randn(3, 10, 16, generator=torch.Generator().manual_seed(1)).requires_grad_()
    block.zero_grad()
    out = call(block, x_BTE)
    (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(2))).sum().backward()
    return [out.detach(), x_BTE.grad, *(p.grad for p in block.parameters())]


CALLS = {
    "all tokens": lambda block, x: block.attend_prefix(x, 10),
    "prefix": lambda block, x: block.attend_prefix(x, 6),
    "last tokens ask": lambda block, x: block.attend_prefix(x, 6, 6),
    "rotary": lambda block, x: block.attend_rotary(x, RotaryPositions(4, 100.0)(10), 10),
    "rotary halves": lambda block, x: block.attend_rotary(x, RotaryPositions(4, 100.0, interleaved=False)(10), 10),
    "rotary, first tokens ask": lambda block, x: block.attend_rotary(x, RotaryPositions(4, 100.0)(10), 2),
    "other tokens": lambda block, x: block(x[:, :4], x[:, 4:]),
    "one set of queries": lambda block, x: block(x[:1, :4], x[:, 4:]),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("options", [{}, {"norm_bias": False, "query_scaling": True, "keep_hidden": False}])
def test_results_and_gradients_are_those_of_the_plain_composition(call, options, monkeypatch):
    torch.manual_seed(0)
    block = AttentionBlock(16, 4, 32, 0.0, False, **options)
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    found = gradients(block, CALLS[call], True, monkeypatch)
    wanted = gradients(block, CALLS[call], False, monkeypatch)
    for got, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, expected, atol=2e-4, rtol=1e-4)


def test_frozen_weights_get_no_gradient_and_pass_it_on():
    block = AttentionBlock(16, 4, 32, 0.0, False).requires_grad_(False)
    x_BTE = torch.randn(2, 5, 16, requires_grad=True)
    block.attend_prefix(x_BTE, 5).sum().backward()
    assert x_BTE.grad.any()
    assert all(parameter.grad is None for parameter in block.parameters())


def kept_floats(block, x_BTE):
    """Return floats that wait for the backward pass, weights not counted."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in block.parameters()}
    found = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = storage.nbytes() // 4
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        block.attend_prefix(x_BTE, x_BTE.shape[1])
    return sum(found.values())


@pytest.mark.parametrize(("keep_hidden", "floats"), [(True, 8), (False, 6)])
def test_a_block_keeps_as_many_floats_as_it_says(keep_hidden, floats):
    block = AttentionBlock(64, 4, 128, 0.0, False, keep_hidden=keep_hidden)
    x_BTE = torch.randn(2, 100, 64, requires_grad=True)
    # Beside multiples of the width: a log-sum per head, and a random seed.
    assert floats <= kept_floats(block, x_BTE) / x_BTE.numel() < floats + 0.2


def test_dropout_takes_the_plain_way():
    block = AttentionBlock(16, 4, 32, 0.5, False).train()
    x_BTE = torch.randn(2, 5, 16)
    assert not torch.equal(block.attend_prefix(x_BTE, 5), block.attend_prefix(x_BTE, 5))
    block.eval()
    plain = block.attend_prefix(x_BTE, 5)
    assert torch.equal(plain, block.attend_prefix(x_BTE, 5))
    assert F.mse_loss(plain, x_BTE) > 0
