"""Rotary positions over interleaved pairs of a head's dimensions.

Source: Su et al., RoFormer (arXiv 2104.09864).
"""

import torch
from torch import Tensor, nn


class RotaryPositions(nn.Module):
    """Angles p / base^(2i / D) for position p and pair i."""

    def __init__(self, head_dim: int, base: float) -> None:
        super().__init__()
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        self.freqs = nn.Parameter(base**-exponents, requires_grad=False)

    def forward(self, num_positions: int) -> tuple[Tensor, Tensor]:
        """Return cosine and sine, each (num_positions, D / 2)."""
        positions = torch.arange(num_positions, dtype=self.freqs.dtype, device=self.freqs.device)
        angles = torch.outer(positions, self.freqs)
        return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return ``x`` (..., T, D) with each pair of dimensions turned by its position's angle."""
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1)
    return turned.flatten(-2)
