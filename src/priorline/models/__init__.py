"""The model table: one folder, one row."""

from priorline.models.limix import SPEC as LIMIX
from priorline.models.spec import ModelSpec
from priorline.models.tabicl import SPEC as TABICL

MODELS: dict[str, ModelSpec] = {spec.kind: spec for spec in (TABICL, LIMIX)}
