"""The prior table: name to configuration and class."""

from typing import Any, NamedTuple

from priorline.priors.base import Prior, PriorConfig
from priorline.priors.limix import LimiXPrior, LimiXPriorConfig
from priorline.priors.tabicl import TabICLPrior, TabICLPriorConfig


class PriorRow(NamedTuple):
    """One prior as the rest of the pipeline sees it."""

    config_class: type[PriorConfig]
    build: Any
    """Callable: config in, `Prior` out."""


PRIORS: dict[str, PriorRow] = {
    "tabicl": PriorRow(TabICLPriorConfig, TabICLPrior),
    "limix": PriorRow(LimiXPriorConfig, LimiXPrior),
}


def build_prior(config: PriorConfig) -> Prior:
    """Return the prior that ``config.kind`` names."""
    return PRIORS[config.kind].build(config)
