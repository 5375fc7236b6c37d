"""Cells and labels to tokens: numbers, missing cells, neighbouring columns, column codes.

Shapes: B tables, R rows = N context + M query, C columns, T column tokens, G columns per token, E width.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from priorline.models.limix.config import LimiXConfig
from priorline.seeding import derive_seed

_NUM_KERNELS, _LARGEST_MANTISSA, _KERNEL_STD = 64, 10.0, 0.5
_DIGIT_WIDTH, _LARGEST_EXPONENT = 16, 9
_Z_LIMIT = 100.0
"""Standard deviations beyond which a cell is cut."""
_QUERY_FLAG = -2.0
"""Marks a value that is not known, beside the context's mean in its place."""


class MlpNumber(nn.Sequential):
    """Number to vector by two layers."""

    def __init__(self, width: int) -> None:
        half = width // 2
        super().__init__(
            nn.Linear(1, half), nn.LayerNorm(half), nn.ReLU(), nn.Linear(half, width), nn.LayerNorm(width), nn.ReLU()
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., E) for numbers (...)."""
        out: Tensor = super().forward(x[..., None])
        return out


class RbfNumber(nn.Module):
    """Number to vector by radial basis functions of its mantissa, gated by sign and exponent.

    Source: LimiX-2M (arXiv 2606.04485), RaBEL.
    """

    centers: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        centers = torch.linspace(0.0, _LARGEST_MANTISSA, _NUM_KERNELS, dtype=torch.float64)
        self.register_buffer("centers", centers, persistent=False)
        self.sign_embedding = nn.Embedding(2, _DIGIT_WIDTH)
        self.exp_sign_embedding = nn.Embedding(2, _DIGIT_WIDTH)
        self.exp_digit_embedding = nn.Embedding(10, _DIGIT_WIDTH)
        for table in (self.sign_embedding, self.exp_sign_embedding, self.exp_digit_embedding):
            table.requires_grad_(False)
        self.gate_mlp = nn.Sequential(
            nn.Linear(3 * _DIGIT_WIDTH, 4 * _DIGIT_WIDTH), nn.GELU(), nn.Linear(4 * _DIGIT_WIDTH, 2 * _NUM_KERNELS)
        )
        self.norm = nn.LayerNorm(_NUM_KERNELS)
        self.out_layer = nn.Linear(_NUM_KERNELS, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return (..., E) for numbers (...)."""
        # Double precision: a mantissa next to a power of ten must not fall on its other side.
        size = x.detach().double().abs()
        exponent = torch.where(size == 0, torch.ones_like(size), size).log10().floor()
        exponent = exponent.clamp(-_LARGEST_EXPONENT, _LARGEST_EXPONENT)
        mantissa = size / 10.0**exponent
        kernels = torch.exp(-((mantissa[..., None] - self.centers) ** 2) / (2 * _KERNEL_STD**2)).to(x.dtype)
        digits = (
            self.sign_embedding((x < 0).long()),
            self.exp_sign_embedding((exponent < 0).long()),
            self.exp_digit_embedding(exponent.abs().long()),
        )
        scale, shift = self.gate_mlp(torch.cat(digits, dim=-1)).chunk(2, dim=-1)
        out: Tensor = self.out_layer(self.norm(kernels * scale.sigmoid() + shift.tanh()))
        return out


class CellEmbedding(nn.Module):
    """Tokens of ``columns_per_token`` neighbouring columns; a missing cell is one learned vector."""

    def __init__(self, config: LimiXConfig) -> None:
        super().__init__()
        width = config.embed_dim
        self.columns_per_token = config.columns_per_token
        self.mask_embedding = nn.Parameter(torch.randn(width))
        self.numeric_mlp = MlpNumber(width) if config.number_embedding == "mlp" else RbfNumber(width)
        self.fusion_network = nn.Sequential(
            nn.Linear(self.columns_per_token * width, width),
            nn.LayerNorm(width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.LayerNorm(width),
        )

    def forward(self, z_BRC: Tensor, is_missing_BRC: Tensor) -> Tensor:
        """Return (B, R, T, E) for standardised cells whose columns fill whole tokens."""
        cells_BRCE = self.numeric_mlp(z_BRC.masked_fill(is_missing_BRC, 0.0))
        cells_BRCE = torch.where(is_missing_BRC[..., None], self.mask_embedding, cells_BRCE)
        tokens_BRTE: Tensor = self.fusion_network(cells_BRCE.unflatten(2, (-1, self.columns_per_token)).flatten(3))
        return tokens_BRTE


class LinearCells(nn.Module):
    """Tokens as a linear map of their columns' numbers and of flags for missing ones.

    Keeps the size of a number, which the norms of `CellEmbedding` squeeze. Source: TabPFN v2's encoder.
    """

    def __init__(self, config: LimiXConfig) -> None:
        super().__init__()
        self.columns_per_token = config.columns_per_token
        self.map = nn.Linear(2 * config.columns_per_token, config.embed_dim)

    def forward(self, z_BRC: Tensor, is_missing_BRC: Tensor) -> Tensor:
        """Return (B, R, T, E) for standardised cells whose columns fill whole tokens."""
        both_BRC2 = torch.stack((z_BRC.masked_fill(is_missing_BRC, 0.0), is_missing_BRC.to(z_BRC.dtype)), dim=-1)
        tokens_BRTE: Tensor = self.map(both_BRC2.unflatten(2, (-1, self.columns_per_token)).flatten(3))
        return tokens_BRTE


class ColumnCodes(nn.Module):
    """What tells column tokens apart: codes of a quarter of the width times a learned map (the report's C W_c).

    Differs: the released code draws new codes at every call, so that no answer comes twice; here a
    token's code depends on its place alone.
    """

    codes: Tensor

    def __init__(self, config: LimiXConfig) -> None:
        super().__init__()
        code_dim = config.embed_dim // 4
        if config.column_code == "learned_lowrank":
            self.codes = nn.Parameter(torch.empty(config.max_tokens, code_dim))
            nn.init.normal_(self.codes, std=code_dim**-0.5)
        else:
            self.register_buffer("codes", _orthogonal_codes(config.max_tokens, code_dim), persistent=False)
        self.map = nn.Linear(code_dim, config.embed_dim)

    def forward(self, num_tokens: int) -> Tensor:
        """Return (T, E)."""
        codes_TK = self.codes[torch.arange(num_tokens, device=self.codes.device) % len(self.codes)]
        out_TE: Tensor = self.map(codes_TK)
        return out_TE


class LabelEmbedding(nn.Module):
    """Token of the label: a class, a value, or not known."""

    def __init__(self, config: LimiXConfig) -> None:
        super().__init__()
        self.rounds = config.half_precision_labels
        both = torch.empty(config.max_classes + 1, config.embed_dim)
        nn.init.orthogonal_(both)
        self.class_embedding = nn.Parameter(both[:-1].clone())
        self.unknown_class = nn.Parameter(both[-1].clone())
        self.value = nn.Linear(2, config.embed_dim)

    def forward(self, y_BN: Tensor, num_rows: int, is_class: bool) -> Tensor:
        """Return (B, R, E): the labels of context rows, and the sign of unknown for all rows after them."""
        rest = num_rows - y_BN.shape[1]
        if is_class:
            known_BNE = self.class_embedding[y_BN.long()]
            unknown_BME = self.unknown_class.expand(len(y_BN), rest, -1)
        else:
            y_BN = y_BN.to(self.value.weight.dtype)
            known_BNE = self.value(torch.stack((y_BN, torch.zeros_like(y_BN)), dim=-1))
            mean_BM = y_BN.mean(dim=1, keepdim=True).expand(-1, rest)
            unknown_BME = self.value(torch.stack((mean_BM, torch.full_like(mean_BM, _QUERY_FLAG)), dim=-1))
        label_BRE = torch.cat((known_BNE, unknown_BME), dim=1)
        return label_BRE.half().to(label_BRE.dtype) if self.rounds else label_BRE


class StandardCells(NamedTuple):
    """A table's cells on the scale of its context; columns padded to whole tokens."""

    z_BRC: Tensor
    """Finite."""
    scale_BC: Tensor
    """By which z-scores were multiplied."""
    is_missing_BRC: Tensor
    """Cells that were NaN or infinite."""
    mean_BC: Tensor
    """Of the context's known cells."""
    std_BC: Tensor
    """Of the context, missing cells counted as the mean."""


def standardise(x_BRC: Tensor, train_size: int, columns_per_token: int) -> StandardCells:
    """Return z-scores by the context's mean and deviation, and which cells are missing.

    All statistics come from the context's rows, so that a query row says nothing about another.
    Columns are padded with zeros to whole tokens, and a token with fewer varying columns weighs them more.
    """
    x_BRC = F.pad(x_BRC, (0, -x_BRC.shape[2] % columns_per_token))
    is_missing_BRC = ~x_BRC.isfinite()
    known_BNC = ~is_missing_BRC[:, :train_size]
    filled_BRC = x_BRC.masked_fill(is_missing_BRC, 0.0)
    mean_B1C = filled_BRC[:, :train_size].sum(dim=1, keepdim=True) / known_BNC.sum(dim=1, keepdim=True).clamp(min=1)
    filled_BRC = torch.where(is_missing_BRC, mean_B1C, filled_BRC)
    std_B1C = filled_BRC[:, :train_size].std(dim=1, keepdim=True)
    z_BRC = ((filled_BRC - mean_B1C) / (std_B1C + 1e-20)).clamp(-_Z_LIMIT, _Z_LIMIT)
    varies_BC = (z_BRC[:, :train_size] != z_BRC[:, :1]).any(dim=1)
    num_varying_BT = varies_BC.unflatten(1, (-1, columns_per_token)).sum(dim=2).clamp(min=1)
    scale_BC = (columns_per_token / num_varying_BT).sqrt().repeat_interleave(columns_per_token, dim=1)
    return StandardCells(z_BRC * scale_BC[:, None], scale_BC, is_missing_BRC, mean_B1C[:, 0], std_B1C[:, 0])


def _orthogonal_codes(num_tokens: int, code_dim: int) -> Tensor:
    """Return (T, K) codes: blocks of K orthogonal rows, the same on every machine and for every number of tokens."""
    blocks = []
    for block in range(-(-num_tokens // code_dim)):
        generator = torch.Generator().manual_seed(derive_seed(0, "limix column codes", block))
        blocks.append(torch.linalg.qr(torch.randn(code_dim, code_dim, generator=generator))[0])
    return torch.cat(blocks)[:num_tokens]
