"""Priorline: from synthetic priors to served foundation models for structured data."""

from typing import Any

__version__ = "0.1.0"
__all__ = ["TabICLClassifier", "TabICLRegressor", "__version__"]


def __getattr__(name: str) -> Any:
    # Estimators bring torch and scikit-learn, which take seconds to import; configs and errors do not.
    if name in __all__:
        from priorline.inference import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
