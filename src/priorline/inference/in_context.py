"""The forward passes behind a prediction: what members share is computed once, and kept if asked.

Shapes: N train rows, M query rows, C columns, E row embedding, K outputs (classes or quantiles), O column orders.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from priorline.inference.class_tree import Predict, read_classes
from priorline.inference.ensemble import View, class_scores
from priorline.inference.memory import MB, MemoryPlan, budget_mb, new_rows, plan_memory

CACHES = (None, "repr", "kv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One pass of the in-context learner."""

    place: int
    """Which column order of its `Pass`."""
    class_shift: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Members whose columns are embedded together."""

    normalization: str
    columns: tuple[int, ...]
    """Order in which the column stage sees the columns."""
    orders: tuple[tuple[int, ...], ...]
    """Orders in which the row stage sees the embedded columns."""
    members: tuple[Member, ...]


@dataclass(slots=True)
class _Context:
    """What is known of the train rows in one pass."""

    summary: Any
    rows_ONE: Tensor | None
    predicts: list[Predict] = field(default_factory=list)
    """By member; empty: read the rows again."""


def plan_passes(config: Any, views: Sequence[View]) -> list[Pass]:
    """Return the fewest passes through the column stage that serve all members of ``views``.

    Where a column's embedding depends on nothing but the column, views of one normalisation share it;
    where it depends on its neighbours, each order has its own; where on labels, each member.
    """
    if config.shares_column_embedding:
        by_norm: dict[str, list[View]] = {}
        for view in views:
            by_norm.setdefault(view.normalization, []).append(view)
        return [
            Pass(
                normalization=norm,
                columns=tuple(range(len(some[0].columns))),
                orders=tuple(view.columns for view in some),
                members=tuple(
                    Member(place=place, class_shift=shift)
                    for place, view in enumerate(some)
                    for shift in view.class_shifts
                ),
            )
            for norm, some in by_norm.items()
        ]
    passes = []
    for view in views:
        groups = [(shift,) for shift in view.class_shifts] if config.col_target_aware else [view.class_shifts]
        for shifts in groups:
            passes.append(
                Pass(
                    normalization=view.normalization,
                    columns=view.columns,
                    orders=(tuple(range(len(view.columns))),),
                    members=tuple(Member(place=0, class_shift=shift) for shift in shifts),
                )
            )
    return passes


class ContextReader:
    """A fitted context and the members that read it.

    Parameters
    ----------
    model : nn.Module
        TabICL, gradients off.
    train : mapping from normalisation to float32 ndarray
        (N, C), columns in their given order.
    y_N : ndarray
        int64 class codes 0..num_classes-1, each present; or standardised values.
    views : sequence of View
        A regressor's class shifts are 0.
    num_classes : int, optional
        None: a regressor.
    cache : {None, "repr", "kv"}
        What is kept for further predictions: nothing; column summaries and row embeddings; or these
        and the keys and values of every member.
    cache_mb : float
        Most MiB of a cache; a larger one falls back to the next smaller kind, with a warning.
    offload : {"none", "cpu", "disk"}
        Where row embeddings wait for the in-context learner: on the model's device, in main memory, in a file.
    """

    def __init__(
        self,
        model: Any,
        train: Mapping[str, np.ndarray],
        y_N: np.ndarray,
        views: Sequence[View],
        *,
        num_classes: int | None,
        temperature: float = 1.0,
        average_logits: bool = True,
        memory_budget_mb: float | None = None,
        cache: str | None = None,
        cache_mb: float = 1024.0,
        offload: str = "none",
    ) -> None:
        self.model, self.train, self.views = model, train, views
        self.num_classes, self.temperature, self.average_logits = num_classes, temperature, average_logits
        self.offload = offload
        self.device: torch.device = next(model.parameters()).device
        self.y_N = torch.from_numpy(y_N).to(self.device)
        self.budget = budget_mb(memory_budget_mb)
        self.passes = plan_passes(model.config, views)
        self.num_train, self.num_columns = next(iter(train.values())).shape
        self.cache = self._affordable(cache, cache_mb)
        self._contexts: dict[int, _Context] = {}

    @property
    def num_members(self) -> int:
        """Members whose outputs `sum_outputs` adds up."""
        return sum(len(one.members) for one in self.passes)

    def cache_mib(self, cache: str | None) -> float:
        """Return the size of a cache of that kind, in MiB, before it is made."""
        if cache is None:
            return 0.0
        config, floats = self.model.config, 0
        row_dim = config.embed_dim * config.row_num_cls
        depth = 1
        if self.num_classes is not None:
            while config.max_classes**depth < self.num_classes:
                depth += 1
        for one in self.passes:
            floats += depth * self.num_columns * config.col_num_blocks * config.col_num_inds * config.embed_dim
            if cache == "kv":
                floats += depth * len(one.members) * self.num_train * 2 * row_dim * config.icl_num_blocks
            else:
                floats += len(one.orders) * self.num_train * row_dim
        return 4 * floats / MB

    def sum_outputs(self, query: Mapping[str, np.ndarray]) -> Tensor:
        """Return outputs_MK of query rows, float64, summed over members: class scores, or standardised quantiles."""
        num_query = len(next(iter(query.values())))
        total: Tensor | None = None
        with torch.no_grad():
            for place, one in enumerate(self.passes):
                plan = self._plan(num_query, len(one.orders))
                starts = range(0, num_query, plan.query_rows)
                context = self._contexts.get(place) or self._read(one, plan, self._keep_read(one, len(starts)))
                if self.cache is not None:
                    self._contexts[place] = context
                x_MC = query[one.normalization][:, list(one.columns)]
                pieces = [self._predict(one, plan, context, x_MC[start : start + plan.query_rows]) for start in starts]
                outputs_MK = torch.cat(pieces)
                total = outputs_MK if total is None else total + outputs_MK
        assert total is not None
        return total

    def embed_rows(self, query: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the (M, E) float32 row embeddings of query rows in the first view."""
        one = plan_passes(self.model.config, self.views[:1])[0]
        x_MC = query[one.normalization][:, list(one.columns)]
        plan = self._plan(len(x_MC), len(one.orders))
        with torch.no_grad():
            summary = self._summarize(one, plan)
            pieces = [
                self._rows(one, plan, summary, x_MC[start : start + plan.query_rows])[0].cpu().numpy()
                for start in range(0, len(x_MC), plan.query_rows)
            ]
        return np.concatenate(pieces)

    def embed_columns(self) -> np.ndarray:
        """Return the (C, E) float32 embeddings of the columns of the context.

        What the inducing points of the last block read, summed over them; columns in their given order.
        Source: TabICL (arXiv 2502.05564), section 5 and figure 4.
        """
        one = plan_passes(self.model.config, self.views[:1])[0]
        with torch.no_grad():
            summary = self._summarize(one, self._plan(1, 1))
        hidden_CIE = torch.stack([blocks[-1] for blocks in summary]).mean(dim=0)
        columns_CE: np.ndarray = hidden_CIE.sum(dim=1).cpu().numpy()
        return columns_CE[np.argsort(one.columns)]

    def _affordable(self, cache: str | None, cache_mb: float) -> str | None:
        for kind in CACHES[CACHES.index(cache) :: -1]:
            size = self.cache_mib(kind)
            if size <= cache_mb:
                return kind
            warnings.warn(
                f"cache={kind!r} of {self.num_train} rows takes {size:.0f} MiB, more than cache_mb={cache_mb:.0f}; "
                "a smaller cache is kept, predictions are the same but slower",
                stacklevel=3,
            )
        return None

    def _plan(self, num_query: int, num_orders: int) -> MemoryPlan:
        return plan_memory(
            self.model.config,
            self.num_train,
            num_query,
            self.num_columns,
            num_orders=num_orders,
            budget=self.budget,
            on_cpu=self.device.type == "cpu",
        )

    def _keep_read(self, one: Pass, num_pieces: int) -> bool:
        """Return whether to keep members' keys and values: asked for, or read by several pieces and small."""
        if self.cache == "kv" or num_pieces == 1:
            return self.cache == "kv"
        return self.cache_mib("kv") / len(self.passes) <= self.budget / 4

    def _summarize(self, one: Pass, plan: MemoryPlan) -> Any:
        x_NC = self._tensor(self.train[one.normalization][:, list(one.columns)])
        return self.model.summarize_columns(x_NC, self._labels(one.members[0]), chunk_cells=plan.chunk_cells)

    def _read(self, one: Pass, plan: MemoryPlan, keep: bool) -> _Context:
        summary = self._summarize(one, plan)
        labels = self._labels(one.members[0]) if self.model.config.col_target_aware else None
        rows_ONE = self._rows(one, plan, summary, self.train[one.normalization][:, list(one.columns)], labels)
        if not keep:
            return _Context(summary, rows_ONE)
        return _Context(summary, None, [self._reading(member, rows_ONE, plan, keep=True) for member in one.members])

    def _predict(self, one: Pass, plan: MemoryPlan, context: _Context, x_MC: np.ndarray) -> Tensor:
        rows_OME = self._rows(one, plan, context.summary, x_MC)
        total: Tensor | None = None
        for number, member in enumerate(one.members):
            if context.predicts:
                predict = context.predicts[number]
            else:
                assert context.rows_ONE is not None
                predict = self._reading(member, context.rows_ONE, plan, keep=False)
            outputs_MK = predict(rows_OME[member.place].to(self.device))
            if self.num_classes is not None:
                outputs_MK = class_scores(outputs_MK, member.class_shift, self.average_logits)
            total = outputs_MK if total is None else total.add_(outputs_MK)
        assert total is not None
        return total

    def _reading(self, member: Member, rows_ONE: Tensor, plan: MemoryPlan, *, keep: bool) -> Predict:
        def read(rows_NE: Tensor, y_N: Tensor) -> Predict:
            size = {"chunk_rows": plan.chunk_rows}
            if keep:
                kept = self.model.read_context(rows_NE[None], y_N[None], **size)
                return lambda query_ME: self.model.predict_with(kept, query_ME[None], **size)[0]
            return lambda query_ME: self.model.predict_rows(rows_NE[None], y_N[None], query_ME[None], **size)[0]

        rows_NE, y_N = rows_ONE[member.place].to(self.device), self._labels(member)
        if self.num_classes is not None:
            return read_classes(read, rows_NE, y_N, self.num_classes, self.model.config.max_classes, self.temperature)
        predict = read(rows_NE, y_N)
        return lambda query_ME: predict(query_ME).double()

    def _rows(self, one: Pass, plan: MemoryPlan, summary: Any, x_RC: np.ndarray, y_R: Tensor | None = None) -> Tensor:
        config = self.model.config
        shape = (len(one.orders), len(x_RC), config.embed_dim * config.row_num_cls)
        rows_ORE: Tensor = self.model.represent_with(
            self._tensor(x_RC),
            summary,
            one.orders,
            chunk_cells=plan.chunk_cells,
            y_N=y_R,
            out=new_rows(shape, self.device, self.offload),
        )
        return rows_ORE

    def _labels(self, member: Member) -> Tensor:
        return self.y_N if self.num_classes is None else (self.y_N + member.class_shift) % self.num_classes

    def _tensor(self, x_RC: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(x_RC)).to(self.device)
