"""CPU cost and memory of one LimiX forward pass: 1000 context rows, 200 query rows, 20 columns, labels wanted.

``times_product`` is its CPU time over that of a product of two 1024 x 1024 matrices, timed in turns with it, so that
figures of different machines can be held beside each other. The authors' code took 346 to 371 with 354 MiB for
the 16M model, 103 for the 2M (torch 2.13, float32, without flash-attn, one thread of another machine).
"""

import argparse
import statistics
import time

import torch
from benchmarks.measuring import emit, peak_mib

from priorline.models import MODELS
from priorline.models.limix.config import PRESETS

CONTEXT, QUERY, COLUMNS = 1000, 200, 20
_PRODUCTS = 4


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("whose", choices=["ours"])
    parser.add_argument("size", choices=PRESETS)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = MODELS["limix"].build(PRESETS[arguments.size]()).eval().requires_grad_(False)
    x_BRC = torch.randn(1, CONTEXT + QUERY, COLUMNS)
    y_BN = torch.randint(0, 5, (1, CONTEXT))
    square = torch.randn(1024, 1024)
    square @ square
    base = peak_mib()
    passes, products = [], []
    with torch.no_grad():
        for _ in range(arguments.rounds):
            for seconds, repeats, work in (
                (products, _PRODUCTS, lambda: square @ square),
                (passes, 1, lambda: model(x_BRC, y_BN, wants_cells=False)),
                (products, _PRODUCTS, lambda: square @ square),
            ):
                start = time.process_time()
                for _ in range(repeats):
                    work()
                seconds.append((time.process_time() - start) / repeats)
    cpu_s = statistics.median(passes)
    emit(
        cpu_s=cpu_s,
        times_product=cpu_s / statistics.median(products),
        peak_over_base_mib=peak_mib() - base,
    )


if __name__ == "__main__":
    main()
