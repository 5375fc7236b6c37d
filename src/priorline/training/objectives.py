"""What training minimises: one function per kind of model, (module, batch) to loss and metrics.

Shapes: B datasets, R rows = N train + M test, C columns, K classes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch.nn.functional as F
from torch import Tensor, nn

from priorline.batches import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class LossTerms:
    """Outcome of one micro-batch."""

    loss: Tensor
    """Scalar, mean over the micro-batch's datasets; its gradient trains."""
    metrics: dict[str, Tensor] = field(default_factory=dict)
    """Detached scalars for the log, means over the same datasets."""


def in_context_classification(model: nn.Module, batch: Batch) -> LossTerms:
    """Return the cross-entropy of the test rows' classes, given the labelled train rows.

    Source: TabICL (arXiv 2502.05564), section 4: mean over the test rows of a micro-batch.
    """
    y_BN, y_BM = batch.y_BR[:, : batch.train_size], batch.y_BR[:, batch.train_size :]
    logits_BMK = model(batch.x_BRC, y_BN, batch.num_columns_B)
    loss = F.cross_entropy(logits_BMK.flatten(0, 1).float(), y_BM.flatten())
    accuracy = (logits_BMK.detach().argmax(-1) == y_BM).float().mean()
    return LossTerms(loss=loss, metrics={"accuracy": accuracy})


OBJECTIVES: dict[str, Callable[[nn.Module, Batch], LossTerms]] = {
    "in_context_classification": in_context_classification,
}
"""Objectives by the name that a `ModelSpec` holds."""
