"""From the raw output of a causal model to a classification table: types, scaling, classes, rejection.

Shapes: R rows, C columns.
Source: TabICL's released recipe ("Reg2Cls") and the rejection rules of its generator.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from priorline.config_io import Config


class TableConfig(Config):
    """How columns get their types and rows their classes; defaults are TabICL v1's."""

    max_classes: int = Field(default=10, ge=2)
    """Most classes; the number is 2 with ``binary_prob``, else uniform in 2..max_classes."""
    binary_prob: float = Field(default=0.5, ge=0, le=1)
    """Probability of a binary target."""
    categorical_prob: float = Field(default=0.2, ge=0, le=1)
    """Probability that a table has categorical columns; the share of columns is then U(0, 1)."""
    ordered_category_prob: float = Field(default=0.3, ge=0, le=1)
    """Probability that a column's categories keep the order of the values they were cut from."""
    mean_categories: float = Field(default=10.0, gt=0)
    """Mean of the exponential distribution of the number of categories (at least 2, unbounded)."""
    outlier_sigmas: float = Field(default=4.0, gt=0)
    """Standard deviations beyond which values are clamped, measured without the outliers."""
    max_split_tries: int = Field(default=10, ge=1)
    """Row permutations tried until train and test rows hold the same classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTable:
    """A finished table; rows are in train-then-test order."""

    x_RC: Tensor
    """float32, standardised; constant columns are gone, so C may be below what was asked for."""
    y_R: Tensor
    """int64, 0..K-1; train and test rows hold the same classes."""


def finish_table(
    x_RC: Tensor,
    y_R: Tensor,
    train_size: int,
    config: TableConfig,
    class_cut: Literal["rank", "value"],
    generator: np.random.Generator,
) -> ClassTable | None:
    """Return the classification table of a causal model's output, or None if it must be rejected.

    Rejected: values that are not finite, no column that varies, fewer than two classes, or no
    permutation of rows that puts the same classes into train and test.
    """
    if not bool(torch.isfinite(x_RC).all()) or not bool(torch.isfinite(y_R).all()):
        return None
    x_RC = x_RC[:, x_RC.amax(dim=0) > x_RC.amin(dim=0)]
    if x_RC.shape[1] == 0:
        return None
    if generator.random() < config.categorical_prob:
        x_RC = _categorize(x_RC, config, generator)
    x_RC = _scale(x_RC, config.outlier_sigmas)
    x_RC = x_RC[:, x_RC.amax(dim=0) > x_RC.amin(dim=0)]
    if x_RC.shape[1] == 0 or not bool(torch.isfinite(x_RC).all()):
        return None
    x_RC = x_RC[:, torch.from_numpy(generator.permutation(x_RC.shape[1]))]
    codes_R = _cut_classes(_scale(y_R[:, None], config.outlier_sigmas)[:, 0], config, class_cut, generator)
    order_R = _split(codes_R, train_size, config.max_split_tries, generator)
    if order_R is None:
        return None
    order = torch.from_numpy(order_R)
    return ClassTable(x_RC=x_RC[order].contiguous(), y_R=torch.from_numpy(codes_R)[order])


def _scale(x_RC: Tensor, sigmas: float) -> Tensor:
    """Return columns clamped at ``sigmas`` around what is left without outliers, then standardised."""
    std_C, mean_C = torch.std_mean(x_RC, dim=0, correction=0)
    inside_RC = (x_RC - mean_C).abs() <= sigmas * std_C
    count_C = inside_RC.sum(dim=0).clamp(min=1)
    mean_C = (x_RC * inside_RC).sum(dim=0) / count_C
    std_C = (((x_RC - mean_C) * inside_RC).square().sum(dim=0) / count_C).sqrt()
    x_RC = x_RC.clamp(mean_C - sigmas * std_C, mean_C + sigmas * std_C)
    std_C, mean_C = torch.std_mean(x_RC, dim=0, correction=0)
    return ((x_RC - mean_C) / (std_C + 1e-6)).clamp(-100, 100)


def _categorize(x_RC: Tensor, config: TableConfig, generator: np.random.Generator) -> Tensor:
    """Return a table in which a random share of columns is cut into category codes."""
    rows, columns = x_RC.shape
    x_RC = x_RC.clone()
    chosen = np.flatnonzero(generator.random(columns) < generator.random())
    for column in chosen:
        categories = max(2, round(generator.exponential(config.mean_categories)))
        cuts = x_RC[torch.from_numpy(generator.integers(rows, size=categories - 1)), column]
        codes = torch.searchsorted(cuts.sort().values, x_RC[:, column].contiguous())
        labels = np.arange(categories)
        if generator.random() >= config.ordered_category_prob:
            labels = generator.permutation(categories)
        if generator.random() < 0.5:
            labels = labels[::-1]
        x_RC[:, column] = torch.from_numpy(labels.astype(np.float32))[codes]
    return x_RC


def _cut_classes(
    y_R: Tensor, config: TableConfig, class_cut: Literal["rank", "value"], generator: np.random.Generator
) -> np.ndarray:
    """Return int64 codes (R,), 0..K-1 without gaps, in an order that tells nothing."""
    classes = 2
    if generator.random() >= config.binary_prob:
        classes = int(generator.integers(2, config.max_classes + 1))
    if class_cut == "rank":
        cuts = y_R.numpy()[generator.integers(len(y_R), size=classes - 1)]
    else:
        cuts = generator.standard_normal(classes - 1, dtype=np.float32)
    found = (y_R.numpy()[:, None] > cuts).sum(axis=1)
    present, codes_R = np.unique(found, return_inverse=True)
    return generator.permutation(len(present)).astype(np.int64)[codes_R]


def _split(codes_R: np.ndarray, train_size: int, max_tries: int, generator: np.random.Generator) -> np.ndarray | None:
    """Return an order of rows whose first ``train_size`` and remaining rows hold the same classes."""
    classes = int(codes_R.max()) + 1
    if classes < 2 or classes > min(train_size, len(codes_R) - train_size):
        return None
    counts = np.bincount(codes_R, minlength=classes)
    if counts.min() < 2:
        return None
    for _ in range(max_tries):
        order_R = generator.permutation(len(codes_R))
        train = np.bincount(codes_R[order_R[:train_size]], minlength=classes)
        if (train > 0).all() and (train < counts).all():
            return order_R
    return None
