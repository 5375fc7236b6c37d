"""Sizes of TabICL v1 and its named presets."""

from typing import Literal, Self

from pydantic import Field, model_validator

from priorline.models.spec import ModelConfig


class TabICLConfig(ModelConfig):
    """Architecture of TabICL v1; the defaults are the paper's 27.05 M parameters.

    Source: TabICL (arXiv 2502.05564), sections 3 and A.
    """

    kind: Literal["tabicl"] = "tabicl"
    max_classes: int = Field(default=10, ge=2)
    """Classes that one forward pass can tell apart; more go through the class-extension tree."""
    embed_dim: int = Field(default=128, ge=4)
    """Width E of a cell's embedding; the ICL transformer is ``embed_dim * row_num_cls`` wide."""
    col_num_blocks: int = Field(default=3, ge=1)
    """Induced set attention blocks (ISAB) of the column embedding."""
    col_num_heads: int = Field(default=4, ge=1)
    """Attention heads of the column embedding."""
    col_num_inds: int = Field(default=128, ge=1)
    """Inducing points per ISAB."""
    row_num_blocks: int = Field(default=3, ge=1)
    """Blocks of the row interaction."""
    row_num_heads: int = Field(default=8, ge=1)
    """Attention heads of the row interaction."""
    row_num_cls: int = Field(default=4, ge=1)
    """[CLS] tokens per row, concatenated into the row's embedding."""
    row_rope_base: float = Field(default=100_000.0, gt=1)
    """Base of the rotary positions over columns."""
    icl_num_blocks: int = Field(default=12, ge=1)
    """Blocks of the dataset-wise in-context learner."""
    icl_num_heads: int = Field(default=4, ge=1)
    """Attention heads of the in-context learner."""
    ff_factor: int = Field(default=2, ge=1)
    """Width of feed-forward layers over their input."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout probability in attention output and feed-forward layers."""
    zero_init: bool = True
    """Start every residual branch at zero, so that each block begins as the identity."""

    @model_validator(mode="after")
    def _heads_share_widths(self) -> Self:
        # A rotary position turns pairs of a head's dimensions, so TF_row's heads are of even width.
        widths = {
            "col_num_heads": (self.embed_dim, self.col_num_heads),
            "2 * row_num_heads": (self.embed_dim, 2 * self.row_num_heads),
            "icl_num_heads": (self.embed_dim * self.row_num_cls, self.icl_num_heads),
        }
        for name, (width, divisor) in widths.items():
            if width % divisor:
                raise ValueError(f"{name}={divisor} must divide the width {width}; change it or embed_dim")
        return self

    @property
    def most_classes(self) -> int:
        """Most classes of one forward pass."""
        return self.max_classes


def tabicl_v1() -> TabICLConfig:
    """Return the published size: 27.05 M parameters, embedding 128, 3 + 3 + 12 blocks."""
    return TabICLConfig()


def small() -> TabICLConfig:
    """Return 2.5 M parameters: trains in hours on two cores (embedding 64, 2 + 2 + 4 blocks)."""
    return TabICLConfig(embed_dim=64, col_num_blocks=2, row_num_blocks=2, row_num_heads=4, icl_num_blocks=4)


def smoke() -> TabICLConfig:
    """Return a size that learns something in minutes on two cores (embedding 32, 1 + 1 + 3 blocks)."""
    return TabICLConfig(
        embed_dim=32, col_num_blocks=1, col_num_inds=16, row_num_blocks=1, row_num_heads=4, icl_num_blocks=3
    )


PRESETS = {"tabicl-v1": tabicl_v1, "small": small, "smoke": smoke}
