"""How well simple models predict a table: the measure by which easy and hard tables are mixed.

Shapes: N train rows, M test rows, C columns, K classes.
Source: LimiX (arXiv 2509.03505), solvability-aware sampling.
"""

from typing import Literal

import numpy as np
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

Level = Literal["easy", "medium", "hard"]
LEVELS: tuple[Level, ...] = ("easy", "medium", "hard")

_RIDGE = 1.0
_TREE_DEPTH = 5


def level_of(skill: float, bounds: tuple[float, float]) -> Level:
    """Return the level of a skill, given the least skills of ``medium`` and ``easy`` tables."""
    return "easy" if skill >= bounds[1] else "medium" if skill >= bounds[0] else "hard"


def skill(x_RC: np.ndarray, y_R: np.ndarray, train_size: int, is_class: bool) -> float:
    """Return 0 (no better than the train rows' majority or mean) to 1 (perfect) on the test rows.

    The better of ridge regression and a tree of depth 5; missing cells count as the train mean.
    """
    known_NC = np.isfinite(x_RC[:train_size])
    mean_C = np.where(known_NC, x_RC[:train_size], 0.0).sum(axis=0) / np.maximum(known_NC.sum(axis=0), 1)
    x_RC = np.where(np.isfinite(x_RC), x_RC, mean_C).astype(np.float32)
    std_C = x_RC[:train_size].std(axis=0)
    x_RC = np.clip((x_RC - mean_C) / np.where(std_C > 0, std_C, 1.0), -10, 10).astype(np.float32)
    train, test = x_RC[:train_size], x_RC[train_size:]
    y_N, y_M = y_R[:train_size], y_R[train_size:]
    answers = (_ridge(train, y_N, test, is_class), _tree(train, y_N, test, is_class))
    if is_class:
        base = float((y_M == np.bincount(y_N).argmax()).mean())
        scores = [(float((answer == y_M).mean()) - base) / max(1.0 - base, 1e-6) for answer in answers]
    else:
        base = float(((y_M - y_N.mean()) ** 2).mean())
        scores = [1.0 - float(((y_M - answer) ** 2).mean()) / max(base, 1e-12) for answer in answers]
    return min(max(*scores, 0.0), 1.0)


def _ridge(x_NC: np.ndarray, y_N: np.ndarray, x_MC: np.ndarray, is_class: bool) -> np.ndarray:
    targets = np.eye(int(y_N.max()) + 1)[y_N] if is_class else y_N[:, None].astype(np.float64)
    mean = targets.mean(axis=0)
    gram = x_NC.T @ x_NC + _RIDGE * np.eye(x_NC.shape[1])
    found = x_MC @ np.linalg.solve(gram, x_NC.T @ (targets - mean)) + mean
    return found.argmax(axis=1) if is_class else found[:, 0]


def _tree(x_NC: np.ndarray, y_N: np.ndarray, x_MC: np.ndarray, is_class: bool) -> np.ndarray:
    kind = DecisionTreeClassifier if is_class else DecisionTreeRegressor
    # The leaves must not be single rows: a noisy table would look unsolvable through them.
    model = kind(max_depth=_TREE_DEPTH, min_samples_leaf=3, random_state=0)
    found: np.ndarray = model.fit(x_NC, y_N).predict(x_MC)
    return found
