"""CPU seconds of one forward and backward pass: ours, or the authors' package, same architecture."""

import json
import resource
import statistics
import sys
import time
from typing import Any

import torch
import torch.nn.functional as F

from priorline.models import MODELS
from priorline.models.tabicl.config import PRESETS, TabICLConfig

SHAPES = {"smoke": (16, 128, 10, 80), "small": (4, 1024, 20, 512)}
"""Tables, rows, columns, train rows."""


def package_model(config: TabICLConfig) -> Any:
    """Return the package's model with the v1 options and the sizes of ``config``."""
    from tabicl._model.tabicl import TabICL

    return TabICL(
        max_classes=config.max_classes,
        embed_dim=config.embed_dim,
        col_num_blocks=config.col_num_blocks,
        col_nhead=config.col_num_heads,
        col_num_inds=config.col_num_inds,
        col_affine=True,
        col_feature_group=False,
        col_target_aware=False,
        col_ssmax=False,
        row_num_blocks=config.row_num_blocks,
        row_nhead=config.row_num_heads,
        row_num_cls=config.row_num_cls,
        row_rope_base=config.row_rope_base,
        row_rope_interleaved=True,
        icl_num_blocks=config.icl_num_blocks,
        icl_nhead=config.icl_num_heads,
        icl_ssmax=False,
        ff_factor=config.ff_factor,
        dropout=0.0,
        activation="gelu",
        norm_first=True,
        bias_free_ln=False,
        zero_init=False,
    )


def main() -> None:
    """Print one JSON line."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    whose, size = sys.argv[1:]
    config = PRESETS[size]()
    model = (MODELS["tabicl"].build(config) if whose == "ours" else package_model(config)).train()
    tables, rows, columns, train = SHAPES[size]
    x_BRC = torch.randn(tables, rows, columns)
    y_BN = torch.randint(0, 5, (tables, train))
    y_BM = torch.randint(0, 5, (tables, rows - train))
    seconds = []
    for _ in range(6):
        start = time.process_time()
        model.zero_grad()
        logits_BMK = model(x_BRC, y_BN.float())
        F.cross_entropy(logits_BMK.flatten(0, 1), y_BM.flatten()).backward()
        seconds.append(time.process_time() - start)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"cpu_s": round(statistics.median(seconds[1:]), 3), "peak_rss_mib": peak_mib}))


if __name__ == "__main__":
    main()
