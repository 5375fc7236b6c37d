"""TabICL: in-context learning for tabular classification."""

from priorline.models.spec import ModelSpec
from priorline.models.tabicl.adapter import read_official
from priorline.models.tabicl.config import PRESETS, TabICLConfig
from priorline.models.tabicl.model import TabICL

SPEC = ModelSpec(
    kind="tabicl",
    title="TabICL",
    config_class=TabICLConfig,
    presets=dict(PRESETS),
    build=TabICL,
    objective="in_context_classification",
    parts=("col_embedder", "row_interactor", "icl_predictor"),
    read_official=read_official,
    official_note="Checkpoints of soda-inria/tabicl (Hugging Face: jingang/TabICL), BSD 3-Clause; keep their notice.",
)
