"""Figures of the report as inline SVG, told apart by hatch and marker shape, so also without colour."""

import base64
import io
import math
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from priorline.evaluation.metrics import Metric
from priorline.evaluation.summary import Summary, table_means

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
_HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--", "**", "||")
_FILLS = ("#1b1b1b", "#ffffff", "#8a8a8a", "#cfcfcf", "#555555")
_CONTENDER_BAR, _BASELINE_BAR = "#8fb4d9", "#eeeeee"
# A fixed salt makes the ids inside the SVG, and so the report, the same at every call.
_STYLE = {"svg.hashsalt": "priorline", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def mean_bars(summary: Summary, metric: Metric) -> str:
    """Return bars of the mean over tables with bootstrap intervals, best rank on top."""
    chosen = summary.contenders[summary.contenders["metric"] == metric.name].iloc[::-1]
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(7, 0.45 * len(chosen) + 1.1), layout="constrained")
        axes = figure.add_subplot()
        for height, (_, row) in enumerate(chosen.iterrows()):
            axes.barh(
                height,
                row["mean"],
                color=_BASELINE_BAR if row["is_baseline"] else _CONTENDER_BAR,
                edgecolor="black",
                hatch=_HATCHES[height % len(_HATCHES)],
                height=0.62,
            )
            reach = row["mean"]
            if not pd.isna(row["low"]):
                errors = [[row["mean"] - row["low"]], [row["high"] - row["mean"]]]
                axes.errorbar(row["mean"], height, xerr=errors, color="black", capsize=4, linewidth=1.3)
                reach = row["high"]
            axes.annotate(f"{row['mean']:.3f}", (reach, height), (6, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(chosen)), [_plain(name) for name in chosen["contender"]])
        axes.set_xlabel(f"{metric.title}, mean over tables ({_direction(metric)})")
        axes.margins(x=0.12)
        alt = "; ".join(f"{row['contender']} {row['mean']:.3f}" for _, row in chosen.iloc[::-1].iterrows())
        return _image(figure, f"Bars of mean {metric.title} with intervals: {alt}")


def table_dots(rows: pd.DataFrame, summary: Summary, metric: Metric) -> str:
    """Return one line per table with a marker per contender, tables sorted by the best contender."""
    means = table_means(rows, metric)[_ordered(summary)]
    best = means.max(axis=1) if metric.higher_is_better else -means.min(axis=1)
    means = means.loc[best.sort_values(kind="stable").index]
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(7.5, 0.27 * len(means) + 1.9), layout="constrained")
        axes = figure.add_subplot()
        axes.hlines(range(len(means)), means.min(axis=1), means.max(axis=1), color="#bbbbbb", linewidth=1)
        for number, name in enumerate(means.columns):
            axes.scatter(means[name], range(len(means)), label=_plain(name), **_marker(number))
        axes.set_yticks(range(len(means)), [_plain(name) for name in means.index])
        axes.set_xlabel(f"{metric.title}, mean over splits ({_direction(metric)})")
        axes.set_ylim(-0.7, len(means) - 0.3)
        figure.legend(loc="outside upper center", ncols=min(4, len(means.columns)), frameon=False)
        return _image(
            figure,
            f"{metric.title} of every contender on each of {len(means)} tables; the table of losses below "
            "names those where a baseline is ahead",
        )


def calibration_dots(rows: pd.DataFrame, summary: Summary) -> str:
    """Return accuracy against mean confidence, one marker per contender and table."""
    fits = rows[rows["metric"] == "accuracy"]
    points = fits.groupby(["contender", "table"], sort=False)[["mean_confidence", "value"]].mean().dropna()
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(5.4, 5.2), layout="constrained")
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color="black", linewidth=1, linestyle="--", label="calibrated")
        for number, name in enumerate(_ordered(summary)):
            if name in points.index.get_level_values("contender"):
                chosen = points.loc[name]
                axes.scatter(chosen["mean_confidence"], chosen["value"], label=_plain(name), **_marker(number))
        lowest = min(0.9, float(points.min().min())) if len(points) else 0.0
        axes.set_xlim(math.floor(lowest * 10) / 10, 1.02)
        axes.set_ylim(math.floor(lowest * 10) / 10, 1.02)
        axes.set_xlabel("mean probability of the likeliest class")
        axes.set_ylabel("accuracy")
        figure.legend(loc="outside upper center", ncols=3, frameon=False)
        return _image(
            figure,
            "Accuracy against mean confidence on each table; below the dashed line a contender is too "
            "sure, above it too modest",
        )


def _ordered(summary: Summary) -> list[str]:
    return list(pd.unique(summary.contenders["contender"]))


def _marker(number: int) -> dict[str, Any]:
    return {
        "marker": _MARKERS[number % len(_MARKERS)],
        "facecolor": _FILLS[number % len(_FILLS)],
        "edgecolor": "black",
        "linewidth": 0.8,
        "s": 34,
        "zorder": 3,
    }


def _direction(metric: Metric) -> str:
    return "higher is better" if metric.higher_is_better else "lower is better"


def _plain(text: str) -> str:
    # A pair of dollar signs would start mathematics.
    return str(text).replace("$", r"\$")


def _image(figure: Figure, alt: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    data = base64.b64encode(buffer.getvalue()).decode()
    text = alt.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    return f'<img alt="{text}" src="data:image/svg+xml;base64,{data}">'
