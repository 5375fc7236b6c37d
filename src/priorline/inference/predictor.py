"""The one table from (model kind, problem type) to the estimator that serves it."""

from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

from priorline.errors import InputError
from priorline.inference.estimators import TabICLClassifier, TabICLRegressor
from priorline.inference.filling import LimiXGenerator, LimiXImputer
from priorline.inference.limix_estimators import LimiXClassifier, LimiXRegressor
from priorline.inference.weights_cache import weights_purpose

ESTIMATORS: dict[tuple[str, str], type[BaseEstimator]] = {
    ("tabicl", "classification"): TabICLClassifier,
    ("tabicl", "regression"): TabICLRegressor,
    ("limix", "classification"): LimiXClassifier,
    ("limix", "regression"): LimiXRegressor,
    ("limix", "imputation"): LimiXImputer,
    ("limix", "generation"): LimiXGenerator,
}


def load_estimator(weights: str | Path, problem_type: str, **params: Any) -> Any:
    """Return an unfitted scikit-learn estimator over the weights in the folder ``weights``.

    Parameters
    ----------
    problem_type : str
        ``classification``, ``regression``, ``imputation`` or ``generation``.
    **params
        Parameters of the estimator; an unknown one raises `InputError`.

    Raises
    ------
    InputError
        If no estimator serves that kind of model and problem, or a parameter is unknown.
    CheckpointError
        If the folder is missing or corrupt.
    """
    kind, problem_types = weights_purpose(weights)
    # Drawing rows takes of the weights what filling cells does.
    needed = "imputation" if problem_type == "generation" else problem_type
    if needed not in problem_types or (kind, problem_type) not in ESTIMATORS:
        raise InputError(f"{kind} weights in {weights} serve {', '.join(problem_types)}, not {problem_type!r}")
    estimator_class = ESTIMATORS[kind, problem_type]
    known = estimator_class().get_params()
    unknown = sorted(set(params) - set(known))
    if unknown:
        raise InputError(f"{estimator_class.__name__} has no parameter {', '.join(unknown)}; known: {', '.join(known)}")
    return estimator_class(weights=weights, **params)
