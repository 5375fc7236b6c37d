"""The authors' packages, built to the sizes of our configurations."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from priorline.models.tabicl.config import TabICLConfig


def package_options(config: TabICLConfig) -> dict[str, Any]:
    """Return ``config`` as the keyword arguments of the package's model; a checkpoint's config is the same."""
    names = (
        "max_classes num_quantiles embed_dim col_num_blocks col_num_inds col_affine col_feature_group_size "
        "col_target_aware col_ssmax row_num_blocks row_num_cls row_rope_base row_rope_interleaved icl_num_blocks "
        "icl_ssmax ff_factor dropout bias_free_ln"
    )
    options = {name: getattr(config, name) for name in names.split()}
    options |= {f"{part}_nhead": getattr(config, f"{part}_num_heads") for part in ("col", "row", "icl")}
    return options | {
        "col_feature_group": "same" if config.col_feature_group == "circular" else False,
        "activation": "gelu",
        "norm_first": True,
        "zero_init": False,
        "recompute": False,
    }


def package_model(config: TabICLConfig) -> Any:
    """Return the model of the package tabicl with the options of ``config``, its weights random throughout."""
    from tabicl._model.tabicl import TabICL

    return TabICL(**package_options(config))


def package_prior(
    *, rows: int, columns: int, group: int, train_fractions: tuple[float, float] = (0.1, 0.9)
) -> Callable[[], tuple[Tensor, Tensor, Tensor]]:
    """Return a function that draws ``group`` datasets of the package's v1 prior: x, y, number of columns.

    Version 2.2 of the package switched the causal half of the models off; here it is drawn, as in v1.
    """
    from tabicl.prior._dataset import PriorDataset
    from tabicl.prior._prior_config import DEFAULT_FIXED_HP, DEFAULT_SAMPLED_HP

    fixed, sampled = dict(DEFAULT_FIXED_HP), dict(DEFAULT_SAMPLED_HP)
    fixed.pop("is_causal", None)
    sampled["is_causal"] = {"distribution": "meta_choice", "choice_values": [True, False]}
    dataset = PriorDataset(
        batch_size=group,
        batch_size_per_gp=group,
        min_features=2,
        max_features=columns,
        max_classes=10,
        max_seq_len=rows,
        min_train_size=train_fractions[0],
        max_train_size=train_fractions[1],
        prior_type="mix_scm",
        scm_fixed_hp=fixed,
        scm_sampled_hp=sampled,
        n_jobs=1,
        device="cpu",
    )

    def draw() -> tuple[Tensor, Tensor, Tensor]:
        x_BRC, y_BR, num_columns_B, _, _ = dataset.get_batch()
        return x_BRC, y_BR, num_columns_B

    return draw
