"""Priorline: from synthetic priors to served foundation models for structured data."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "TabICLClassifier": "priorline.inference.estimators",
    "TabICLRegressor": "priorline.inference.estimators",
    "LimiXClassifier": "priorline.inference.limix_estimators",
    "LimiXRegressor": "priorline.inference.limix_estimators",
    "LimiXImputer": "priorline.inference.filling",
    "LimiXGenerator": "priorline.inference.filling",
}

__all__ = [
    "LimiXClassifier",
    "LimiXGenerator",
    "LimiXImputer",
    "LimiXRegressor",
    "TabICLClassifier",
    "TabICLRegressor",
    "__version__",
]


def __getattr__(name: str) -> Any:
    # Estimators bring torch and scikit-learn, which take seconds to import; configs and errors do not.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
