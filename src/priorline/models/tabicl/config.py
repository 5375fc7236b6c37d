"""Options of TabICL, v1 and v2, and its named presets."""

from typing import Literal, Self

from pydantic import Field, model_validator

from priorline.models.spec import ModelConfig

ScalableSoftmax = Literal["none", "qassmax-mlp-elementwise"]


class TabICLConfig(ModelConfig):
    """Architecture of TabICL; the defaults are v1 as published, 27.05 M parameters.

    Source: TabICL (arXiv 2502.05564), sections 3 and A; options of v2: TabICLv2 (arXiv 2602.11139).
    """

    kind: Literal["tabicl"] = "tabicl"
    max_classes: int = Field(default=10, ge=0)
    """Classes that one forward pass can tell apart; more go through the class-extension tree. 0: a regressor."""
    num_quantiles: int = Field(default=999, ge=1)
    """Quantiles that a regressor predicts, at levels i / (num_quantiles + 1)."""
    embed_dim: int = Field(default=128, ge=4)
    """Width E of a cell's embedding; the ICL transformer is ``embed_dim * row_num_cls`` wide."""
    col_num_blocks: int = Field(default=3, ge=1)
    """Induced set attention blocks (ISAB) of the column embedding."""
    col_num_heads: int = Field(default=4, ge=1)
    """Attention heads of the column embedding."""
    col_num_inds: int = Field(default=128, ge=1)
    """Inducing points per ISAB."""
    col_affine: bool = True
    """A cell's embedding is its value times a weight plus a bias from the set transformer; else its output."""
    col_feature_group: Literal["none", "circular"] = "none"
    """circular: column j is embedded together with columns j + 1, j + 2, j + 4 ... modulo C."""
    col_feature_group_size: int = Field(default=3, ge=1)
    """Columns of a circular group."""
    col_target_aware: bool = False
    """Train rows enter the set transformer with their label added."""
    col_ssmax: ScalableSoftmax = "none"
    """How inducing points sharpen their attention with the number of train rows."""
    row_num_blocks: int = Field(default=3, ge=1)
    """Blocks of the row interaction."""
    row_num_heads: int = Field(default=8, ge=1)
    """Attention heads of the row interaction."""
    row_num_cls: int = Field(default=4, ge=1)
    """[CLS] tokens per row, concatenated into the row's embedding."""
    row_rope_base: float = Field(default=100_000.0, gt=1)
    """Base of the rotary positions over columns."""
    row_rope_interleaved: bool = True
    """Rotary positions turn dimensions (2i, 2i + 1); else (i, i + D / 2)."""
    icl_num_blocks: int = Field(default=12, ge=1)
    """Blocks of the dataset-wise in-context learner."""
    icl_num_heads: int = Field(default=4, ge=1)
    """Attention heads of the in-context learner."""
    icl_ssmax: ScalableSoftmax = "none"
    """How the in-context learner sharpens its attention with the number of train rows."""
    ff_factor: int = Field(default=2, ge=1)
    """Width of feed-forward layers over their input."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout probability in attention output and feed-forward layers."""
    bias_free_ln: bool = False
    """Layer norms without a bias."""
    zero_init: bool = True
    """Start every residual branch at zero, so that each block begins as the identity."""

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        # A rotary position turns pairs of a head's dimensions, so TF_row's heads are of even width.
        widths = {
            "col_num_heads": (self.embed_dim, self.col_num_heads),
            "2 * row_num_heads": (self.embed_dim, 2 * self.row_num_heads),
            "icl_num_heads": (self.embed_dim * self.row_num_cls, self.icl_num_heads),
        }
        for name, (width, divisor) in widths.items():
            if width % divisor:
                raise ValueError(f"{name}={divisor} must divide the width {width}; change it or embed_dim")
        if self.max_classes == 1:
            raise ValueError("max_classes=1 tells nothing apart; give at least 2, or 0 for a regressor")
        if self.col_affine and self.col_feature_group != "none":
            raise ValueError("col_affine=true needs col_feature_group=none: a group has no single value to scale")
        return self

    @property
    def most_classes(self) -> int | None:
        """Most classes of one forward pass; None: a regressor."""
        return self.max_classes or None

    @property
    def problem_types(self) -> tuple[str, ...]:
        """What the model predicts."""
        return ("classification",) if self.max_classes else ("regression",)

    @property
    def shares_column_embedding(self) -> bool:
        """Whether a column's embedding depends neither on its neighbours nor on the labels."""
        return self.col_feature_group == "none" and not self.col_target_aware


def tabicl_v1() -> TabICLConfig:
    """Return the published size: 27.05 M parameters, embedding 128, 3 + 3 + 12 blocks."""
    return TabICLConfig()


def tabicl_v2() -> TabICLConfig:
    """Return v2's classifier: circular groups, labels in the columns, scalable softmax, half-split rotary positions."""
    return TabICLConfig(
        col_num_heads=8,
        col_affine=False,
        col_feature_group="circular",
        col_target_aware=True,
        col_ssmax="qassmax-mlp-elementwise",
        row_rope_interleaved=False,
        icl_num_heads=8,
        icl_ssmax="qassmax-mlp-elementwise",
        zero_init=False,
    )


def tabicl_v2_regressor() -> TabICLConfig:
    """Return v2's regressor: `tabicl_v2` with 999 quantiles in place of classes, norms without bias."""
    return tabicl_v2().model_copy(update={"max_classes": 0, "bias_free_ln": True})


def small() -> TabICLConfig:
    """Return 2.5 M parameters: trains in hours on two cores (embedding 64, 2 + 2 + 4 blocks)."""
    return TabICLConfig(embed_dim=64, col_num_blocks=2, row_num_blocks=2, row_num_heads=4, icl_num_blocks=4)


def smoke() -> TabICLConfig:
    """Return a size that learns something in minutes on two cores (embedding 32, 1 + 1 + 3 blocks)."""
    return TabICLConfig(
        embed_dim=32, col_num_blocks=1, col_num_inds=16, row_num_blocks=1, row_num_heads=4, icl_num_blocks=3
    )


PRESETS = {
    "tabicl-v1": tabicl_v1,
    "tabicl-v2": tabicl_v2,
    "tabicl-v2-regressor": tabicl_v2_regressor,
    "small": small,
    "smoke": smoke,
}
