"""Two passes: attention of the first picks columns and context rows, the second predicts from what is left.

Shapes: M query rows, N context rows, C columns, G groups of context rows.
Source: LimiX (arXiv 2509.03505), attention-guided retrieval. Differs: groups come from context rows and a query row
joins the nearest, so that its answer does not depend on other query rows; retrieval is used where it
wins on context rows held out, and never keeps just a few rows (a released default keeps 1 to 4 in regression).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from priorline.inference.ensemble import View

ROW_SHARE, LEAST_ROWS, ROWS_PER_CLASS = 0.5, 100, 5
"""What a group keeps of the context: the rows of the largest scores, enough of each class."""
COLUMN_SHARE = 0.9
"""Columns are kept, largest first, until their importance sums to this."""
MOST_GROUPS = 6
LEAST_CONTEXT = 2 * LEAST_ROWS
"""Smaller contexts are used whole."""
CANDIDATES = ("rows", "columns", "rows and columns")
_HELD_OUT, _MOST_HELD_OUT = 0.25, 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the second pass reads."""

    columns: np.ndarray
    """Positions of the kept columns, rising."""
    rows_G: tuple[np.ndarray, ...]
    """Positions of each group's context rows, rising."""
    centers_GN: np.ndarray
    """Mean scores of each group's members."""

    def assign(self, scores_MN: np.ndarray) -> np.ndarray:
        """Return the group (M,) whose center is nearest to a query row's scores."""
        distance_MG = ((scores_MN[:, None] - self.centers_GN) ** 2).sum(axis=2)
        nearest_M: np.ndarray = distance_MG.argmin(axis=1)
        return nearest_M

    def views(self, views: Sequence[View]) -> list[View]:
        """Return the members' views of the kept columns."""
        place_of = {column: place for place, column in enumerate(self.columns.tolist())}
        return [
            replace(view, columns=tuple(place_of[column] for column in view.columns if column in place_of))
            for view in views
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was tried on held-out context rows, and what is used."""

    used: str
    """``none`` or one of `CANDIDATES`."""
    losses: dict[str, float]
    """Mean loss on held-out context rows of everything that was tried; empty: nothing was."""
    reason: str


def draw_plan(
    kind: str, scores_NN: np.ndarray, importance_C: np.ndarray, codes_N: np.ndarray | None, *, seed: int = 0
) -> Plan:
    """Return the plan of a candidate for a context.

    Parameters
    ----------
    scores_NN : ndarray
        How much each context row, shown as a query, attends to each other one.
    importance_C : ndarray
        Shares of the columns.
    codes_N : ndarray, optional
        Classes of the rows; None: values.
    """
    num_rows, num_columns = len(scores_NN), len(importance_C)
    columns = np.arange(num_columns)
    if "columns" in kind:
        order = np.argsort(-importance_C, kind="stable")
        count = int(np.searchsorted(importance_C[order].cumsum(), COLUMN_SHARE * importance_C.sum())) + 1
        columns = np.sort(order[: max(1, count)])
    if "rows" not in kind:
        return Plan(columns=columns, rows_G=(np.arange(num_rows),), centers_GN=np.zeros((1, num_rows)))
    scores_NN = scores_NN.copy()
    np.fill_diagonal(scores_NN, 0.0)  # a row finds itself
    num_groups = max(1, min(MOST_GROUPS, num_rows // LEAST_ROWS))
    with threadpool_limits(limits=1):
        groups_N = KMeans(num_groups, n_init=1, random_state=seed).fit_predict(scores_NN)
    centers_GN = np.stack([scores_NN[groups_N == group].mean(axis=0) for group in np.unique(groups_N)])
    keep = max(LEAST_ROWS, int(ROW_SHARE * num_rows))
    return Plan(
        columns=columns,
        rows_G=tuple(_best_rows(center_N, keep, codes_N) for center_N in centers_GN),
        centers_GN=centers_GN,
    )


def choose(
    losses: Callable[[str, np.ndarray, np.ndarray], np.ndarray], num_rows: int, wanted: str, *, seed: int = 0
) -> Choice:
    """Return which candidate to use.

    Parameters
    ----------
    losses : callable
        Called with (``none`` or a candidate, context rows, held-out rows); returns the loss of each held-out row.
    wanted : str
        ``auto``: the best one, if it beats the whole context by more than a standard error; else a name.
    """
    if wanted != "auto":
        return Choice(used=wanted, losses={}, reason="as asked")
    if num_rows < LEAST_CONTEXT:
        return Choice(used="none", losses={}, reason=f"a context of {num_rows} rows is small enough to be read whole")
    order = np.random.default_rng(seed).permutation(num_rows)
    held = order[: min(_MOST_HELD_OUT, int(_HELD_OUT * num_rows))]
    rest = np.sort(order[len(held) :])
    by_kind = {kind: losses(kind, rest, held) for kind in ("none", *CANDIDATES)}
    means = {kind: float(found.mean()) for kind, found in by_kind.items()}
    best = min(CANDIDATES, key=means.__getitem__)
    gain_M = by_kind["none"] - by_kind[best]
    error = float(gain_M.std() / np.sqrt(len(held)))
    if gain_M.mean() > error:
        reason = f"{best} beat the whole context on {len(held)} held-out rows"
        return Choice(used=best, losses=means, reason=reason)
    return Choice(used="none", losses=means, reason=f"no candidate beat the whole context on {len(held)} held-out rows")


def _best_rows(scores_N: np.ndarray, keep: int, codes_N: np.ndarray | None) -> np.ndarray:
    order = np.argsort(-scores_N, kind="stable")
    chosen = set(order[:keep].tolist())
    for code in np.unique(codes_N) if codes_N is not None else ():
        assert codes_N is not None
        chosen |= set(order[codes_N[order] == code][:ROWS_PER_CLASS].tolist())
    return np.array(sorted(chosen))
