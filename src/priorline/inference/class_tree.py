"""More classes than the model was trained for: a tree of small classifications that share row embeddings.

Shapes: R rows = N train + M test, E row embedding, K classes, G groups of one node.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

Classify = Callable[[Tensor, Tensor], Tensor]
"""(rows_BRE, y_BN) to logits_BMK: one in-context pass of the model."""


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

    Each node splits its classes into at most ``max_classes`` groups of nearly equal size.

    Source: TabICL (arXiv 2502.05564), hierarchical class-extension strategy.
    """
    num_classes = len(codes)
    if num_classes <= max_classes:
        groups = tuple(range(code, code + 1) for code in codes)
    else:
        num_groups = min(-(-num_classes // max_classes), max_classes)
        cuts = [codes.start + num_classes * place // num_groups for place in range(num_groups + 1)]
        groups = tuple(range(*pair) for pair in pairwise(cuts))
    children = tuple(build_class_tree(group, max_classes) if len(group) > 1 else None for group in groups)
    return ClassNode(groups, children)


def class_log_probs(
    classify: Classify, rows_BRE: Tensor, y_BN: Tensor, num_classes: int, max_classes: int, temperature: float
) -> Tensor:
    """Return log_probs_BMK of the test rows, float64, for any number of classes.

    Parameters
    ----------
    classify : callable
        One in-context pass; it may return more than ``max_classes`` logits, never fewer.
    rows_BRE : Tensor
        Row embeddings, train rows first.
    y_BN : Tensor
        int64 codes of the train rows; every class occurs in each row of ``y_BN``.
    temperature : float
        Divides the logits of every node.
    """
    if num_classes <= max_classes:
        return _node_log_probs(classify, rows_BRE, y_BN, num_classes, temperature)
    tree = build_class_tree(range(num_classes), max_classes)
    # Members order the classes differently, so the train rows of a node are their own.
    members = [
        _tree_log_probs(classify, tree, rows_RE, y_N, num_classes, temperature)
        for rows_RE, y_N in zip(rows_BRE, y_BN, strict=True)
    ]
    return torch.stack(members)


def _tree_log_probs(
    classify: Classify, tree: ClassNode, rows_RE: Tensor, y_N: Tensor, num_classes: int, temperature: float
) -> Tensor:
    train_NE, test_ME = rows_RE[: len(y_N)], rows_RE[len(y_N) :]
    log_probs_MK = torch.empty(len(test_ME), num_classes, dtype=torch.float64, device=rows_RE.device)
    start_M = torch.zeros(len(test_ME), dtype=torch.float64, device=rows_RE.device)
    waiting = [(tree, start_M)]
    while waiting:
        node, path_M = waiting.pop()
        first, last = node.groups[0].start, node.groups[-1].stop
        is_here_N = (y_N >= first) & (y_N < last)
        starts_G = torch.tensor([group.start for group in node.groups], device=y_N.device)
        y_group_N = torch.searchsorted(starts_G, y_N[is_here_N], right=True) - 1
        rows_BRE = torch.cat([train_NE[is_here_N], test_ME])[None]
        steps_BMG = _node_log_probs(classify, rows_BRE, y_group_N[None], len(node.groups), temperature)
        for place, (group, child) in enumerate(zip(node.groups, node.children, strict=True)):
            log_prob_M = path_M + steps_BMG[0, :, place]
            if child is None:
                log_probs_MK[:, group.start] = log_prob_M
            else:
                waiting.append((child, log_prob_M))
    return log_probs_MK


def _node_log_probs(classify: Classify, rows_BRE: Tensor, y_BN: Tensor, num_classes: int, temperature: float) -> Tensor:
    logits_BMK = classify(rows_BRE, y_BN)[..., :num_classes].double()
    return torch.log_softmax(logits_BMK / temperature, dim=-1)
