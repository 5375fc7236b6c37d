"""Labels of train rows as vectors: classes one-hot, more classes than heads by digits, values as they are.

Shapes: B tables, N train rows, E width.
"""

import itertools
import math

import torch.nn.functional as F
from torch import Tensor, nn


class LabelEncoder(nn.Linear):
    """Linear map of a one-hot class, or of a value where ``max_classes`` is 0."""

    def __init__(self, max_classes: int, width: int) -> None:
        super().__init__(max(max_classes, 1), width)
        self.max_classes = max_classes

    def forward(self, y_BN: Tensor) -> Tensor:
        """Return (B, N, E) for class codes 0..max_classes-1 or values."""
        if not self.max_classes:
            return super().forward(y_BN[..., None].to(self.weight.dtype))
        return super().forward(F.one_hot(y_BN.long(), self.max_classes).to(self.weight.dtype))

    def by_digit(self, y_BN: Tensor) -> list[Tensor]:
        """Return one (B, N, E) per mixed-radix digit of any number of classes; a single one for values."""
        num_classes = int(y_BN.max()) + 1 if self.max_classes else 0
        if num_classes <= self.max_classes:
            return [self(y_BN)]
        bases = mixed_radix_bases(num_classes, self.max_classes)
        weights = [math.prod(bases[place:]) for place in range(len(bases) + 1)]
        return [self(y_BN.long() % above // below) for above, below in itertools.pairwise(weights)]


def mixed_radix_bases(num_classes: int, max_base: int) -> list[int]:
    """Return the fewest bases, each at most ``max_base`` and nearly equal, whose product is at least ``num_classes``.

    Source: TabICLv2 (arXiv 2602.11139), many-class classification.
    """
    num_digits = next(digits for digits in itertools.count(1) if max_base**digits >= num_classes)
    base = next(base for base in range(2, max_base + 1) if base**num_digits >= num_classes)
    return [base] * num_digits
