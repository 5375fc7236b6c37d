"""A structural causal model whose mechanisms are the layers of a random MLP.

Shapes: B tables, U units, R rows, C columns. The tables of a group have one width and depth, so that
their networks run side by side; units come before rows: each holds its rows together in memory.
Source: TabPFN (arXiv 2207.01848), section 4 and appendix C; TabICL section 4.1.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from priorline.priors.activations import activate
from priorline.priors.causes import draw_causes, torch_generator_from
from priorline.priors.hyperparams import ScmConfig, ScmHyperparams

MAX_DROPOUT_PROB = 0.99
"""Weights are never all dropped on purpose."""


def draw_mlp_tables(
    num_tables: int,
    num_rows: int,
    num_columns: int,
    config: ScmConfig,
    hyper: ScmHyperparams,
    generator: np.random.Generator,
) -> tuple[Tensor, Tensor]:
    """Return features (B, C, R) and continuous targets (B, R), both float32, before any post-processing.

    Causal: features and target are units of the hidden layers, so a feature may cause the target,
    be caused by it, or share a cause. Not causal: features are the root variables.
    """
    causes_BUR = draw_causes(
        num_tables,
        hyper.num_causes if hyper.is_causal else num_columns,
        num_rows,
        hyper.cause_sampling,
        hyper.pre_sample_cause_stats,
        config.causes,
        generator,
    )
    network = _Network(config, hyper, hyper.activation_probs.cumsum(), generator, torch_generator_from(generator))
    if hyper.is_causal:
        width = max(hyper.hidden_dim, 1 + 2 * num_columns)
        num_units = width * (hyper.num_layers - 1)
        places_BC = np.stack([pick_units(num_units, num_columns, hyper, generator) for _ in range(num_tables)])
        chosen_BCR = _hidden_units(causes_BUR, width, places_BC, network)
        return chosen_BCR[:, :-1], chosen_BCR[:, -1]
    layer_BUR = network.linear(causes_BUR, hyper.hidden_dim, has_dropout=False)
    for _ in range(hyper.num_layers - 1):
        layer_BUR = network.mechanism(layer_BUR, hyper.hidden_dim)
    return causes_BUR, network.mechanism(layer_BUR, 1)[:, 0]


def pick_units(num_units: int, num_columns: int, hyper: ScmHyperparams, generator: np.random.Generator) -> np.ndarray:
    """Return the places of C features and, last, of the target among the units of all hidden layers.

    Differs: with both ``in_clique`` and ``y_is_effect`` the released code can hand out the target as
    one of its own features; here another unit of the clique takes that feature's place.
    """
    last = num_units - 1
    if hyper.in_clique:
        start = int(generator.integers(0, num_units - num_columns))
        order = start + generator.permutation(num_columns + 1)
    else:
        order = generator.permutation(last)[: num_columns + 1]
    target = last if hyper.y_is_effect else int(order[0])
    features = np.where(order[1:] == target, order[0], order[1:])
    if hyper.sort_features:
        features.sort()
    return np.append(features, target)


def _hidden_units(causes_BUR: Tensor, width: int, places_BC: np.ndarray, network: "_Network") -> Tensor:
    """Return the units at ``places`` of the hidden layers laid end to end, (B, C, R).

    Nothing follows the last layer, so only its chosen units are computed.
    """
    layers = [network.linear(causes_BUR, width, has_dropout=False)]
    for _ in range(network.hyper.num_layers - 2):
        layers.append(network.mechanism(layers[-1], width))
    first = width * (network.hyper.num_layers - 2)
    in_last_BC = places_BC >= first
    # Each table's chosen units of the last layer, ahead of as many others as the fullest table needs.
    num_last = int(in_last_BC.sum(axis=1).max())
    order_BC = np.argsort(~in_last_BC, axis=1, kind="stable")[:, :num_last]
    units_BK = np.maximum(np.take_along_axis(places_BC, order_BC, axis=1) - first, 0)
    if num_last:
        layers.append(network.mechanism(layers[-1], width, torch.from_numpy(units_BK)))
    rank_BC = in_last_BC.cumsum(axis=1) - 1
    index_BC = torch.from_numpy(np.where(in_last_BC, first + rank_BC, places_BC))
    units_BUR = torch.cat(layers[1:], dim=1)
    return torch.stack([units_UR[index_C] for units_UR, index_C in zip(units_BUR, index_BC, strict=True)])


@dataclass(frozen=True, slots=True)
class _Network:
    """Random layers with the hyper-parameters of one group."""

    config: ScmConfig
    hyper: ScmHyperparams
    cumulative_probs: np.ndarray
    """Of the entries of `ActivationConfig`."""
    generator: np.random.Generator
    bulk: torch.Generator
    """For weights and noise."""

    def mechanism(self, x_BUR: Tensor, width: int, units_BK: Tensor | None = None) -> Tensor:
        """Return activation, linear map to ``width`` units and noise; of units ``units_BK`` alone if given."""
        active_BUR = activate(x_BUR, self.cumulative_probs, self.config.activations, self.generator)
        out_BUR = self.linear(active_BUR, width, has_dropout=True, units_BK=units_BK)
        noise_BUR = torch.empty_like(out_BUR).normal_(generator=self.bulk)
        if not self.hyper.pre_sample_noise_std:
            return out_BUR.add_(noise_BUR, alpha=self.hyper.noise_std)
        std_BU1 = np.abs(self.generator.normal(0.0, self.hyper.noise_std, size=(*out_BUR.shape[:2], 1)))
        return out_BUR.addcmul_(noise_BUR, torch.from_numpy(std_BU1.astype(np.float32)))

    def linear(self, x_BUR: Tensor, width: int, *, has_dropout: bool, units_BK: Tensor | None = None) -> Tensor:
        """Return each table's random affine map, (B, width, R) or (B, K, R)."""
        tables, inputs, _ = x_BUR.shape
        weights_BWU = torch.empty(tables, width, inputs).normal_(generator=self.bulk)
        if self.hyper.block_wise_dropout:
            weights_BWU *= self._block_std(tables, width, inputs)
        else:
            drop = min(self.hyper.dropout_prob, MAX_DROPOUT_PROB) if has_dropout else 0.0
            weights_BWU *= self.hyper.init_std / math.sqrt(1.0 - drop)
            if drop > 0:
                weights_BWU *= torch.rand(weights_BWU.shape, generator=self.bulk) >= drop
        bound = 1.0 / math.sqrt(inputs)
        bias_BW1 = torch.empty(tables, width, 1).uniform_(-bound, bound, generator=self.bulk)
        if units_BK is not None:
            weights_BWU = weights_BWU.gather(1, units_BK[:, :, None].expand(-1, -1, inputs))
            bias_BW1 = bias_BW1.gather(1, units_BK[:, :, None])
        return torch.baddbmm(bias_BW1, weights_BWU, x_BUR)

    def _block_std(self, tables: int, width: int, inputs: int) -> Tensor:
        """Return deviations of weights, zero outside blocks on the diagonal: independent sub-graphs."""
        most = math.ceil(math.sqrt(min(width, inputs)))
        num_blocks_B11 = self.generator.integers(1, most + 1, size=(tables, 1, 1))
        height_B11, breadth_B11 = width // num_blocks_B11, inputs // num_blocks_B11
        row_block = np.arange(width)[:, None] // height_B11
        is_kept_BWU = (row_block == np.arange(inputs) // breadth_B11) & (row_block < num_blocks_B11)
        kept_B11 = num_blocks_B11 * height_B11 * breadth_B11 / (width * inputs)
        std_B11 = (self.hyper.init_std / np.sqrt(kept_B11)).astype(np.float32)
        return torch.from_numpy(is_kept_BWU * std_B11)
