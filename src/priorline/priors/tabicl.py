"""TabICL's prior: 70 % MLP and 30 % tree structural causal models, turned into classification tables.

Shapes: B datasets, R rows, C columns.
Source: TabICL (arXiv 2502.05564), section 4.1, and its first released recipe.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator

from priorline.batches import BatchSpec, TabularBatch
from priorline.errors import ShardError
from priorline.priors.base import PriorConfig
from priorline.priors.hyperparams import ScmConfig, ScmHyperparams, draw_hyperparams
from priorline.priors.mlp_scm import draw_mlp_table
from priorline.priors.targets import ClassTable, TableConfig, finish_table
from priorline.priors.tree_scm import draw_tree_table
from priorline.seeding import numpy_generator

MAX_TRIES = 1000
"""Rejected tables in a row after which a configuration counts as impossible."""


class TabICLPriorConfig(PriorConfig):
    """Mix, widths and distributions of TabICL's prior; defaults are v1's."""

    kind: Literal["tabicl"] = "tabicl"
    min_columns: int = Field(default=2, ge=1)
    """Fewest columns of a group."""
    max_columns: int = Field(default=100, ge=1)
    """Most columns; the number is uniform between the two."""
    column_caps: tuple[tuple[int, int], ...] = (
        (10_240, 100),
        (20_000, 80),
        (30_000, 60),
        (40_000, 40),
        (50_000, 30),
        (60_000, 20),
        (65_000, 15),
    )
    """(rows up to, columns at most): long tables are narrower."""
    cap_beyond: int = Field(default=10, ge=1)
    """Columns at most for tables longer than the last of ``column_caps``."""
    mlp_prob: float = Field(default=0.7, ge=0, le=1)
    """Share of groups that are MLP models; the others are tree models."""
    scm: ScmConfig = ScmConfig()
    """Distributions of the causal models."""
    table: TableConfig = TableConfig()
    """Column types, classes, rejection."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max_columns < self.min_columns:
            raise ValueError(f"max_columns={self.max_columns} must be at least min_columns={self.min_columns}")
        return self

    @property
    def most_classes(self) -> int:
        """Most classes of a target."""
        return self.table.max_classes

    def column_range(self, num_rows: int) -> tuple[int, int]:
        """Return fewest and most columns of a table of ``num_rows`` rows."""
        cap = next((columns for rows, columns in self.column_caps if num_rows <= rows), self.cap_beyond)
        high = min(self.max_columns, cap)
        return min(self.min_columns, high), high


class TabICLPrior:
    """Samples batches of synthetic classification tables."""

    def __init__(self, config: TabICLPriorConfig) -> None:
        self.config = config

    def sample(self, spec: BatchSpec) -> TabularBatch:
        """Return the batch that ``spec`` names; datasets of a group share model type and width.

        Raises
        ------
        ShardError
            If a dataset is rejected `MAX_TRIES` times in a row: the split is too small for any
            two classes.
        """
        with one_thread():
            tables = [self._dataset(spec, index) for index in range(spec.num_datasets)]
        widths = [table.x_RC.shape[1] for table in tables]
        x_BRC = torch.zeros(spec.num_datasets, spec.rows, max(widths))
        for place, table in enumerate(tables):
            x_BRC[place, :, : widths[place]] = table.x_RC
        return TabularBatch(
            x_BRC=x_BRC,
            y_BR=torch.stack([table.y_R for table in tables]),
            num_columns_B=torch.tensor(widths),
            train_size=spec.train_size,
        )

    def _dataset(self, spec: BatchSpec, index: int) -> ClassTable:
        group = index // spec.group_size
        for attempt in range(MAX_TRIES):
            # A rejected dataset is drawn again with its group's type and width, so that rejection
            # does not shift their shares; only after many rejections in a row is the group given up.
            shared = numpy_generator(spec.seed, "group", group, attempt // 20)
            low, high = self.config.column_range(spec.rows)
            columns = int(shared.integers(low, high + 1))
            is_mlp = bool(shared.random() < self.config.mlp_prob)
            hyper = draw_hyperparams(self.config.scm, shared)
            own = numpy_generator(spec.seed, "dataset", index, attempt)
            table = self._table(spec, columns, is_mlp, hyper, own)
            if table is not None:
                return table
        raise ShardError(
            f"the prior rejected dataset {index} of {spec} {MAX_TRIES} times; train_size and the rows "
            "after it must each have room for two classes: widen the stage's train_fraction or add rows"
        )

    def _table(
        self,
        spec: BatchSpec,
        columns: int,
        is_mlp: bool,
        hyper: ScmHyperparams,
        generator: np.random.Generator,
    ) -> ClassTable | None:
        if is_mlp:
            x_RC, y_R = draw_mlp_table(spec.rows, columns, hyper, generator)
        else:
            x_RC, y_R = draw_tree_table(spec.rows, columns, self.config.scm, hyper, generator)
        return finish_table(x_RC, y_R, spec.train_size, self.config.table, hyper.class_cut, generator)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread: sums then come out the same whatever the machine's core count."""
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
