"""Two parts of a pre-norm block with a backward pass of their own: less memory and less copying.

Autograd would keep each norm's and each activation's output; here the backward pass computes them
again, which is cheap beside the matrix products. Per token of width E a block then keeps 8 E floats
(input, queries, keys, values, attention output, sum, hidden 2 E), not 12 E; or 6 E, where the hidden
layer too is computed again, for one product in eight more of the forward pass. Queries and keys turn in
place, and gradients of a slice of the tokens are added where they belong, not padded with zeros.
The result is that of the plain composition, which runs where autocast chooses dtypes.

Shapes: B batch, T tokens, E width, F hidden width.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from priorline.models.common.rope import Turns, rotate, rotate_in_place


class Span(NamedTuple):
    """Which tokens ask (``first_query`` to ``last_query``, exclusive) and which are read (to ``num_keys``)."""

    first_query: int
    last_query: int
    num_keys: int


def project(
    x_BTE: Tensor, norm: nn.LayerNorm, weight: Tensor, bias: Tensor, span: Span, num_heads: int, turns: Turns | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values, each (B, tokens of ``span``, E), of the normed tokens.

    ``weight`` (3 E, E) and ``bias`` (3 E,) are packed; ``turns`` are those of all T positions.
    """
    queries, keys, values = _Project.apply(
        x_BTE, norm.weight, norm.bias, weight, bias, norm.eps, span, num_heads, turns
    )
    return queries, keys, values


def feed_forward(
    x_BTE: Tensor, norm: nn.LayerNorm, linear1: nn.Linear, linear2: nn.Linear, keep_hidden: bool
) -> Tensor:
    """Return ``x + linear2(gelu(linear1(norm(x))))``; ``keep_hidden`` trades memory for time."""
    weights = (linear1.weight, linear1.bias, linear2.weight, linear2.bias)
    out: Tensor = _FeedForward.apply(x_BTE, norm.weight, norm.bias, *weights, norm.eps, keep_hidden)
    return out


class _Project(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_BTE: Tensor,
        norm_weight: Tensor,
        norm_bias: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        eps: float,
        span: Span,
        num_heads: int,
        turns: Turns | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(x_BTE, norm_weight, norm_bias, weight)
        ctx.eps, ctx.span, ctx.num_heads, ctx.turns = eps, span, num_heads, turns
        width = x_BTE.shape[-1]
        normed = F.layer_norm(x_BTE, (width,), norm_weight, norm_bias, eps)
        if span == (0, x_BTE.shape[1], x_BTE.shape[1]):
            queries, keys, values = F.linear(normed, weight, bias).split(width, dim=-1)
        else:
            queries = F.linear(normed[:, span.first_query : span.last_query], weight[:width], bias[:width])
            keys, values = F.linear(normed[:, : span.num_keys], weight[width:], bias[width:]).split(width, dim=-1)
        if turns is not None:
            for part, places in ((queries, turns[span.first_query : span.last_query]), (keys, turns[: span.num_keys])):
                rotate_in_place(part.unflatten(-1, (num_heads, -1)).transpose(1, 2), places)
        return queries, keys, values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_q: Tensor, grad_k: Tensor, grad_v: Tensor) -> tuple[Tensor | None, ...]:
        x_BTE, norm_weight, norm_bias, weight = ctx.saved_tensors
        (first, last, num_keys), (batch, tokens, width) = ctx.span, x_BTE.shape
        if ctx.turns is not None:
            back = ctx.turns.back()
            grad_q = _rotated(grad_q, ctx.num_heads, back[first:last])
            grad_k = _rotated(grad_k, ctx.num_heads, back[:num_keys])
        normed, mean, rstd = torch.native_layer_norm(x_BTE, (width,), norm_weight, norm_bias, ctx.eps)
        asking, read = normed[:, first:last].flatten(0, 1), normed[:, :num_keys].flatten(0, 1)
        grads = [grad.flatten(0, 1) for grad in (grad_q, grad_k, grad_v)]
        grad_weight = torch.empty_like(weight)
        for grad, source, rows in zip(grads, (asking, read, read), grad_weight.split(width), strict=True):
            torch.mm(grad.T, source, out=rows)
        grad_bias = torch.cat([grad.sum(dim=0) for grad in grads])
        weight_q, weight_k, weight_v = weight.split(width)
        from_queries = (grads[0] @ weight_q).view(batch, -1, width)
        from_keys = (grads[1] @ weight_k).addmm_(grads[2], weight_v).view(batch, -1, width)
        if last - first == tokens:
            grad_normed = from_queries
            grad_normed[:, :num_keys] += from_keys
        elif num_keys == tokens:
            grad_normed = from_keys
            grad_normed[:, first:last] += from_queries
        else:
            grad_normed = torch.zeros_like(x_BTE)
            grad_normed[:, :num_keys] += from_keys
            grad_normed[:, first:last] += from_queries
        grad_x, grad_norm_weight, grad_norm_bias = _norm_backward(
            grad_normed, x_BTE, mean, rstd, norm_weight, norm_bias, ctx.needs_input_grad[0]
        )
        return grad_x, grad_norm_weight, grad_norm_bias, grad_weight, grad_bias, None, None, None, None


class _FeedForward(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_BTE: Tensor,
        norm_weight: Tensor,
        norm_bias: Tensor | None,
        weight1: Tensor,
        bias1: Tensor,
        weight2: Tensor,
        bias2: Tensor,
        eps: float,
        keep_hidden: bool,
    ) -> Tensor:
        normed = F.layer_norm(x_BTE, x_BTE.shape[-1:], norm_weight, norm_bias, eps)
        hidden_BTF = F.linear(normed, weight1, bias1)
        kept = hidden_BTF if keep_hidden else None
        ctx.save_for_backward(x_BTE, kept, norm_weight, norm_bias, weight1, bias1, weight2)
        ctx.eps = eps
        return F.linear(F.gelu(hidden_BTF), weight2, bias2).add_(x_BTE)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_BTE: Tensor) -> tuple[Tensor | None, ...]:
        x_BTE, hidden_BTF, norm_weight, norm_bias, weight1, bias1, weight2 = ctx.saved_tensors
        grad = grad_BTE.reshape(-1, x_BTE.shape[-1])
        normed, mean, rstd = torch.native_layer_norm(x_BTE, x_BTE.shape[-1:], norm_weight, norm_bias, ctx.eps)
        hidden = (F.linear(normed, weight1, bias1) if hidden_BTF is None else hidden_BTF).flatten(0, -2)
        grad_weight2 = grad.T @ F.gelu(hidden)
        grad_hidden = torch.ops.aten.gelu_backward(grad @ weight2, hidden)
        grad_weight1 = grad_hidden.T @ normed.flatten(0, -2)
        grad_x, grad_norm_weight, grad_norm_bias = _norm_backward(
            (grad_hidden @ weight1).view_as(x_BTE), x_BTE, mean, rstd, norm_weight, norm_bias, ctx.needs_input_grad[0]
        )
        if grad_x is not None:
            grad_x += grad_BTE
        return (
            grad_x,
            grad_norm_weight,
            grad_norm_bias,
            grad_weight1,
            grad_hidden.sum(dim=0),
            grad_weight2,
            grad.sum(dim=0),
            None,
            None,
        )


def _rotated(x_BTE: Tensor, num_heads: int, turns: Turns) -> Tensor:
    heads_BTHD = x_BTE.unflatten(-1, (num_heads, -1))
    return rotate(heads_BTHD.transpose(1, 2), turns).transpose(1, 2).flatten(2)


def _norm_backward(
    grad: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor, bias: Tensor | None, wanted: bool
) -> tuple[Tensor | None, Tensor, Tensor | None]:
    found: tuple[Tensor | None, Tensor, Tensor | None] = torch.ops.aten.native_layer_norm_backward(
        grad, x, x.shape[-1:], mean, rstd, weight, bias, [wanted, True, bias is not None]
    )
    return found
