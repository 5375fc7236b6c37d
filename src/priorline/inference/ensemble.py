"""Members of an ensemble: the same table in other column orders, class orders and normalisations."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from priorline.config_io import nearest_name
from priorline.errors import InputError

FEATURE_SHUFFLES = ("latin", "random", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Members that see the same cells in the same order, so that row embeddings are computed once."""

    normalization: str
    columns: tuple[int, ...]
    """Order of the columns."""
    class_shifts: tuple[int, ...]
    """One member each: class code c is shown as (c + shift) mod K."""


def plan_views(
    num_members: int,
    *,
    num_columns: int,
    num_classes: int,
    normalizations: tuple[str, ...],
    feature_shuffle: str,
    class_shift: bool,
    generator: np.random.Generator,
) -> list[View]:
    """Return the views of ``num_members`` members; fewer members when no more distinct ones exist.

    Normalisations take turns; of each, two members in a row share a column order and differ in the
    class shift only. The first member sees columns and classes as they are.

    Differs: the package draws members from the full product, so that hardly two of them share a
    column order; pairs halve the cost of row embeddings.
    """
    if feature_shuffle not in FEATURE_SHUFFLES:
        hint = nearest_name(str(feature_shuffle), FEATURE_SHUFFLES)
        raise InputError(f"feature_shuffle={feature_shuffle!r} is unknown{hint}")
    shifts = [0, *(1 + generator.permutation(num_classes - 1))] if class_shift else [0]
    members_per_norm = -(-num_members // len(normalizations))
    orders = _column_orders(feature_shuffle, num_columns, members_per_norm, generator)
    # Two shifts for each order in turn; orders come round again with the shifts they lack.
    num_twos = len(shifts) if len(shifts) % 2 else len(shifts) // 2
    pairs = dict.fromkeys(
        (place, int(shifts[(2 * (turn + place) + step) % len(shifts)]))
        for turn in range(num_twos)
        for place in range(len(orders))
        for step in range(2)
    )
    members = [(norm, *pair) for pair in list(pairs)[:members_per_norm] for norm in normalizations]
    grouped: dict[tuple[str, int], list[int]] = {}
    for norm, place, shift in members[:num_members]:
        grouped.setdefault((norm, place), []).append(shift)
    return [
        View(normalization=norm, columns=orders[place], class_shifts=tuple(found))
        for (norm, place), found in grouped.items()
    ]


def class_scores(log_probs_MK: Tensor, class_shift: int, average_logits: bool) -> Tensor:
    """Return a member's scores_MK, classes put back into their order, to be summed over members.

    Log probabilities are logits less a constant per row, so their mean and a softmax equal the
    softmax of mean logits; also where a class tree has no single set of logits.
    """
    values_MK = log_probs_MK if average_logits else log_probs_MK.exp()
    return values_MK.roll(-class_shift, dims=-1)


def probabilities(scores_MK: Tensor, num_members: int, average_logits: bool) -> np.ndarray:
    """Return (M, K) float64 probabilities from the sum of members' scores; each row sums to 1."""
    mean_MK = scores_MK / num_members
    if average_logits:
        return torch.softmax(mean_MK, dim=-1).cpu().numpy()
    return (mean_MK / mean_MK.sum(dim=-1, keepdim=True)).cpu().numpy()


def _column_orders(
    shuffle: str, num_columns: int, wanted: int, generator: np.random.Generator
) -> list[tuple[int, ...]]:
    """Return up to ``wanted`` distinct column orders, the given one first."""
    given = tuple(range(num_columns))
    orders = {given: None}
    if shuffle == "none" or num_columns == 1:
        return [given]
    # Small tables have fewer orders than members; stop after as many fruitless draws.
    for _ in range(wanted):
        if shuffle == "random":
            found = [generator.permutation(num_columns)]
        else:
            found = _latin_rows(num_columns, wanted, generator)
        orders.update({tuple(int(column) for column in order): None for order in found})
        if len(orders) >= wanted:
            break
    return list(orders)[:wanted]


def _latin_rows(num_columns: int, wanted: int, generator: np.random.Generator) -> list[np.ndarray]:
    """Return up to ``wanted`` rows of a random Latin square, its first row, the identity, left out.

    In no two rows does a column stand in the same place: the cyclic square with renamed columns.
    """
    names = generator.permutation(num_columns)
    place_of = np.argsort(names)
    shifts = 1 + generator.permutation(num_columns - 1)
    return [names[(place_of + shift) % num_columns] for shift in shifts[:wanted]]
