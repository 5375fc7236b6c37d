"""What training minimises: one function per kind of model, (module, batch) to loss and metrics.

Shapes: B datasets, R rows = N train + M test, C columns, K classes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from priorline.batches import Batch
from priorline.training.masking import draw_masks

LABELS_ONLY_SHARE, UNLABELLED_SHARE = 0.35, 0.2
"""Shares of micro-batches that hide nothing but labels, and whose context shows none, so that tables without a
target are filled too. Whole rows are where a model first learns to look for rows alike: with cells hidden in all
micro-batches, 225 steps of the smoke size learn nothing yet."""
_Z_MOST = 5.0
"""A hidden number further from its column's mean counts as this many deviations: one outlier is not the loss."""
_LEAST_SPREAD = 1e-6


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


def masked_modelling(model: nn.Module, batch: Batch) -> LossTerms:
    """Return what query rows' labels and hidden cells cost, given the context and the cells left visible.

    Cross-entropy on class labels and on cells of categorical columns, squared error on values and on
    numeric cells in standard deviations. Labels of query rows are always hidden; in
    `UNLABELLED_SHARE` of the micro-batches all rows' are, in `LABELS_ONLY_SHARE` nothing else is.

    Source: LimiX (arXiv 2509.03505), context-conditional masked modelling.
    """
    train = batch.train_size
    x_BMC, y_BM = batch.x_BRC[:, train:], batch.y_BR[:, train:]
    columns_C = torch.arange(x_BMC.shape[2], device=x_BMC.device)
    is_valid_B1C = (columns_C < batch.num_columns_B[:, None])[:, None]
    is_hidden_BMC = draw_masks(x_BMC.isfinite() & is_valid_B1C)
    kind = float(torch.rand(()))
    is_labelled = kind >= UNLABELLED_SHARE
    if kind >= 1.0 - LABELS_ONLY_SHARE:
        is_hidden_BMC = torch.zeros_like(is_hidden_BMC)
    is_class = not (is_labelled and batch.y_BR.is_floating_point())
    visible_BRC = torch.cat((batch.x_BRC[:, :train], x_BMC.masked_fill(is_hidden_BMC, torch.nan)), dim=1)
    y_BN = batch.y_BR[:, :train] if is_labelled else torch.zeros_like(batch.y_BR[:, :train], dtype=torch.int64)
    wants_cells = bool(is_hidden_BMC.any())
    found = model(visible_BRC, y_BN, batch.num_columns_B, is_class=is_class, wants_cells=wants_cells)

    terms: dict[str, Tensor] = {}
    metrics: dict[str, Tensor] = {}
    if is_labelled and is_class:
        terms["class_loss"] = F.cross_entropy(found.class_logits_BMK.flatten(0, 1).float(), y_BM.flatten())
        metrics["accuracy"] = (found.class_logits_BMK.detach().argmax(-1) == y_BM).float().mean()
    elif is_labelled:
        terms["value_loss"] = F.mse_loss(found.values_BM.float(), y_BM.clamp(-_Z_MOST, _Z_MOST))
    is_category_BMC = _is_category(batch, found.category_logits_BRCK).expand_as(is_hidden_BMC)
    chosen_BMC = is_hidden_BMC & is_category_BMC
    if found.category_logits_BRCK is not None and bool(chosen_BMC.any()):
        logits_HK = found.category_logits_BRCK[:, train:][chosen_BMC].float()
        assert batch.num_categories_BC is not None
        sizes_H = batch.num_categories_BC[:, None].expand_as(chosen_BMC)[chosen_BMC]
        codes_K = torch.arange(logits_HK.shape[1], device=logits_HK.device)
        logits_HK = logits_HK.masked_fill(codes_K >= sizes_H[:, None], -torch.inf)
        terms["category_loss"] = F.cross_entropy(logits_HK, x_BMC[chosen_BMC].long())
    chosen_BMC = is_hidden_BMC & ~is_category_BMC & (found.spread_BC > _LEAST_SPREAD)[:, None]
    if bool(chosen_BMC.any()):
        z_BMC = (x_BMC - found.center_BC[:, None]) / found.spread_BC[:, None].clamp(min=_LEAST_SPREAD)
        wanted_H = z_BMC[chosen_BMC].clamp(-_Z_MOST, _Z_MOST)
        terms["cell_loss"] = F.mse_loss(found.cells_BRC[:, train:][chosen_BMC].float(), wanted_H)
    # All terms weigh the same (the authors' weights are not published): cells at half of that learn in twice the
    # steps. The zero lets a part of the model train alone, also on a batch that does not ask it.
    nothing = 0.0 * (found.class_logits_BMK.sum() + found.values_BM.sum())
    loss = nothing + sum(terms.values())
    return LossTerms(loss=loss, metrics=metrics | {name: term.detach() for name, term in terms.items()})


def _is_category(batch: Batch, logits_BRCK: Tensor | None) -> Tensor:
    """Return which columns are judged as categories, (B, 1, C): those that the model's head has room for."""
    if batch.num_categories_BC is None or logits_BRCK is None:
        return torch.zeros_like(batch.x_BRC[:, :1], dtype=torch.bool)
    sizes_BC = batch.num_categories_BC
    return ((sizes_BC > 0) & (sizes_BC <= logits_BRCK.shape[-1]))[:, None]


OBJECTIVES: dict[str, Callable[[nn.Module, Batch], LossTerms]] = {
    "in_context_classification": in_context_classification,
    "masked_modelling": masked_modelling,
}
"""Objectives by the name that a `ModelSpec` holds."""
