"""From the raw output of a causal model to a classification table: types, scaling, classes, rejection.

Shapes: B tables, C columns, R rows; columns come before rows until a table is done.
Source: TabICL's released recipe ("Reg2Cls") and the rejection rules of its generator.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from priorline.config_io import Config
from priorline.priors.hyperparams import ClassCut

MIN_STD = 1e-6
"""Smaller standard deviations count as this."""


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
    reversed_category_prob: float = Field(default=0.5, ge=0, le=1)
    """Probability that the order of a column's categories is turned around."""
    mean_categories: float = Field(default=10.0, gt=0)
    """Mean of the exponential distribution of the number of categories (at least 2, unbounded)."""
    outlier_sigmas: float = Field(default=4.0, gt=0)
    """Standard deviations at which features are clamped, measured without the outliers."""
    target_outlier_sigmas: float | None = Field(default=None, gt=0)
    """The same for the target before it is cut; None: not clamped, as in v1.

    Differs: the authors' package 2.2 clamps the target at 4."""
    clip: float = Field(default=100.0, gt=0)
    """Largest absolute value of a standardised feature."""
    max_split_tries: int = Field(default=10, ge=0)
    """Row permutations tried until train and test rows hold the same classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTable:
    """A finished table; rows are in train-then-test order."""

    x_RC: Tensor
    """float32, standardised; constant columns are gone, so C may be below what was asked for."""
    y_R: Tensor
    """int64, 0..K-1; train and test rows hold the same classes."""


def draw_num_classes(config: TableConfig, max_classes: int, generator: np.random.Generator) -> int:
    """Return how many classes a table is cut into: at most ``max_classes`` and ``config.max_classes``."""
    if generator.random() < config.binary_prob:
        return 2
    return int(generator.integers(2, min(config.max_classes, max_classes) + 1))


def finish_tables(
    x_BCR: Tensor,
    y_BR: Tensor,
    train_size: int,
    num_classes: Sequence[int],
    config: TableConfig,
    class_cut: ClassCut,
    generator: np.random.Generator,
) -> list[ClassTable | None]:
    """Return the classification table of each causal model's output, or None if it must be rejected.

    Rejected: values that are not finite, no column that varies, fewer than two classes, or no
    permutation of rows that puts the same classes into train and test. A cut may leave classes
    empty; the table then has fewer than its ``num_classes``.
    """
    num_tables, num_columns, num_rows = x_BCR.shape
    is_finite_B = _is_finite(x_BCR.reshape(num_tables, -1)) & _is_finite(y_BR)
    for table in np.flatnonzero(generator.random(num_tables) < config.categorical_prob).tolist():
        if is_finite_B[table]:
            x_BCR[table] = categorize(x_BCR[table], config, generator)
    flat_CR = scale(x_BCR.reshape(-1, num_rows), config.outlier_sigmas, config.clip)
    x_BCR = flat_CR.view(num_tables, num_columns, num_rows)
    values_BR = scale(y_BR, config.target_outlier_sigmas, config.clip).numpy()
    low_BC, high_BC = x_BCR.aminmax(dim=2)
    varies_BC = (high_BC > low_BC).numpy()
    is_usable_B = (is_finite_B & torch.isfinite(high_BC - low_BC).all(dim=1)).numpy() & varies_BC.any(axis=1)
    tables: list[ClassTable | None] = []
    for table, classes in enumerate(num_classes):
        if not is_usable_B[table]:
            tables.append(None)
            continue
        codes_R = cut_classes(values_BR[table], classes, class_cut, generator)
        order_R = split_rows(codes_R, train_size, config.max_split_tries, generator)
        if order_R is None:
            tables.append(None)
            continue
        columns = torch.from_numpy(generator.permutation(np.flatnonzero(varies_BC[table])))
        x_RC = x_BCR[table][columns].T[torch.from_numpy(order_R)]
        tables.append(ClassTable(x_RC=x_RC, y_R=torch.from_numpy(codes_R[order_R])))
    return tables


def scale(x_CR: Tensor, outlier_sigmas: float | None, clip: float) -> Tensor:
    """Return columns standardised after a clamp around what is left without outliers.

    A first mean and deviation tell outliers, a second pair without them sets the bounds.
    """
    centered_CR, std_C = _center(x_CR)
    if outlier_sigmas is not None:
        low_C, high_C = (bound[:, None] for bound in centered_CR.aminmax(dim=1))
        # Most columns have no outlier and the clamp would leave them as they are.
        clamped = torch.nonzero(torch.maximum(-low_C, high_C)[:, 0] > outlier_sigmas * std_C[:, 0])[:, 0]
        if len(clamped):
            part_CR = _clamp_outliers(x_CR[clamped], centered_CR[clamped], std_C[clamped], outlier_sigmas)
            centered_CR[clamped], std_C[clamped] = _center(part_CR)
    return centered_CR.div_(std_C).clamp_(-clip, clip)


def categorize(x_CR: Tensor, config: TableConfig, generator: np.random.Generator) -> Tensor:
    """Return a table in which a random share of columns is cut into category codes.

    A column's k - 1 cuts are values of random rows. Unless the order is kept, the categories that
    occur are numbered anew at random; numbers may then be turned around.
    """
    num_columns, num_rows = x_CR.shape
    chosen = np.flatnonzero(generator.random(num_columns) < generator.random())
    if len(chosen) == 0:
        return x_CR
    num_categories = np.maximum(2, np.rint(generator.exponential(config.mean_categories, len(chosen)))).astype(int)
    most = int(num_categories.max())
    part_CR = x_CR[torch.from_numpy(chosen)]
    cuts = part_CR.gather(1, torch.from_numpy(generator.integers(num_rows, size=(len(chosen), most - 1))))
    unused = torch.from_numpy(np.arange(most - 1) >= num_categories[:, None] - 1)
    codes_CR = torch.searchsorted(cuts.masked_fill_(unused, torch.inf).sort(dim=1).values, part_CR)
    occurs = np.zeros((len(chosen), most), dtype=bool)
    np.put_along_axis(occurs, codes_CR.numpy(), True, axis=1)
    # Ranks of random keys, those of absent categories last: a permutation of the present ones.
    keys = np.where(occurs, generator.random(occurs.shape), np.inf)
    labels = keys.argsort(axis=1).argsort(axis=1)
    is_ordered = generator.random(len(chosen)) < config.ordered_category_prob
    labels[is_ordered] = np.arange(most)
    is_reversed = generator.random(len(chosen)) < config.reversed_category_prob
    labels[is_reversed] = num_categories[is_reversed, None] - 1 - labels[is_reversed]
    x_CR = x_CR.clone()
    x_CR[torch.from_numpy(chosen)] = torch.from_numpy(labels.astype(np.float32)).gather(1, codes_CR)
    return x_CR


def split_rows(
    codes_R: np.ndarray, train_size: int, max_tries: int, generator: np.random.Generator
) -> np.ndarray | None:
    """Return an order of rows whose first ``train_size`` and remaining rows hold the same classes.

    The rows' own order is tried first, then ``max_tries`` permutations. None if there are fewer than
    two classes or no order was found.
    """
    counts = np.bincount(codes_R)
    if len(counts) < 2 or counts.min() < 2 or len(counts) > min(train_size, len(codes_R) - train_size):
        return None
    order_R = np.arange(len(codes_R))
    for _ in range(max_tries + 1):
        train = np.bincount(codes_R[order_R[:train_size]], minlength=len(counts))
        if train.min() > 0 and (train < counts).all():
            return order_R
        order_R = generator.permutation(len(codes_R))
    return None


def cut_classes(
    values_R: np.ndarray, num_classes: int, class_cut: ClassCut, generator: np.random.Generator
) -> np.ndarray:
    """Return int64 codes (R,), 0..K-1 without gaps, in an order that tells nothing.

    ``rank`` cuts at the values of random rows, ``value`` at normal draws; classes are as unbalanced
    as the cuts make them.
    """
    if class_cut == "rank":
        cuts = values_R[generator.integers(len(values_R), size=num_classes - 1)]
    else:
        cuts = generator.standard_normal(num_classes - 1, dtype=np.float32)
    found_R = np.searchsorted(np.sort(cuts), values_R)
    occurs = np.bincount(found_R, minlength=num_classes) > 0
    labels = np.zeros(num_classes, dtype=np.int64)
    labels[occurs] = generator.permutation(int(occurs.sum()))
    return labels[found_R]


def _center(x_CR: Tensor) -> tuple[Tensor, Tensor]:
    """Return deviations from the mean (C, R) and standard deviations (C, 1), at least `MIN_STD`."""
    centered_CR = x_CR - x_CR.mean(dim=1, keepdim=True)
    # Once more: the rounded mean of a column far from zero is off by a visible share of its spread.
    centered_CR -= centered_CR.mean(dim=1, keepdim=True)
    std_C = torch.linalg.vector_norm(centered_CR, dim=1, keepdim=True) / max(x_CR.shape[1] - 1, 1) ** 0.5
    return centered_CR, std_C.clamp_(min=MIN_STD)


def _clamp_outliers(x_CR: Tensor, centered_CR: Tensor, std_C: Tensor, sigmas: float) -> Tensor:
    inside_CR = centered_CR.abs() <= sigmas * std_C
    count_C = inside_CR.sum(dim=1, keepdim=True)
    mean_C = (x_CR * inside_CR).sum(dim=1, keepdim=True) / count_C
    spread_C = ((x_CR - mean_C) * inside_CR).square().sum(dim=1, keepdim=True)
    reach_C = sigmas * (spread_C / (count_C - 1).clamp(min=1)).sqrt().clamp_(min=MIN_STD)
    return x_CR.clamp(mean_C - reach_C, mean_C + reach_C)


def _is_finite(x_BR: Tensor) -> Tensor:
    # Extremes are not-a-number if any value is, and far cheaper than a test of each value.
    low_B, high_B = x_BR.aminmax(dim=1)
    return torch.isfinite(low_B) & torch.isfinite(high_B)
