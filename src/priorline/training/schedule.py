"""Learning rate as a pure function of stage and step: nothing to save, nothing to restore."""

import math

from priorline.training.config import StageConfig


def learning_rate(stage: StageConfig, step_in_stage: int) -> float:
    """Return the learning rate of the stage's update number ``step_in_stage``, counted from 0.

    Linear warm-up to ``stage.learning_rate`` over the first ``warmup_fraction`` of the steps, then
    the decay, which reaches ``final_learning_rate`` just after the last step.

    Source: TabICL (arXiv 2502.05564), section 4 and the authors' scripts.
    Differs: the first step of a warm-up already moves, at 1 / (warm-up steps) of the peak.
    """
    peak, final = stage.learning_rate, stage.final_learning_rate
    warmup_steps = math.ceil(stage.warmup_fraction * stage.steps)
    if step_in_stage < warmup_steps:
        return peak * (step_in_stage + 1) / warmup_steps
    progress = (step_in_stage - warmup_steps) / max(1, stage.steps - warmup_steps)
    if stage.schedule == "cosine":
        return final + (peak - final) * 0.5 * (1 + math.cos(math.pi * progress))
    if stage.schedule == "polynomial":
        return final + (peak - final) * (1 - progress) ** stage.polynomial_power
    return peak
