"""A structural causal model whose mechanisms are the layers of a random MLP.

Shapes: R rows, C columns, U units.
Source: TabPFN (arXiv 2207.01848), section 4 and appendix C; TabICL section 4.1.
"""

import math

import numpy as np
import torch
from torch import Tensor

from priorline.priors.activations import draw_activation
from priorline.priors.causes import draw_causes
from priorline.priors.hyperparams import ScmHyperparams


def draw_mlp_table(
    num_rows: int, num_columns: int, hyper: ScmHyperparams, generator: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Return features (R, C) and a continuous target (R,), both float32, before any post-processing.

    Causal: features and target are units of the hidden layers, so a feature may cause the target,
    be caused by it, or share a cause. Not causal: features are the root variables.
    """
    if not hyper.is_causal:
        causes = draw_causes(num_rows, num_columns, hyper, generator)
        outputs = _propagate(causes, hyper.hidden_dim, 1, hyper, generator)
        return causes, outputs[-1][:, 0]
    width = max(hyper.hidden_dim, 1 + 2 * num_columns)
    causes = draw_causes(num_rows, hyper.num_causes, hyper, generator)
    outputs = _propagate(causes, width, width, hyper, generator)
    units = torch.cat(outputs[1:], dim=1)
    return _pick_units(units, num_columns, hyper, generator)


def _propagate(
    causes: Tensor, hidden_dim: int, out_dim: int, hyper: ScmHyperparams, generator: np.random.Generator
) -> list[Tensor]:
    """Return the output of each layer: linear; then activation, linear, noise, ``num_layers - 1`` times."""
    widths = [causes.shape[1], *[hidden_dim] * (hyper.num_layers - 1), out_dim]
    outputs = [_linear(causes, widths[1], hyper, generator, with_dropout=False)]
    for width in widths[2:]:
        activation = draw_activation(hyper.activation_probs, generator)
        linear = _linear(activation(outputs[-1]), width, hyper, generator, with_dropout=True)
        outputs.append(linear + _noise(linear, hyper, generator))
    return outputs


def _linear(
    x_RU: Tensor, width: int, hyper: ScmHyperparams, generator: np.random.Generator, *, with_dropout: bool
) -> Tensor:
    inputs = x_RU.shape[1]
    bound = 1.0 / math.sqrt(inputs)
    if hyper.block_wise_dropout:
        weights = _block_weights(inputs, width, hyper.init_std, generator)
    else:
        drop = min(hyper.dropout_prob, 0.99) if with_dropout else 0.0
        weights = generator.standard_normal((inputs, width), dtype=np.float32)
        weights *= np.float32(hyper.init_std / math.sqrt(1.0 - drop))
        if drop > 0:
            weights *= generator.random((inputs, width), dtype=np.float32) >= drop
    bias = generator.uniform(-bound, bound, size=width).astype(np.float32)
    return torch.addmm(torch.from_numpy(bias), x_RU, torch.from_numpy(weights))


def _block_weights(inputs: int, width: int, init_std: float, generator: np.random.Generator) -> np.ndarray:
    """Return weights that are zero outside blocks on the diagonal: independent sub-graphs."""
    num_blocks = int(generator.integers(1, math.ceil(math.sqrt(min(inputs, width))) + 1))
    height, breadth = inputs // num_blocks, width // num_blocks
    kept = num_blocks * height * breadth / (inputs * width)
    weights = np.zeros((inputs, width), dtype=np.float32)
    for block in range(num_blocks):
        rows = slice(block * height, (block + 1) * height)
        columns = slice(block * breadth, (block + 1) * breadth)
        weights[rows, columns] = generator.normal(0.0, init_std / math.sqrt(kept), size=(height, breadth))
    return weights


def _noise(like: Tensor, hyper: ScmHyperparams, generator: np.random.Generator) -> Tensor:
    noise = generator.standard_normal(like.shape, dtype=np.float32)
    if hyper.pre_sample_noise_std:
        noise *= np.abs(generator.normal(0.0, hyper.noise_std, size=like.shape[1])).astype(np.float32)
    else:
        noise *= np.float32(hyper.noise_std)
    return torch.from_numpy(noise)


def _pick_units(
    units: Tensor, num_columns: int, hyper: ScmHyperparams, generator: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Return C units as features and one other as the target."""
    total = units.shape[1]
    if hyper.in_clique:
        start = int(generator.integers(0, total - num_columns))
        order = start + generator.permutation(num_columns + 1)
    else:
        order = generator.permutation(total)
    features, target = order[:num_columns], order[num_columns]
    if hyper.y_is_effect:
        target = total - 1
        # The target is never one of its own features.
        features = np.where(features == target, order[num_columns], features)
    if hyper.sort_features:
        features = np.sort(features)
    return units[:, torch.from_numpy(np.ascontiguousarray(features))], units[:, int(target)]
