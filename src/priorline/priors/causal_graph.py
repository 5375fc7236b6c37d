"""Directed acyclic graphs made of local causal structures, and what a node is to the target.

A graph is a chain, fork or collider whose parts are again such structures, down to single nodes. Nodes
are numbered so that every edge leads to a larger number; edits keep it so.

Source: LimiX (arXiv 2509.03505), hierarchical structural causal models.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from pydantic import Field

from priorline.config_io import Config

Structure = Literal["chain", "fork", "collider"]
STRUCTURES: tuple[Structure, ...] = ("chain", "fork", "collider")
Role = Literal["ancestor", "descendant", "relative", "distractor"]
Edge = tuple[int, int]

_MOST_PARTS = 4


class GraphConfig(Config):
    """How graphs are composed and edited."""

    nodes_per_column: tuple[float, float] = (0.6, 1.3)
    """Nodes for each column asked for, uniform between the two; what no column shows stays latent."""
    most_parents: int = Field(default=4, ge=1)
    """Parents of a node at most; further edges are dropped."""
    bridge_prob: float = Field(default=0.5, ge=0, le=1)
    """Chance of a second edge between two joined structures."""
    redirect_prob: float = Field(default=0.1, ge=0, le=1)
    """Chance that an edge comes from another earlier node."""
    detour_prob: float = Field(default=0.1, ge=0, le=1)
    """Chance that an edge is replaced by a path over a node between its ends."""
    effect_target_prob: float = Field(default=0.85, ge=0, le=1)
    """Chance that the target has causes in the graph; else it may be any node."""
    distractor_share: tuple[float, float] = (0.0, 0.4)
    """Share of columns that have nothing to do with the target, uniform between the two."""


@dataclass(frozen=True, kw_only=True)
class CausalGraph:
    """Nodes 0..num_nodes-1 in topological order."""

    num_nodes: int
    edges: tuple[Edge, ...]
    """(cause, effect), by effect; cause < effect."""
    structure: Any
    """How it was composed before the edits: a node's number, or ``{"kind": ..., "parts": [...]}``."""

    @cached_property
    def is_ancestor(self) -> np.ndarray:
        """(node, other) bool: whether the other node leads to the node."""
        found = np.zeros((self.num_nodes, self.num_nodes), dtype=bool)
        for cause, effect in self.edges:
            found[effect] |= found[cause]
            found[effect, cause] = True
        return found

    def parents(self, node: int) -> list[int]:
        """Return the causes of ``node``."""
        return [cause for cause, effect in self.edges if effect == node]

    def role(self, node: int, target: int) -> Role:
        """Return what ``node`` is to ``target``: cause, effect, otherwise dependent, or independent of it."""
        if self.is_ancestor[target, node]:
            return "ancestor"
        if self.is_ancestor[node, target]:
            return "descendant"
        # Dependent without any condition: a common cause; a path through a common effect is closed.
        has_common = bool((self.is_ancestor[target] & self.is_ancestor[node]).any())
        return "relative" if has_common else "distractor"


def draw_graph(num_nodes: int, config: GraphConfig, generator: np.random.Generator) -> CausalGraph:
    """Return a graph of ``num_nodes`` nodes."""
    edges: set[Edge] = set()
    structure = _compose(range(num_nodes), edges, config, generator)
    edges = _edited(edges, config, generator)
    kept: list[Edge] = []
    for effect in range(num_nodes):
        causes = sorted(cause for cause, other in edges if other == effect)
        if len(causes) > config.most_parents:
            causes = sorted(generator.permutation(causes)[: config.most_parents].tolist())
        kept += [(cause, effect) for cause in causes]
    return CausalGraph(num_nodes=num_nodes, edges=tuple(kept), structure=structure)


def draw_target(graph: CausalGraph, config: GraphConfig, generator: np.random.Generator) -> int:
    """Return the node to predict: mostly one with causes, and rather one with many."""
    weights = graph.is_ancestor.sum(axis=1).astype(np.float64)
    if weights.sum() == 0 or generator.random() >= config.effect_target_prob:
        return int(generator.integers(graph.num_nodes))
    weights = np.sqrt(weights)
    return int(generator.choice(graph.num_nodes, p=weights / weights.sum()))


def draw_columns(
    graph: CausalGraph, target: int, num_columns: int, config: GraphConfig, generator: np.random.Generator
) -> list[int]:
    """Return the node behind each column: dependent on the target, but for a share of distractors.

    Where there are too few nodes of either sort, the other takes their place, and then nodes come twice
    (a column shows one aspect of its node).
    """
    nodes = [node for node in range(graph.num_nodes) if node != target]
    roles = {node: graph.role(node, target) for node in nodes}
    informative = [node for node in nodes if roles[node] != "distractor"]
    distractors = [node for node in nodes if roles[node] == "distractor"]
    wanted = round(num_columns * generator.uniform(*config.distractor_share))
    wanted = min(wanted, len(distractors), num_columns - bool(informative))
    chosen = generator.permutation(distractors)[:wanted].tolist()
    chosen += generator.permutation(informative)[: num_columns - wanted].tolist()
    rest = [node for node in distractors if node not in chosen]
    chosen += generator.permutation(rest)[: num_columns - len(chosen)].tolist()
    again = nodes or [target]
    chosen += [again[int(place)] for place in generator.integers(len(again), size=num_columns - len(chosen))]
    return [int(node) for node in generator.permutation(chosen)]


def _compose(nodes: range, edges: set[Edge], config: GraphConfig, generator: np.random.Generator) -> Any:
    """Add the edges of a structure over ``nodes`` and return how it is made."""
    if len(nodes) == 1:
        return nodes.start
    kind = STRUCTURES[int(generator.integers(len(STRUCTURES)))]
    num_parts = int(generator.integers(2, min(len(nodes), _MOST_PARTS) + 1))
    cuts = np.sort(generator.choice(np.arange(1, len(nodes)), num_parts - 1, replace=False)).tolist()
    bounds = [0, *cuts, len(nodes)]
    parts = [nodes[low:high] for low, high in pairwise(bounds)]
    made = [_compose(part, edges, config, generator) for part in parts]
    for first, second in _joints(kind, len(parts)):
        for _ in range(1 + (generator.random() < config.bridge_prob)):
            edges.add((int(generator.choice(parts[first])), int(generator.choice(parts[second]))))
    return {"kind": kind, "parts": made}


def _joints(kind: Structure, num_parts: int) -> Iterator[tuple[int, int]]:
    """Yield which part leads to which: earlier to later always."""
    last = num_parts - 1
    for place in range(last):
        if kind == "chain":
            yield place, place + 1
        elif kind == "fork":
            yield 0, place + 1
        else:
            yield place, last


def _edited(edges: set[Edge], config: GraphConfig, generator: np.random.Generator) -> set[Edge]:
    edited: set[Edge] = set()
    for cause, effect in sorted(edges):
        chance = generator.random()
        if chance < config.redirect_prob:
            edited.add((int(generator.integers(effect)), effect))
        elif chance < config.redirect_prob + config.detour_prob and effect - cause > 1:
            between = int(generator.integers(cause + 1, effect))
            edited |= {(cause, between), (between, effect)}
        else:
            edited.add((cause, effect))
    return edited
