"""TabICL's prior: 70 % MLP and 30 % tree structural causal models, turned into classification tables.

Shapes: B datasets, R rows, C columns.
Source: TabICL (arXiv 2502.05564), section 4.1, and its first released recipe.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator

from priorline.batches import BatchSpec, TabularBatch
from priorline.errors import ShardError
from priorline.priors.base import PriorConfig
from priorline.priors.hyperparams import ScmConfig, ScmHyperparams, draw_hyperparams
from priorline.priors.mlp_scm import draw_mlp_tables
from priorline.priors.targets import ClassTable, TableConfig, draw_num_classes, finish_tables
from priorline.priors.tree_scm import draw_tree_tables
from priorline.seeding import numpy_generator

CHUNK_CELLS = 2**14
"""Cells of the tables that are drawn together: a group of 128 rows and 12 columns fits several times."""


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
    tries_per_draw: int = Field(default=20, ge=1)
    """Rejected tables in a row after which a dataset draws other hyper-parameters than its group's.

    Differs: v1 tries without end, so that it hangs on hyper-parameters that yield no table."""
    max_draws: int = Field(default=50, ge=1)
    """Such draws after which the request counts as impossible."""
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


@dataclass(frozen=True, slots=True)
class _GroupDraw:
    """What the datasets of a group share."""

    num_columns: int
    is_mlp: bool
    hyper: ScmHyperparams


class TabICLPrior:
    """Samples batches of synthetic classification tables."""

    def __init__(self, config: TabICLPriorConfig) -> None:
        self.config = config

    def sample(self, spec: BatchSpec) -> TabularBatch:
        """Return the batch that ``spec`` names; datasets of a group share model type and width.

        Raises
        ------
        ShardError
            If train or test rows have no room for two classes, or if a dataset is rejected
            ``max_draws * tries_per_draw`` times in a row.
        """
        if min(spec.train_size, spec.rows - spec.train_size) < 2:
            raise ShardError(
                f"train_size={spec.train_size} of rows={spec.rows} leaves less than 2 rows on one side, which "
                "cannot hold two classes; narrow the stage's train_fraction or add rows"
            )
        tables: list[ClassTable] = []
        with one_thread():
            for first in range(0, spec.num_datasets, spec.group_size):
                tables += self._group(spec, range(first, min(first + spec.group_size, spec.num_datasets)))
        return _pad(tables, spec)

    def _group(self, spec: BatchSpec, datasets: range) -> list[ClassTable]:
        """Return the tables of one group; each keeps its class count until it is accepted.

        Were the count drawn anew as well, rejection would thin out the tables of many classes.
        """
        group = datasets.start // spec.group_size
        room = min(spec.train_size, spec.rows - spec.train_size)
        done: dict[int, ClassTable] = {}
        for redraw in range(self.config.max_draws):
            draw = self._draw_group(spec, group, redraw)
            own = numpy_generator(spec.seed, "tables", group, redraw)
            classes = {index: draw_num_classes(self.config.table, room, own) for index in datasets}
            for _ in range(self.config.tries_per_draw):
                pending = [index for index in datasets if index not in done]
                # Small tables are drawn together, so that each operation serves many; of large
                # ones a single table fills the processor's cache.
                chunk = max(1, CHUNK_CELLS // (spec.rows * draw.num_columns))
                # Some candidates more for the pending cost less than another round.
                pending *= max(1, min(chunk, len(datasets)) // len(pending))
                for first in range(0, len(pending), chunk):
                    part = pending[first : first + chunk]
                    tables = self._tables(spec, [classes[index] for index in part], draw, own)
                    done |= {
                        index: table
                        for index, table in zip(part, tables, strict=True)
                        if table is not None and index not in done
                    }
                if len(done) == len(datasets):
                    return [done[index] for index in datasets]
        rounds = self.config.max_draws * self.config.tries_per_draw
        raise ShardError(
            f"the prior rejected a dataset of group {group} of {spec} {rounds} times in a row; "
            "train_size and the rows after it must each have room for every class: narrow the stage's "
            "train_fraction, add rows, or lower prior.table.max_classes"
        )

    def _draw_group(self, spec: BatchSpec, group: int, redraw: int) -> _GroupDraw:
        generator = numpy_generator(spec.seed, "group", group, redraw)
        low, high = self.config.column_range(spec.rows)
        return _GroupDraw(
            # Rounded as in the released code: the two ends are half as likely as the widths between.
            num_columns=round(generator.uniform(low, high)),
            is_mlp=bool(generator.random() < self.config.mlp_prob),
            hyper=draw_hyperparams(self.config.scm, generator),
        )

    def _tables(
        self, spec: BatchSpec, classes: list[int], draw: _GroupDraw, generator: np.random.Generator
    ) -> list[ClassTable | None]:
        draw_tables = draw_mlp_tables if draw.is_mlp else draw_tree_tables
        x_BCR, y_BR = draw_tables(len(classes), spec.rows, draw.num_columns, self.config.scm, draw.hyper, generator)
        return finish_tables(x_BCR, y_BR, spec.train_size, classes, self.config.table, draw.hyper.class_cut, generator)


def _pad(tables: list[ClassTable], spec: BatchSpec) -> TabularBatch:
    widths = [table.x_RC.shape[1] for table in tables]
    x_BRC = torch.zeros(len(tables), spec.rows, max(widths))
    for place, table in enumerate(tables):
        x_BRC[place, :, : widths[place]] = table.x_RC
    return TabularBatch(
        x_BRC=x_BRC,
        y_BR=torch.stack([table.y_R for table in tables]),
        num_columns_B=torch.tensor(widths),
        train_size=spec.train_size,
    )


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
