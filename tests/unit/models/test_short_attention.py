"""Attention over few tokens: torch's result and gradients, for any strides."""

import pytest
import torch
import torch.nn.functional as F

from priorline.models.common import short_attention
from priorline.models.common.short_attention import attention


@pytest.mark.parametrize(("tokens", "keys"), [(5, 5), (3, 9), (32, 32), (1, 7)])
@pytest.mark.parametrize("packed", [True, False])
def test_results_and_gradients_are_torchs(tokens, keys, packed, monkeypatch):
    calls = []
    real = short_attention._ShortAttention.apply
    monkeypatch.setattr(short_attention._ShortAttention, "apply", lambda *parts: calls.append(1) or real(*parts))
    torch.manual_seed(0)
    query_BHTD = torch.randn(50, tokens, 3, 8).transpose(1, 2)
    both = torch.randn(50, keys, 48) if packed else torch.randn(50, 6, keys, 8)
    if packed:
        key_BHSD, value_BHSD = (part.unflatten(-1, (3, 8)).transpose(1, 2) for part in both.split(24, -1))
    else:
        key_BHSD, value_BHSD = both.split(3, 1)
    weights = torch.randn(50, 3, tokens, 8)
    found = []
    for function in (attention, F.scaled_dot_product_attention):
        parts = [part.detach().requires_grad_() for part in (query_BHTD, key_BHSD, value_BHSD)]
        mixed = function(*parts)
        found.append((mixed, *torch.autograd.grad((mixed * weights).sum(), parts)))
    assert calls == [1]
    for ours, torchs in zip(*found, strict=True):
        torch.testing.assert_close(ours, torchs, atol=2e-6, rtol=1e-5)


def test_many_tokens_and_other_dtypes_go_to_torch(monkeypatch):
    monkeypatch.setattr(short_attention._ShortAttention, "apply", None)
    for part in (torch.randn(90, 2, 33, 4), torch.randn(90, 2, 5, 4).double(), torch.randn(3, 2, 5, 4)):
        torch.testing.assert_close(attention(part, part, part), F.scaled_dot_product_attention(part, part, part))
