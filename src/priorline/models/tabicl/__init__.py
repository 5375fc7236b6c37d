"""TabICL: in-context learning for tabular classification."""

from priorline.models.spec import ModelSpec
from priorline.models.tabicl.config import PRESETS, TabICLConfig
from priorline.models.tabicl.model import TabICL

SPEC = ModelSpec(
    kind="tabicl",
    title="TabICL",
    config_class=TabICLConfig,
    presets=dict(PRESETS),
    build=TabICL,
    objective="in_context_classification",
    problem_types=("classification",),
    parts=("col_embedder", "row_interactor", "icl_predictor"),
)
