"""Estimators over LimiX without a target: missing cells filled, new rows drawn, rows judged by their density.

Shapes: N context rows, M query rows, C numbers of a row, K categories.
Source: LimiX (arXiv 2509.03505); its released code fills numbers and overwrites known cells, and draws no rows.
"""

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from priorline.config_io import nearest_name
from priorline.errors import InputError
from priorline.inference.cell_reader import CellReader, softmax
from priorline.inference.cell_table import CellColumn, CellTable, fill_column
from priorline.inference.masked_reader import MaskedReader
from priorline.inference.table_encoder import as_frame, with_unique_names
from priorline.inference.weights_cache import load_model

_LEAST_DONORS = 5
_KERNEL = 0.5
"""Width of the choice among donors at temperature 1, in deviations of the prediction's error."""
METHODS = ("columns", "cells")
_TINY_CHANCE = 1e-12
_SMALLEST_ERROR = 0.05
"""Deviations of a column that a prediction is at least off by, so that no density is infinite."""


class _CellEstimator(BaseEstimator):
    """Shows a LimiX the rows of a table, without labels, and reads off its cells."""

    weights: str | Path | None
    memory_budget_mb: float | None
    device: str
    random_state: int | np.random.RandomState | None
    categorical_features: Sequence[str | int] | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _fit_table(self, X: Any) -> None:
        value = self.memory_budget_mb
        if value is not None and (not isinstance(value, Real) or not 0 < value < float("inf")):
            raise InputError(f"memory_budget_mb={value!r} must be a number above 0")
        self.weights_hash_ = load_model(self.weights, "limix", self.device).content_hash
        frame = as_frame(X)
        validate_data(self, with_unique_names(X), skip_check_array=True)
        self.table_ = CellTable(frame, self.categorical_features)

    def _frame(self, X: Any) -> pd.DataFrame:
        check_is_fitted(self)
        frame = as_frame(X)
        validate_data(self, with_unique_names(X), reset=False, skip_check_array=True)
        return frame

    def _reader(self) -> CellReader:
        model = load_model(self.weights, "limix", self.device, self.weights_hash_).module
        return CellReader(MaskedReader(model, self.memory_budget_mb), self.table_)


class LimiXImputer(OneToOneFeatureMixin, TransformerMixin, _CellEstimator):
    """Fills missing cells of any type from a pre-trained LimiX's view of a table; no training.

    Known cells stay as they are, to the bit. Numbers are the mean of the members' predictions, within the
    range of the column in the context; categories the likeliest. A column that the context holds
    empty stays empty, with a warning.

    Parameters
    ----------
    weights : str or Path
        Folder of weights, as written by `priorline pretrain`; loaded once per process.
    num_members : int, default 4
        Column orders that are averaged; cost grows with it.
    method : str, default "columns"
        ``columns``: each column with gaps is the target once, given all others; ``cells``: one pass fills
        all gaps, cheaper for many columns, and worse while the model's heads for cells are little trained.
    memory_budget_mb : float, optional
        MiB that activations may take, roughly; None: by what machine and container have left.
    device : str, default "cpu"
        ``cpu``, ``cuda`` or ``cuda:0`` ...
    random_state : int, RandomState or None, default 0
        Fixes the column orders.
    categorical_features : sequence of str or int, optional
        Names or positions of number columns to read as categories.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when `fit` got a DataFrame with text names.
    weights_hash_ : str
        Identifies the weights; `transform` refuses others.
    """

    def __init__(
        self,
        weights: str | Path | None = None,
        *,
        num_members: int = 4,
        method: str = "columns",
        memory_budget_mb: float | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
        categorical_features: Sequence[str | int] | None = None,
    ) -> None:
        self.weights = weights
        self.num_members = num_members
        self.method = method
        self.memory_budget_mb = memory_budget_mb
        self.device = device
        self.random_state = random_state
        self.categorical_features = categorical_features

    def fit(self, X: Any, y: Any = None) -> Self:
        """Keep the rows as context; ``y`` is not used.

        Raises
        ------
        InputError
            If ``X`` is no table, a parameter is out of range or weights is None.
        CheckpointError
            If the weights are missing or corrupt.
        """
        _check_members(self.num_members)
        if self.method not in METHODS:
            raise InputError(f"method={self.method!r} is unknown{nearest_name(str(self.method), METHODS)}")
        self._fit_table(X)
        generator = check_random_state(self.random_state)
        numbers = self.table_.z_NC.shape[1]
        orders = [np.arange(numbers), *(generator.permutation(numbers) for _ in range(self.num_members - 1))]
        self.orders_: list[np.ndarray] = list({tuple(order.tolist()): order for order in orders}.values())
        return self

    def transform(self, X: Any) -> Any:
        """Return ``X`` with its missing cells filled: a DataFrame for a DataFrame, else an array.

        A row's cells do not depend on the other rows of ``X``.
        """
        frame = self._frame(X)
        is_missing_MC = frame.isna().to_numpy()
        rows = np.flatnonzero(is_missing_MC.any(axis=1))
        filled = frame.copy()
        if len(rows):
            found = self._predict(frame.iloc[rows], is_missing_MC[rows])
            columns, empty = [], []
            for column, (name, series) in zip(self.table_.columns, frame.items(), strict=True):
                is_missing_M = is_missing_MC[:, column.place]
                if is_missing_M.any() and not len(column.known):
                    empty.append(str(name))
                elif is_missing_M.any():
                    z_M = found[column.place][is_missing_M[rows]] if column.numbers else np.zeros(is_missing_M.sum())
                    series = fill_column(series, is_missing_M, self.table_.cells(column, z_M))
                columns.append(series)
            if empty:
                warnings.warn(
                    f"columns {', '.join(empty)} are empty in the context and stay empty; drop them or fit on rows "
                    "that have them",
                    stacklevel=2,
                )
            filled = pd.concat(columns, axis=1)
            filled.columns = frame.columns
        return filled if isinstance(X, pd.DataFrame) else filled.to_numpy()

    def _predict(self, frame: pd.DataFrame, is_missing_MC: np.ndarray) -> dict[int, np.ndarray]:
        """Return standardised numbers (M,) by the place of each column with gaps."""
        z_MC, reader = self.table_.encode(frame), self._reader()
        wanted = [column for column in self.table_.columns if column.numbers and is_missing_MC[:, column.place].any()]
        sums: dict[int, Any] = {column.place: 0.0 for column in wanted}
        for order in self.orders_:
            if self.method == "columns":
                for column in wanted:
                    features = [number for number in order.tolist() if number not in column.numbers]
                    sums[column.place] += reader.column(column, self.table_.z_NC, z_MC, features)
                continue
            numbers_MC, logits_MCK = reader.all_cells(self.table_.z_NC, z_MC, order)
            for column in wanted:
                main, size = column.numbers[0], column.num_categories
                if logits_MCK is not None and 0 < size <= logits_MCK.shape[-1]:
                    sums[column.place] += softmax(logits_MCK[:, main, :size])
                else:
                    sums[column.place] += numbers_MC[:, main]
        found = {}
        for column in wanted:
            total = sums[column.place]
            codes = total.ndim == 2
            found[column.place] = (
                self.table_.code_z(column, total.argmax(axis=1)) if codes else total / len(self.orders_)
            )
        return found


class LimiXGenerator(_CellEstimator):
    """Draws new rows that look like a table's, and tells how usual a row is; no training.

    A row is drawn cell by cell, in a random order of the columns, each given the cells before it. A
    category is drawn from the predicted chances; a number is that of a context row for which the model
    expects about the same (the context in halves, each predicted from the other), so that drawn
    numbers have the column's own values. Rows are new, but single cells are those of
    real rows: where these must not come to light, generate from rows that may.

    Parameters
    ----------
    weights, memory_budget_mb, device, random_state, categorical_features
        As of `LimiXImputer`; ``random_state`` fixes the rows that are drawn.
    num_members : int, default 1
        Column orders over which what is expected of a cell is averaged; cost grows with it.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when `fit` got a DataFrame with text names.
    weights_hash_ : str
        Identifies the weights; `sample` refuses others.
    """

    def __init__(
        self,
        weights: str | Path | None = None,
        *,
        num_members: int = 1,
        memory_budget_mb: float | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
        categorical_features: Sequence[str | int] | None = None,
    ) -> None:
        self.weights = weights
        self.num_members = num_members
        self.memory_budget_mb = memory_budget_mb
        self.device = device
        self.random_state = random_state
        self.categorical_features = categorical_features

    def fit(self, X: Any, y: Any = None) -> Self:
        """Keep the rows as context; ``y`` is not used.

        Raises
        ------
        InputError
            If ``X`` is no table of at least two rows, a parameter is out of range or weights is None.
        CheckpointError
            If the weights are missing or corrupt.
        """
        _check_members(self.num_members)
        self._fit_table(X)
        if len(self.table_.frame) < 2:
            raise InputError("Found array with 1 sample(s) while a minimum of 2 is required; give more rows")
        return self

    def sample(
        self, n_samples: int = 1, *, conditions: Mapping[str, Any] | None = None, temperature: float = 1.0
    ) -> pd.DataFrame:
        """Return new rows with the context's columns and types.

        Parameters
        ----------
        n_samples : int
            Rows.
        conditions : mapping, optional
            Column name to the value that every row has there.
        temperature : float
            Below 1 rows are more typical, above 1 more varied.

        Raises
        ------
        InputError
            If a condition names no column, or a value is out of range.
        """
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise InputError(f"n_samples={n_samples!r} must be a whole number of at least 1")
        if not isinstance(temperature, Real) or not 0 < temperature < float("inf"):
            raise InputError(f"temperature={temperature!r} must be a number above 0")
        generator = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        names = [str(name) for name in self.table_.frame.columns]
        given = {_place(names, name): value for name, value in (conditions or {}).items()}
        drawn: dict[int, list[Any]] = {place: [value] * int(n_samples) for place, value in given.items()}
        z_MC = self._conditioned(drawn, int(n_samples))
        columns = [self.table_.columns[place] for place in generator.permutation(len(names))]
        visible = [number for place in given for number in self.table_.columns[place].numbers]
        reader, halves = self._reader(), generator.permutation(len(self.table_.z_NC)) % 2 == 0
        for column in columns:
            if column.place in given:
                continue
            if not column.numbers:
                drawn[column.place] = self.table_.cells(column, np.zeros(n_samples))
                continue
            found = self._expect(reader, column, self.table_.z_NC, z_MC, visible)
            if column.num_categories:
                chance_MK = softmax(np.log(found + _TINY_CHANCE) / temperature)
                codes_M = (chance_MK.cumsum(axis=1) < generator.random((len(z_MC), 1))).sum(axis=1)
                z_M = self.table_.code_z(column, np.minimum(codes_M, column.num_categories - 1))
                z_MC[:, column.numbers[0]] = z_M
                drawn[column.place] = self.table_.cells(column, z_M)
            else:
                expected_N = self._expected(reader, column, visible, halves)
                donors_M = self._donors(expected_N, found, column.numbers[0], temperature, generator)
                z_MC[:, column.numbers] = self.table_.z_NC[donors_M][:, column.numbers]
                cells = self.table_.frame.iloc[:, column.place].astype(object).to_numpy()
                drawn[column.place] = [cells[donor] for donor in donors_M]
            visible += column.numbers
        dtypes = self.table_.frame.dtypes
        made = [pd.Series(drawn[place], dtype=object).astype(dtypes.iloc[place]) for place in range(len(names))]
        return pd.concat(made, axis=1).set_axis(self.table_.frame.columns, axis=1)

    def score_samples(self, X: Any) -> np.ndarray:
        """Return the (M,) log density of rows, float64: low for outliers.

        The sum over columns of the log density of a cell given those before it, mean of two opposite
        orders; numbers on the scale of their column, with normal errors as wide as on the context. Missing
        cells say nothing. A row's score does not depend on the other rows of ``X``.
        """
        z_MC = self.table_.encode(self._frame(X))
        generator = np.random.default_rng(0)
        order = [column for column in self.table_.columns if column.numbers]
        order = [order[place] for place in generator.permutation(len(order))]
        halves, reader = generator.permutation(len(self.table_.z_NC)) % 2 == 0, self._reader()
        scores = [self._chain(reader, z_MC, columns, halves) for columns in (order, order[::-1])]
        total_M: np.ndarray = np.mean(scores, axis=0)
        return total_M

    def _chain(self, reader: CellReader, z_MC: np.ndarray, columns: list[CellColumn], halves: np.ndarray) -> np.ndarray:
        total_M = np.zeros(len(z_MC))
        visible: list[int] = []
        for column in columns:
            found = self._expect(reader, column, self.table_.z_NC, z_MC, visible)
            z_M = z_MC[:, column.numbers[0]].astype(np.float64)
            is_known_M = np.isfinite(z_M)
            if column.num_categories:
                codes_M = self.table_.codes(column, np.where(is_known_M, z_M, self.table_.code_z(column, np.zeros(1))))
                log_M = np.log(np.take_along_axis(found, codes_M[:, None], axis=1)[:, 0] + _TINY_CHANCE)
            else:
                error = self._error(self._expected(reader, column, visible, halves), column.numbers[0])
                log_M = -0.5 * ((z_M - found) / error) ** 2 - np.log(error * np.sqrt(2 * np.pi))
            total_M += np.where(is_known_M, log_M, 0.0)
            visible += column.numbers
        return total_M

    def _conditioned(self, drawn: dict[int, list[Any]], num_rows: int) -> np.ndarray:
        """Return (M, C) numbers of rows in which only the given cells are known."""
        frame = self.table_.frame
        columns = [
            pd.Series(drawn.get(place, [None] * num_rows), dtype=object if place not in drawn else None)
            for place in range(frame.shape[1])
        ]
        return self.table_.encode(pd.concat(columns, axis=1).set_axis(frame.columns, axis=1))

    def _expect(
        self, reader: CellReader, column: CellColumn, z_NC: np.ndarray, z_MC: np.ndarray, visible: list[int]
    ) -> np.ndarray:
        """Return what `CellReader.column` does, mean over members."""
        orders = [visible, *(_shuffled(visible, member) for member in range(1, self.num_members))]
        mean: np.ndarray = np.mean([reader.column(column, z_NC, z_MC, order) for order in orders], axis=0)
        return mean

    def _expected(self, reader: CellReader, column: CellColumn, visible: list[int], halves: np.ndarray) -> np.ndarray:
        """Return a column's number in each context row as predicted from its visible cells and the other half."""
        z_NC = self.table_.z_NC
        expected_N = np.empty(len(z_NC))
        for inside in (halves, ~halves):
            expected_N[inside] = self._expect(reader, column, z_NC[~inside], z_NC[inside], visible)
        return expected_N

    def _error(self, expected_N: np.ndarray, main: int) -> float:
        off_N = self.table_.z_NC[:, main] - expected_N
        return max(float(np.sqrt(np.nanmean(off_N**2))), _SMALLEST_ERROR)

    def _donors(
        self,
        expected_N: np.ndarray,
        wanted_M: np.ndarray,
        main: int,
        temperature: float,
        generator: np.random.Generator,
    ) -> np.ndarray:
        """Return a context row for each new one, rather one of a close expectation."""
        known = np.flatnonzero(np.isfinite(self.table_.z_NC[:, main]))
        width = temperature * _KERNEL * self._error(expected_N, main)
        distance_MN = np.abs(expected_N[known] - wanted_M[:, None])
        # The closest few are never out of reach.
        few = min(_LEAST_DONORS, len(known)) - 1
        reach_M1 = np.maximum(np.partition(distance_MN, few, axis=1)[:, few : few + 1], width)
        weights_MN = np.exp(-0.5 * (distance_MN / reach_M1) ** 2)
        shares_MN = (weights_MN / weights_MN.sum(axis=1, keepdims=True)).cumsum(axis=1)
        chosen_M = (shares_MN < generator.random((len(wanted_M), 1))).sum(axis=1)
        donors_M: np.ndarray = known[np.minimum(chosen_M, len(known) - 1)]
        return donors_M


def _place(names: list[str], name: str) -> int:
    if name not in names:
        raise InputError(f"condition names {name!r}, which is no column{nearest_name(str(name), names)}")
    return names.index(name)


def _check_members(num_members: int) -> None:
    if not isinstance(num_members, Integral) or num_members < 1:
        raise InputError(f"num_members={num_members!r} must be a whole number of at least 1")


def _shuffled(places: list[int], seed: int) -> list[int]:
    return [int(place) for place in np.random.default_rng(seed).permutation(places)]
