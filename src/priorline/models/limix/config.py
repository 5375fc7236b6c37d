"""Options of LimiX and its named presets."""

from typing import Literal, Self

from pydantic import Field, model_validator

from priorline.models.spec import ModelConfig


class LimiXConfig(ModelConfig):
    """Architecture of LimiX; the defaults are the published 16.5 M parameters.

    Source: LimiX (arXiv 2509.03505); sizes and block orders as its released checkpoints have them.
    """

    kind: Literal["limix"] = "limix"
    max_classes: int = Field(default=10, ge=2)
    """Classes that one forward pass can tell apart."""
    embed_dim: int = Field(default=192, ge=4)
    """Width E of a token."""
    num_blocks: int = Field(default=12, ge=1)
    """Transformer blocks."""
    num_heads: int = Field(default=6, ge=1)
    """Attention heads."""
    ff_dim: int = Field(default=768, ge=1)
    """Hidden width of feed-forward layers."""
    block_order: str = Field(default="fmfmsm", pattern="^[fsm_]+$")
    """Layers of a block in order: feature attention (f), sample attention (s), feed-forward (m).

    ``fmfmsm`` is the released 16M, ``smf`` the released 2M, ``fsf_m`` the report's; ``_`` means nothing.
    """
    pre_norm: bool = True
    """Normalise what enters a layer; else what leaves it."""
    isolate_queries: bool = False
    """Query rows read the context by weights of their own."""
    share_query_keys: bool = True
    """Query rows read the context by its first head's keys and values in every head."""
    columns_per_token: int = Field(default=2, ge=1)
    """Neighbouring columns that share a token."""
    number_embedding: Literal["mlp", "rbf", "linear"] = "mlp"
    """How a number becomes a vector: two layers, radial basis functions of its leading digits, or a linear map."""
    column_code: Literal["orthogonal", "learned_lowrank", "none"] = "orthogonal"
    """What tells columns apart: fixed orthogonal codes, learned codes (both times a learned map), or nothing."""
    max_tokens: int = Field(default=1024, ge=1)
    """Columns over `columns_per_token` at most, where codes are learned."""
    max_categories: int = Field(default=0, ge=0)
    """Categories that the head of masked categorical cells tells apart; 0: no such head, as released."""
    half_precision_labels: bool = False
    """Round embedded labels to float16, as the released code does; for its checkpoints alone."""

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.embed_dim % self.num_heads:
            raise ValueError(f"num_heads={self.num_heads} must divide embed_dim={self.embed_dim}; change one of them")
        if self.embed_dim % 4:
            raise ValueError(f"embed_dim={self.embed_dim} must be a multiple of 4, the width of column codes")
        for letter, name in (("f", "feature attention"), ("s", "sample attention")):
            if letter not in self.block_order:
                raise ValueError(f"block_order={self.block_order!r} has no {name} ({letter}); cells would not meet")
        return self

    @property
    def most_classes(self) -> int:
        """Most classes of one forward pass."""
        return self.max_classes

    @property
    def problem_types(self) -> tuple[str, ...]:
        """What the model predicts."""
        return ("classification", "regression", "imputation")


def limix_16m() -> LimiXConfig:
    """Return the released 16M model: 16.5 M parameters."""
    return LimiXConfig()


def limix_2m() -> LimiXConfig:
    """Return the released 2M model: 2.4 M parameters, radial basis functions, post-norm."""
    return LimiXConfig(
        embed_dim=96,
        ff_dim=384,
        block_order="smf",
        pre_norm=False,
        isolate_queries=True,
        share_query_keys=False,
        number_embedding="rbf",
        column_code="none",
    )


def small() -> LimiXConfig:
    """Return 0.5 M parameters in the report's block order, with learned column codes."""
    return LimiXConfig(
        embed_dim=64,
        num_blocks=6,
        num_heads=4,
        ff_dim=256,
        block_order="fsf_m",
        share_query_keys=False,
        columns_per_token=1,
        column_code="learned_lowrank",
        max_categories=10,
    )


def smoke() -> LimiXConfig:
    """Return a size that learns something in minutes on two cores."""
    return small().model_copy(update={"embed_dim": 32, "num_blocks": 3, "num_heads": 2, "ff_dim": 64})


PRESETS = {"limix-16m": limix_16m, "limix-2m": limix_2m, "small": small, "smoke": smoke}
