"""Why a model answers as it does: columns and context rows that it attends to, and whether that can be believed.

Shapes: M query rows, N context rows, C columns.
"""

import base64
import html
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from sklearn.base import clone, is_classifier
from sklearn.inspection import permutation_importance
from sklearn.metrics import get_scorer
from sklearn.model_selection import train_test_split

from priorline.config_io import nearest_name
from priorline.datasets.contracts import profile_contract
from priorline.errors import InputError
from priorline.inference.predictor import load_estimator

_HELD_OUT = 0.3
_REPEATS = 3
_MOST_JUDGED = 300
"""Rows at most on each side of the test of faithfulness; it takes many predictions."""
_SHOWN_COLUMNS, _SHOWN_ROWS = 20, 8
_STYLE = {"svg.hashsalt": "priorline", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
_CSS = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#111}"
    "table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}"
    "td,th{border:1px solid #bbb;padding:.2rem .6rem;text-align:left}img{max-width:100%}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faithfulness:
    """What leaving columns out does to the score on held-out context rows."""

    metric: str
    """``roc_auc_ovr`` or ``accuracy`` of a classifier, ``r2`` of a regressor."""
    score: float
    """With all columns."""
    without_top: float
    """Without the column of the largest importance."""
    without_last: float
    """Without the column of the smallest."""
    rank_correlation: float
    """Spearman's, of importance and permutation importance over the columns; NaN with fewer than 3."""
    permutation: tuple[float, ...]
    """Permutation importance of each column: how far the score falls when its cells are shuffled."""


def explain_prediction(
    context: pd.DataFrame,
    target: str,
    query: pd.DataFrame,
    row: int,
    weights: Path,
    *,
    predict: Callable[[Any, pd.DataFrame, list[int]], pd.DataFrame],
    device: str = "cpu",
) -> tuple[str, dict[str, Any]]:
    """Return a page of reasons for one row of ``query``, and the facts on it, JSON-ready.

    Parameters
    ----------
    context : DataFrame
        Rows with the column ``target``; rows without it are left out.
    row : int
        0-based position in ``query``.
    predict : callable
        Called with (fitted estimator, one row, [row]); returns the answer as a table.

    Raises
    ------
    InputError
        If there is no such column or row, or the weights' kind of model gives no reasons.
    """
    if target not in context.columns:
        raise InputError(f"--target {target!r} is not a column{nearest_name(target, map(str, context.columns))}")
    if not 0 <= row < len(query):
        raise InputError(f"--row {row} must lie in 0..{len(query) - 1}, the rows of the query")
    features = [name for name in context.columns if name != target]
    lacking = [str(name) for name in features if name not in query.columns]
    if lacking:
        raise InputError(f"the query lacks the columns {', '.join(lacking)} of the context")
    context = context[context[target].notna()].reset_index(drop=True)
    X, y, asked = context[features], context[target].to_numpy(), query[features].iloc[[row]]
    problem_type = profile_contract(context, target).target.suggests
    estimator = load_estimator(weights, problem_type, device=device)
    if not hasattr(estimator, "sample_importance"):
        raise InputError(f"{type(estimator).__name__} gives no reasons; name weights of a LimiX by --weights")
    estimator.fit(X, y)
    importance_C, names = estimator.feature_importance_, [str(name) for name in features]
    faithfulness = measure_faithfulness(estimator, X, y)
    answer, influential = predict(estimator, asked, [row]), influential_rows(estimator, X, y, asked)
    page = write_page(names, importance_C, faithfulness, row, asked.iloc[0], answer, influential)
    ranked = [names[place] for place in np.argsort(-importance_C)]
    return page, {
        "row": row,
        "prediction": str(answer["prediction"].iloc[0]),
        "columns": {name: round(float(importance_C[names.index(name)]), 4) for name in ranked},
        "influential_rows": [int(place) for place in influential["row"]],
        "faithfulness": {
            "metric": faithfulness.metric,
            "score": round(faithfulness.score, 4),
            "without_top": round(faithfulness.without_top, 4),
            "without_last": round(faithfulness.without_last, 4),
            "rank_correlation": round(faithfulness.rank_correlation, 4),
        },
    }


def measure_faithfulness(estimator: Any, X: pd.DataFrame, y: np.ndarray, *, seed: int = 0) -> Faithfulness:
    """Hold the importance of columns against what the columns are worth, on rows of the context held out.

    Raises
    ------
    InputError
        If there are fewer than 10 rows.
    """
    if len(X) < 10:
        raise InputError(f"faithfulness is measured on held-out rows and needs at least 10, got {len(X)}")
    is_class = is_classifier(estimator)
    counts = pd.Series(y).value_counts()
    stratify = y if is_class and counts.min() > 1 else None
    train, test = train_test_split(np.arange(len(X)), test_size=_HELD_OUT, random_state=seed, stratify=stratify)
    train, test = train[:_MOST_JUDGED], test[:_MOST_JUDGED]
    metric = "r2"
    if is_class:
        same = set(np.unique(y[test])) == set(np.unique(y[train]))
        metric = "roc_auc_ovr" if same and len(counts) > 1 else "accuracy"
    scorer = get_scorer(metric)

    def score(columns: list[int]) -> float:
        fitted = clone(estimator).fit(X.iloc[train, columns], y[train])
        return float(scorer(fitted, X.iloc[test, columns], y[test]))

    everything = list(range(X.shape[1]))
    fitted = clone(estimator).fit(X.iloc[train], y[train])
    order = np.argsort(fitted.feature_importance_)
    worth = permutation_importance(
        fitted, X.iloc[test], y[test], scoring=metric, n_repeats=_REPEATS, random_state=seed
    ).importances_mean
    whole = score(everything)
    lone = len(everything) < 2
    return Faithfulness(
        metric=metric,
        score=whole,
        without_top=whole if lone else score([place for place in everything if place != order[-1]]),
        without_last=whole if lone else score([place for place in everything if place != order[0]]),
        rank_correlation=float(spearmanr(fitted.feature_importance_, worth)[0]) if len(everything) > 2 else np.nan,
        permutation=tuple(map(float, worth)),
    )


def influential_rows(estimator: Any, X: pd.DataFrame, y: np.ndarray, query: pd.DataFrame) -> pd.DataFrame:
    """Return the context rows that the one query row attends to most: ``row``, ``weight``, ``label``, cells."""
    weights_N = estimator.sample_importance(query)[0]
    rows = np.argsort(-weights_N, kind="stable")[:_SHOWN_ROWS]
    cells = X.iloc[rows].reset_index(drop=True)
    found = pd.DataFrame({"row": rows, "weight": weights_N[rows], "label": np.asarray(y)[rows]})
    return pd.concat([found, cells], axis=1)


def draw_importance(names: list[str], importance_C: np.ndarray, permutation_C: np.ndarray) -> bytes:
    """Return a PNG: columns ranked by attention, permutation importance beside it."""
    order = np.argsort(importance_C)[-_SHOWN_COLUMNS:]
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(10, 1.2 + 0.32 * len(order)), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, values, title, hatch in (
            (left, importance_C[order], "attention of labels to columns (share)", ""),
            (right, permutation_C[order], "permutation importance (fall of the score)", "//"),
        ):
            axes.barh(range(len(order)), values, color="#5b7ea4", edgecolor="black", hatch=hatch, linewidth=0.5)
            axes.set_title(title)
        left.set_yticks(range(len(order)), [names[place] for place in order])
        content = BytesIO()
        figure.savefig(content, dpi=130, format="png")
    return content.getvalue()


def write_page(
    names: list[str],
    importance_C: np.ndarray,
    faithfulness: Faithfulness,
    row: int,
    cells: pd.Series,
    answer: pd.DataFrame,
    influential: pd.DataFrame,
) -> str:
    """Return one self-contained HTML page: the answer, columns ranked, influential rows, faithfulness."""
    picture = base64.b64encode(draw_importance(names, importance_C, np.array(faithfulness.permutation))).decode()
    ranked = [names[place] for place in np.argsort(-importance_C)]
    facts = faithfulness
    parts = [
        f"<h1>Why: row {row}</h1>",
        "<h2>The row and the answer</h2>",
        cells.to_frame("cell").to_html(na_rep="missing", escape=True),
        answer.to_html(index=False, float_format="{:.3f}".format, escape=True),
        "<h2>Columns</h2>",
        f'<img alt="Columns ranked by attention: {html.escape(", ".join(ranked[:_SHOWN_COLUMNS]))}" '
        f'src="data:image/png;base64,{picture}">',
        f"<p>On held-out rows of the context the model reaches {facts.metric} {facts.score:.3f}; without "
        f"{html.escape(ranked[0])}, the column it attends to most, {facts.without_top:.3f}; without "
        f"{html.escape(ranked[-1])}, the least, {facts.without_last:.3f}. Rank correlation of attention and "
        f"permutation importance: {facts.rank_correlation:.2f}.</p>",
        "<p>Attention shows what the model reads, not what causes the target.</p>",
        f"<h2>The {len(influential)} most influential rows of the context</h2>",
        influential.to_html(index=False, float_format="{:.3g}".format, na_rep="missing", escape=True),
    ]
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Why: row {row}</title><style>{_CSS}</style>'
    return head + "<body>" + "".join(parts) + "</body></html>\n"
