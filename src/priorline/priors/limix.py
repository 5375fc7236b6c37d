"""LimiX's prior: tables of mixed types with missing cells, from hierarchical causal graphs.

Shapes: B datasets, R rows = N train + M test, C columns, W channels of a node's state.
Source: LimiX (arXiv 2509.03505), synthetic data; its generator is not published, distributions here are ours.
"""

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from priorline.batches import BatchSpec, TabularBatch
from priorline.errors import ShardError
from priorline.priors.base import IntegerInterval, Interval, PriorConfig
from priorline.priors.causal_graph import CausalGraph, GraphConfig, draw_columns, draw_graph, draw_target
from priorline.priors.edge_functions import AGGREGATORS, EDGE_FUNCTIONS, draw_root, join, standard
from priorline.priors.solvability import LEVELS, Level, level_of, skill
from priorline.priors.targets import cut_classes, split_rows
from priorline.seeding import numpy_generator

_VALUE_LIMIT = 10.0
_MAX_SPLIT_TRIES = 10
_MOST_DRAWS = 200
"""Tables without any usable one after which a request counts as impossible."""


class LimiXPriorConfig(PriorConfig):
    """Sizes, types, missing cells and difficulty of the tables."""

    kind: Literal["limix"] = "limix"
    columns: IntegerInterval = (3, 30)
    """Columns, drawn once for each micro-batch, so that none is padded."""
    class_prob: float = Field(default=0.5, ge=0, le=1)
    """Share of micro-batches whose target is a class; the others' is a number."""
    max_classes: int = Field(default=10, ge=2)
    """Most classes; the number is 2 with ``binary_prob``, else uniform in 2..max_classes."""
    binary_prob: float = Field(default=0.4, ge=0, le=1)
    """Probability of a binary target."""
    state_width: IntegerInterval = (1, 4)
    """Channels of a node's state; a column shows one mixture of them."""
    noise: Interval = (0.01, 0.3)
    """Log-uniform range of the noise on every node with causes, in its deviations."""
    graph: GraphConfig = GraphConfig()
    """Structures, edits, and the choice of target and columns."""
    categorical_prob: float = Field(default=0.6, ge=0, le=1)
    """Probability that a table has categorical columns; the share of columns is then U(0, 1)."""
    max_categories: int = Field(default=10, ge=2)
    """Most categories of a column."""
    ordered_prob: float = Field(default=0.4, ge=0, le=1)
    """Probability that a column's codes keep the order of what they were cut from."""
    missing_prob: float = Field(default=0.4, ge=0, le=1)
    """Probability that a table has missing cells."""
    missing_share: Interval = (0.01, 0.4)
    """Share of the cells of a column with gaps that are missing, uniform between the two."""
    at_random_prob: float = Field(default=0.5, ge=0, le=1)
    """Probability that a column's gaps depend on another column's cells; else they fall anywhere."""
    solvability: tuple[float, float, float] = (0.5, 0.35, 0.15)
    """Wanted shares of easy, medium and hard tables; see `priorline.priors.solvability`."""
    solvability_bounds: Interval = (0.2, 0.6)
    """Least skill of simple models on medium and on easy tables."""
    max_tries: int = Field(default=8, ge=1)
    """Tables drawn for one wanted level before the one closest to it is taken."""

    @model_validator(mode="after")
    def _shares_fit(self) -> Self:
        if min(self.solvability) < 0 or not abs(sum(self.solvability) - 1) < 1e-6:
            raise ValueError(f"solvability={self.solvability} must be shares that sum to 1")
        return self

    @property
    def most_classes(self) -> int:
        """Most classes of a target."""
        return self.max_classes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    x_RC: np.ndarray
    y_R: np.ndarray
    num_categories_C: np.ndarray
    skill: float
    provenance: dict[str, Any]


class LimiXPrior:
    """Samples batches of synthetic tables for masked pretraining."""

    def __init__(self, config: LimiXPriorConfig) -> None:
        self.config = config

    def sample(self, spec: BatchSpec) -> TabularBatch:
        """Return the batch that ``spec`` names; all its datasets have as many columns and one kind of target.

        A dataset depends on the batch's seed and its own place alone. Its graph, functions, target, columns
        and solvability are its provenance.

        Raises
        ------
        ShardError
            If train or test rows have no room for two classes, or no usable table is found.
        """
        if min(spec.train_size, spec.rows - spec.train_size) < 2:
            raise ShardError(
                f"train_size={spec.train_size} of rows={spec.rows} leaves less than 2 rows on one side, which "
                "cannot hold two classes; narrow the stage's train_fraction or add rows"
            )
        generator = numpy_generator(spec.seed, "batch")
        low, high = self.config.columns
        num_columns = int(generator.integers(low, high + 1))
        is_class = bool(generator.random() < self.config.class_prob)
        with threadpool_limits(limits=1):  # sums then come out the same whatever the machine's core count
            tables = [self._table(spec, place, num_columns, is_class) for place in range(spec.num_datasets)]
        return TabularBatch(
            x_BRC=torch.from_numpy(np.stack([table.x_RC for table in tables])),
            y_BR=torch.from_numpy(np.stack([table.y_R for table in tables])),
            num_columns_B=torch.full((len(tables),), num_columns),
            train_size=spec.train_size,
            num_categories_BC=torch.from_numpy(np.stack([table.num_categories_C for table in tables])),
            provenance=tuple(table.provenance for table in tables),
        )

    def _table(self, spec: BatchSpec, place: int, num_columns: int, is_class: bool) -> _Table:
        """Return the first table of the wanted level, or the closest of those that were tried."""
        config = self.config
        wanted: Level = LEVELS[numpy_generator(spec.seed, "level", place).choice(len(LEVELS), p=config.solvability)]
        low, high = config.solvability_bounds
        middle = {"easy": high, "medium": (low + high) / 2, "hard": low}[wanted]
        best: _Table | None = None
        for attempt in range(_MOST_DRAWS):
            if best is not None and attempt >= config.max_tries:
                return best
            generator = numpy_generator(spec.seed, "table", place, attempt)
            found = draw_table(spec.rows, spec.train_size, num_columns, is_class, config, generator)
            if found is None:
                continue
            if level_of(found.skill, config.solvability_bounds) == wanted:
                return found
            if best is None or abs(found.skill - middle) < abs(best.skill - middle):
                best = found
        raise ShardError(f"no usable table among {_MOST_DRAWS} of {spec}; add rows, or lower prior.max_classes")


def draw_table(
    num_rows: int,
    train_size: int,
    num_columns: int,
    is_class: bool,
    config: LimiXPriorConfig,
    generator: np.random.Generator,
) -> _Table | None:
    """Return one table with its graph as provenance; None if a column or the target says nothing."""
    low, high = config.graph.nodes_per_column
    graph = draw_graph(2 + int(num_columns * generator.uniform(low, high)), config.graph, generator)
    target = draw_target(graph, config.graph, generator)
    nodes = draw_columns(graph, target, num_columns, config.graph, generator)
    shown = np.zeros(graph.num_nodes, dtype=bool)
    shown[[target, *nodes]] = True
    needed = shown | graph.is_ancestor[shown].any(axis=0)
    states, mechanisms = _propagate(graph, needed, num_rows, config, generator)
    x_RC = np.stack([_warp(_show(states[node], generator), generator) for node in nodes], axis=1)
    values_R = _warp(_show(states[target], generator), generator)
    num_categories_C = np.zeros(num_columns, dtype=np.int64)
    if generator.random() < config.categorical_prob:
        for column in np.flatnonzero(generator.random(num_columns) < generator.random()):
            x_RC[:, column], num_categories_C[column] = _categories(x_RC[:, column], config, generator)
    y_R = _labels(values_R, train_size, config, generator) if is_class else values_R
    if y_R is None:
        return None
    if is_class:
        order_R = split_rows(y_R, train_size, _MAX_SPLIT_TRIES, generator)
        if order_R is None:
            return None
        x_RC, y_R = x_RC[order_R], y_R[order_R]
    else:
        spread = float(y_R[:train_size].std())
        if not 1e-3 < spread < np.inf:
            return None
        y_R = np.clip((y_R - y_R[:train_size].mean()) / spread, -_VALUE_LIMIT, _VALUE_LIMIT)
    _hide(x_RC, num_categories_C, train_size, config, generator)
    if not _all_vary(x_RC[:train_size]):
        return None
    found = skill(x_RC, y_R, train_size, is_class)
    provenance = {
        "structure": graph.structure,
        "edges": [[*edge, mechanisms.get(edge, "latent")] for edge in graph.edges],
        "target": target,
        "columns": nodes,
        "roles": [graph.role(node, target) for node in nodes],
        "skill": round(found, 4),
        "solvability": level_of(found, config.solvability_bounds),
    }
    return _Table(
        x_RC=x_RC,
        y_R=y_R.astype(np.int64 if is_class else np.float32),
        num_categories_C=num_categories_C,
        skill=found,
        provenance=provenance,
    )


def _propagate(
    graph: CausalGraph,
    needed: np.ndarray,
    num_rows: int,
    config: LimiXPriorConfig,
    generator: np.random.Generator,
) -> tuple[dict[int, np.ndarray], dict[tuple[int, int], str]]:
    """Return the state of each needed node, (R, W), and the function of each edge that was used."""
    low, high = config.state_width
    width = int(generator.integers(low, high + 1))
    noise = np.float32(np.exp(generator.uniform(*np.log(config.noise))))
    names, aggregators = list(EDGE_FUNCTIONS), list(AGGREGATORS)
    states: dict[int, np.ndarray] = {}
    mechanisms: dict[tuple[int, int], str] = {}
    for node in np.flatnonzero(needed).tolist():
        causes = graph.parents(node)
        if not causes:
            states[node] = standard(draw_root(num_rows, width, generator))
            continue
        parts = []
        for cause in causes:
            name = names[int(generator.integers(len(names)))]
            mechanisms[cause, node] = name
            parts.append(EDGE_FUNCTIONS[name](states[cause], generator))
        joined = join(parts, aggregators[int(generator.integers(len(aggregators)))], generator)
        eps = generator.standard_normal(joined.shape, dtype=np.float32)
        states[node] = standard(standard(joined) + noise * eps)
    return states, mechanisms


def _show(state_RW: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return one random mixture of a state's channels, standardised."""
    weights = generator.standard_normal(state_RW.shape[1], dtype=np.float32)
    return standard((state_RW @ weights)[:, None])[:, 0]


def _warp(x_R: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return a column on another scale: as it is, skewed, heavy-tailed, even or rounded."""
    kind = int(generator.integers(8))
    if kind == 0:
        return np.exp(x_R * np.float32(generator.uniform(0.3, 1.2)))
    if kind == 1:
        return np.sinh(np.clip(x_R, -3, 3))
    if kind == 2:
        return (x_R.argsort().argsort() / len(x_R)).astype(np.float32)
    if kind == 3:
        steps = np.float32(generator.uniform(1.0, 4.0))
        return np.round(x_R * steps)
    return x_R


def _labels(
    values_R: np.ndarray, train_size: int, config: LimiXPriorConfig, generator: np.random.Generator
) -> np.ndarray | None:
    room = min(config.max_classes, train_size, len(values_R) - train_size)
    num_classes = 2 if generator.random() < config.binary_prob else int(generator.integers(2, room + 1))
    codes_R = cut_classes(values_R, num_classes, "rank" if generator.random() < 0.5 else "value", generator)
    return codes_R if codes_R.max() > 0 else None


def _categories(
    values_R: np.ndarray, config: LimiXPriorConfig, generator: np.random.Generator
) -> tuple[np.ndarray, int]:
    """Return codes 0..K-1 without gaps, and K; 0 and the values themselves if only one category comes out."""
    count = int(generator.integers(2, config.max_categories + 1))
    cuts = np.sort(values_R[generator.integers(len(values_R), size=count - 1)])
    present, codes_R = np.unique(np.searchsorted(cuts, values_R), return_inverse=True)
    if len(present) < 2:
        return values_R, 0
    if generator.random() >= config.ordered_prob:
        codes_R = generator.permutation(len(present))[codes_R]
    return codes_R.astype(np.float32), len(present)


def _hide(
    x_RC: np.ndarray,
    num_categories_C: np.ndarray,
    train_size: int,
    config: LimiXPriorConfig,
    generator: np.random.Generator,
) -> None:
    """Make cells missing in place: those that the prior hides, and categories that no train row has."""
    num_columns = x_RC.shape[1]
    is_missing_RC = np.zeros(x_RC.shape, dtype=bool)
    if generator.random() < config.missing_prob:
        for column in np.flatnonzero(generator.random(num_columns) < generator.random()):
            share = generator.uniform(*config.missing_share)
            if num_columns > 1 and generator.random() < config.at_random_prob:
                other = int((column + generator.integers(1, num_columns)) % num_columns)
                rank_R = x_RC[:, other].argsort(kind="stable").argsort(kind="stable") / len(x_RC)
                chance_R = 2 * share * (rank_R if generator.random() < 0.5 else 1 - rank_R)
            else:
                chance_R = np.full(len(x_RC), share)
            is_missing_RC[:, column] = generator.random(len(x_RC)) < chance_R
    for column in np.flatnonzero(num_categories_C):
        known = np.unique(x_RC[:train_size][~is_missing_RC[:train_size, column], column])
        is_missing_RC[:, column] |= ~np.isin(x_RC[:, column], known)
    x_RC[is_missing_RC] = np.nan


def _all_vary(x_NC: np.ndarray) -> bool:
    is_known_NC = np.isfinite(x_NC)
    lowest = np.where(is_known_NC, x_NC, np.inf).min(axis=0)
    highest = np.where(is_known_NC, x_NC, -np.inf).max(axis=0)
    return bool((lowest < highest).all())
