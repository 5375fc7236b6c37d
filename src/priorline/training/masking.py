"""Which cells of query rows are hidden from a model that learns to fill them.

Shapes: B tables, M query rows, C columns.
"""

import torch
from torch import Tensor

MASK_RATIO = (0.1, 0.4)
"""Share of a table's query cells that are hidden, uniform between the two."""
PATTERNS = ("cell", "column", "block")
"""Cells anywhere; whole columns; some columns of some rows. Each table draws one, all as likely.

Source: LimiX (arXiv 2509.03505), context-conditional masked modelling.
"""


def draw_masks(is_usable_BMC: Tensor) -> Tensor:
    """Return which cells to hide, all of them usable ones (known, and in a valid column); (B, M, C) bool.

    At least one column's cells are chosen by ``column`` and ``block``, so that narrow tables learn too.
    Draws from torch's global generator on the CPU, whatever the device: as many numbers for every batch
    of the same shape.
    """
    tables, rows, columns = is_usable_BMC.shape
    low, high = MASK_RATIO
    ratio_B = low + (high - low) * torch.rand(tables)
    pattern_B = torch.randint(len(PATTERNS), (tables,))
    share_B = ratio_B + (1 - ratio_B) * torch.rand(tables)
    cells_BMC, columns_BC, rows_BM = (torch.rand(shape) for shape in _shapes(tables, rows, columns))
    widths_B = is_usable_BMC.cpu().any(dim=1).sum(dim=1)
    columns_BC = columns_BC.masked_fill(~is_usable_BMC.cpu().any(dim=1), 2.0)
    place_BC = columns_BC.argsort(dim=1).argsort(dim=1)

    def some_columns(share_B: Tensor) -> Tensor:
        return (place_BC < (share_B * widths_B).round().clamp(min=1)[:, None])[:, None]

    by_pattern_PBMC = torch.stack(
        [
            cells_BMC < ratio_B[:, None, None],
            some_columns(ratio_B).expand(-1, rows, -1),
            some_columns(ratio_B / share_B) & (rows_BM < share_B[:, None])[..., None],
        ]
    )
    chosen_BMC = by_pattern_PBMC[pattern_B, torch.arange(tables)]
    return chosen_BMC.to(is_usable_BMC.device) & is_usable_BMC


def _shapes(tables: int, rows: int, columns: int) -> tuple[tuple[int, ...], ...]:
    return (tables, rows, columns), (tables, columns), (tables, rows)
