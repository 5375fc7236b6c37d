"""More classes than the model was trained for: a tree of small classifications that share row embeddings.

Shapes: N train rows, M query rows, E row embedding, K classes, G groups of one node.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

Predict = Callable[[Tensor], Tensor]
"""Embeddings of query rows (M, E) to outputs (M, K)."""
Read = Callable[[Tensor, Tensor], Predict]
"""Embeddings (N, E) and labels (N,) of train rows to a `Predict`: the context of one in-context pass."""


@dataclass(frozen=True, slots=True)
class ClassNode:
    """One in-context classification: which group of classes does a row belong to?"""

    groups: tuple[range, ...]
    """Consecutive class codes, at least two groups."""
    children: tuple["ClassNode | None", ...]
    """The node that tells a group's classes apart; None for a group of one class."""

    @property
    def depth(self) -> int:
        """Classifications on the longest way from here to one class."""
        return 1 + max((child.depth for child in self.children if child is not None), default=0)


def build_class_tree(codes: range, max_classes: int) -> ClassNode:
    """Return the tree over class codes ``codes``, of depth ceil(log(K) / log(max_classes)).

    Each node splits its classes into at most ``max_classes`` groups of nearly equal size, larger ones first.

    Source: TabICL (arXiv 2502.05564), hierarchical class-extension strategy.
    """
    num_classes = len(codes)
    if num_classes <= max_classes:
        groups = tuple(range(code, code + 1) for code in codes)
    else:
        num_groups = min(-(-num_classes // max_classes), max_classes)
        size, larger = divmod(num_classes, num_groups)
        cuts = [codes.start + size * place + min(place, larger) for place in range(num_groups + 1)]
        groups = tuple(range(*pair) for pair in pairwise(cuts))
    children = tuple(build_class_tree(group, max_classes) if len(group) > 1 else None for group in groups)
    return ClassNode(groups, children)


def read_classes(
    read: Read, rows_NE: Tensor, y_N: Tensor, num_classes: int, max_classes: int, temperature: float
) -> Predict:
    """Return a function from query rows (M, E) to log_probs_MK, float64, for any number of classes.

    Parameters
    ----------
    read : callable
        Reads labelled rows; what it returns may give more than ``max_classes`` logits, never fewer.
    rows_NE : Tensor
        Embeddings of train rows.
    y_N : Tensor
        int64 codes of the train rows; every class occurs.
    temperature : float
        Divides the logits of every node.
    """
    if num_classes <= max_classes:
        return _read_node(read, rows_NE, y_N, num_classes, temperature)
    tree = build_class_tree(range(num_classes), max_classes)
    readings: list[tuple[ClassNode, Predict]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        is_here_N = (y_N >= node.groups[0].start) & (y_N < node.groups[-1].stop)
        starts_G = torch.tensor([group.start for group in node.groups], device=y_N.device)
        y_group_N = torch.searchsorted(starts_G, y_N[is_here_N], right=True) - 1
        readings.append((node, _read_node(read, rows_NE[is_here_N], y_group_N, len(node.groups), temperature)))
        waiting += [child for child in node.children if child is not None]

    def predict(query_ME: Tensor) -> Tensor:
        log_probs_MK = torch.zeros(len(query_ME), num_classes, dtype=torch.float64, device=query_ME.device)
        for node, steps in readings:
            for group, step_M in zip(node.groups, steps(query_ME).unbind(-1), strict=True):
                log_probs_MK[:, group.start : group.stop] += step_M[:, None]
        return log_probs_MK

    return predict


def _read_node(read: Read, rows_NE: Tensor, y_N: Tensor, num_classes: int, temperature: float) -> Predict:
    answer = read(rows_NE, y_N)

    def predict(query_ME: Tensor) -> Tensor:
        logits_MK = answer(query_ME)[:, :num_classes].double()
        return torch.log_softmax(logits_MK / temperature, dim=-1)

    return predict
