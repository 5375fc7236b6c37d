"""LimiX: masked in-context learning over the rows and features of a table."""

from priorline.models.limix.adapter import read_official
from priorline.models.limix.config import PRESETS, LimiXConfig
from priorline.models.limix.model import LimiX
from priorline.models.spec import ModelSpec

SPEC = ModelSpec(
    kind="limix",
    title="LimiX",
    config_class=LimiXConfig,
    presets=dict(PRESETS),
    build=LimiX,
    objective="masked_modelling",
    parts=(
        "cells",
        "labels",
        "column_codes",
        "blocks",
        "value_decoder",
        "cell_decoder",
        "category_decoder",
        "class_decoder",
    ),
    read_official=read_official,
    official_note="Checkpoints of stableai-org/LimiX (Hugging Face); weights under LimiX's Model License: academic use "
    "is free, commercial use needs its authors' permission.",
)
