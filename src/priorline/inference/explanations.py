"""What a model sees in the columns of a table: a map by the distributions it read.

Shapes: N rows, C columns, E embedding.
"""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import kurtosis, skew
from sklearn.decomposition import PCA

from priorline.checkpoints import read_model_config
from priorline.config_io import nearest_name
from priorline.errors import InputError
from priorline.inference.predictor import load_estimator

_LABELLED = 30
"""Columns whose names are written into the figure; more would cover it."""
_STYLE = {"svg.hashsalt": "priorline", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def map_columns(weights: Path, frame: pd.DataFrame, target: str | None = None, *, device: str = "cpu") -> pd.DataFrame:
    """Return one row per column: its place on the map and the shape of its distribution.

    The place is the column's embedding (what the last inducing points of the column stage read, summed
    over them) reduced to two dimensions by principal components.

    Parameters
    ----------
    frame : DataFrame
        Real rows, mixed types; a date becomes several columns, constant ones are left out.
    target : str, optional
        Column of labels, left out of the map; a model that shows labels to its columns needs it.

    Returns
    -------
    DataFrame
        ``column``, ``x``, ``y``, ``skewness``, ``kurtosis`` (excess, 0 for a normal distribution);
        ``attrs["explained_variance"]``: shares of the two components.

    Raises
    ------
    InputError
        If the target is no column, or there are fewer than two columns or three rows.

    Source: TabICL (arXiv 2502.05564), section 5, figure 4.
    """
    if target is not None and target not in frame.columns:
        raise InputError(f"target {target!r} is not a column{nearest_name(target, map(str, frame.columns))}")
    features = frame.drop(columns=target) if target is not None else frame
    estimator = _fitted(weights, features, None if target is None else frame[target], device)
    names = estimator.encoder_.names(features)
    if len(names) < 2 or len(features) < 3:
        raise InputError(
            f"a map needs at least 3 rows and 2 columns that are not constant, got {len(features)} and {len(names)}"
        )
    columns_CE = estimator.embed_columns()
    x_NC = estimator.train_["none"].astype(np.float64)
    components = PCA(n_components=2, svd_solver="full").fit(columns_CE)
    places_C2 = components.transform(columns_CE)
    shape = {"skewness": skew(x_NC, axis=0), "kurtosis": kurtosis(x_NC, axis=0)}
    table = pd.DataFrame({"column": names, "x": places_C2[:, 0], "y": places_C2[:, 1], **shape})
    table.attrs["explained_variance"] = components.explained_variance_ratio_.tolist()
    return table


def draw_column_map(table: pd.DataFrame, path: Path) -> None:
    """Write the map of `map_columns`, once coloured by skewness and once by kurtosis, as PNG or SVG by suffix."""
    shares = table.attrs["explained_variance"]
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(11, 4.8), layout="constrained")
        for place, name in enumerate(("skewness", "kurtosis"), start=1):
            axes = figure.add_subplot(1, 2, place)
            # Kurtosis spans decades: ranks of colour, not of value.
            ranks = table[name].rank(method="min", na_option="top")
            dots = axes.scatter(table["x"], table["y"], c=ranks, cmap="viridis", edgecolors="black", linewidths=0.5)
            bar = figure.colorbar(dots, ax=axes, ticks=[ranks.min(), ranks.max()])
            bar.ax.set_yticklabels([f"{table[name].min():.2g}", f"{table[name].max():.2g}"])
            axes.set_title(f"coloured by {name}")
            axes.set_xlabel(f"component 1 ({shares[0]:.0%} of variance)")
            axes.set_ylabel(f"component 2 ({shares[1]:.0%})")
            for _, row in table.iterrows() if len(table) <= _LABELLED else ():
                axes.annotate(row["column"], (row["x"], row["y"]), (4, 4), textcoords="offset points", fontsize=7)
        figure.savefig(path, dpi=130)


def _fitted(weights: Path, features: pd.DataFrame, labels: pd.Series | None, device: str) -> Any:
    config: Any = read_model_config(weights)
    settings = {"num_members": 1, "normalizations": ("none",), "device": device}
    estimator = load_estimator(weights, config.problem_types[0], **settings)
    if not hasattr(estimator, "embed_columns"):
        raise InputError(
            f"the model in {weights} is a {config.kind}, which has no embedding of columns; wanted a tabicl"
        )
    if labels is None:
        if config.col_target_aware:
            raise InputError(f"the model in {weights} shows labels to its columns; name the column of labels by target")
        labels = pd.Series(0, index=features.index)
    return estimator.fit(features, labels.to_numpy())
