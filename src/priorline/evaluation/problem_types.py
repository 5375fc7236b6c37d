"""What an evaluation takes for each problem type unless told otherwise."""

from dataclasses import dataclass

from priorline.config_io import nearest_name
from priorline.errors import InputError
from priorline.evaluation.baselines import BASELINES
from priorline.evaluation.config import EvaluationConfig, PromotionConfig
from priorline.evaluation.metrics import METRICS


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """One row of `DEFAULTS`; baselines are all of `BASELINES`, the metric is the first of `METRICS`."""

    suite: str
    """All tables of the problem type."""
    smoke_suite: str
    """A few small ones of them, for minutes."""
    floor: str
    """The baseline that knows nothing but the training targets."""


DEFAULTS = {
    "classification": Defaults(suite="classification", smoke_suite="classification-smoke", floor="majority"),
    "regression": Defaults(suite="regression", smoke_suite="regression-smoke", floor="mean"),
    "imputation": Defaults(suite="imputation", smoke_suite="imputation-smoke", floor="mean"),
    "generation": Defaults(suite="generation", smoke_suite="generation-smoke", floor="independent"),
}
"""Problem type to what stands in for None in a configuration."""


def suite_name(config: EvaluationConfig, problem_type: str) -> str:
    """Return the name of the suite that ``config`` means for ``problem_type``.

    Raises
    ------
    InputError
        If there is no such problem type.
    """
    defaults = _defaults(problem_type)
    if config.suite is None:
        return defaults.suite
    return defaults.smoke_suite if config.suite == "smoke" else config.suite


def baseline_names(config: EvaluationConfig, problem_type: str) -> tuple[str, ...]:
    """Return the names of the baselines that ``config`` means for ``problem_type``."""
    return tuple(BASELINES[problem_type]) if config.baselines is None else config.baselines


def resolve_evaluation(config: EvaluationConfig, problem_type: str) -> EvaluationConfig:
    """Return ``config`` with suite and baselines named; equal evaluations are equal after it.

    Raises
    ------
    InputError
        If there is no such problem type.
    """
    names = {"suite": suite_name(config, problem_type), "baselines": baseline_names(config, problem_type)}
    return config.model_copy(update=names)


def promotion_metric(config: PromotionConfig, problem_type: str) -> str:
    """Return the name of the metric that decides for ``problem_type``."""
    return config.metric or next(iter(METRICS[problem_type]))


def promotion_floor(config: PromotionConfig, problem_type: str) -> str:
    """Return the name of the baseline to beat.

    Raises
    ------
    InputError
        If there is no such problem type.
    """
    return config.floor or _defaults(problem_type).floor


def _defaults(problem_type: str) -> Defaults:
    if problem_type not in DEFAULTS:
        raise InputError(f"problem type {problem_type!r} cannot be evaluated{nearest_name(problem_type, DEFAULTS)}")
    return DEFAULTS[problem_type]
