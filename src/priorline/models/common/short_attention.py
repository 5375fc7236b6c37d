"""Attention over few tokens in many sequences, as between the cells of a row.

Shapes: B sequences, H heads, T query tokens, S key tokens, D head dimensions.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_SHORT = 32
"""Tokens up to which products by heads beat torch's tiled kernel on a CPU: forward and backward of 168 sequences
of 24 tokens, 4 heads of 16, take 5 ms, not 9 ms (one core of an AMD EPYC)."""


def attention(query_BHTD: Tensor, key_BHSD: Tensor, value_BHSD: Tensor) -> Tensor:
    """Return (B, H, T, D): scaled dot-product attention without mask, by whichever kernel is faster."""
    if _is_short(query_BHTD, key_BHSD):
        mixed_BHTD: Tensor = _ShortAttention.apply(query_BHTD, key_BHSD, value_BHSD)
        return mixed_BHTD
    return F.scaled_dot_product_attention(query_BHTD, key_BHSD, value_BHSD)


def _is_short(query: Tensor, key: Tensor) -> bool:
    return (
        query.device.type == "cpu"
        and query.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and max(query.shape[2], key.shape[2]) <= _SHORT
        and len(query) > key.shape[2]
    )


class _ShortAttention(Function):
    """Head by head, so that no head's tokens are copied together first; keeps the weights of attention."""

    @staticmethod
    def forward(ctx: Any, query_BHTD: Tensor, key_BHSD: Tensor, value_BHSD: Tensor) -> Tensor:
        batch, heads, tokens, head_dim = query_BHTD.shape
        weights_HBTS = query_BHTD.new_empty(heads, batch, tokens, key_BHSD.shape[2])
        for head, weights_BTS in enumerate(weights_HBTS):
            _product(query_BHTD[:, head], key_BHSD[:, head].mT, weights_BTS, head_dim**-0.5)
        weights_HBTS = weights_HBTS.softmax(dim=-1)
        mixed_HBTD = query_BHTD.new_empty(heads, batch, tokens, head_dim)
        for head, mixed_BTD in enumerate(mixed_HBTD):
            torch.bmm(weights_HBTS[head], value_BHSD[:, head], out=mixed_BTD)
        ctx.save_for_backward(query_BHTD, key_BHSD, value_BHSD, weights_HBTS)
        return mixed_HBTD.transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BHTD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query_BHTD, key_BHSD, value_BHSD, weights_HBTS = ctx.saved_tensors
        scale = query_BHTD.shape[-1] ** -0.5
        grad_weights_HBTS = torch.empty_like(weights_HBTS)
        grads = [part.new_empty(part.transpose(0, 1).shape) for part in (query_BHTD, key_BHSD, value_BHSD)]
        grad_q, grad_k, grad_v = grads
        for head, weights_BTS in enumerate(weights_HBTS):
            torch.bmm(weights_BTS.mT, grad_BHTD[:, head], out=grad_v[head])
            torch.bmm(grad_BHTD[:, head], value_BHSD[:, head].mT, out=grad_weights_HBTS[head])
        grad_scores = torch.ops.aten._softmax_backward_data(grad_weights_HBTS, weights_HBTS, -1, torch.float32)
        for head, grad_BTS in enumerate(grad_scores):
            _product(grad_BTS, key_BHSD[:, head], grad_q[head], scale)
            _product(grad_BTS.mT, query_BHTD[:, head], grad_k[head], scale)
        return grad_q.transpose(0, 1), grad_k.transpose(0, 1), grad_v.transpose(0, 1)


def _product(left: Tensor, right: Tensor, out: Tensor, scale: float) -> None:
    torch.baddbmm(out, left, right, beta=0, alpha=scale, out=out)
