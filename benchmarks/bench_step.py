"""CPU seconds and memory of one training step: ours, or the authors' package, same architecture and weights' sizes.

A step is forward, cross-entropy, backward and AdamW. Ours runs as `priorline.training` runs it, with
freed memory kept by the process; the package as it comes.
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from benchmarks.measuring import emit, peak_mib
from benchmarks.peers import package_model

from priorline.models import MODELS
from priorline.models.tabicl.config import PRESETS
from priorline.training.allocator import keep_freed_memory

SHAPES = {"smoke": (16, 128, 10, 80), "small": (4, 1024, 20, 512), "tabicl-v1": (4, 1024, 20, 512)}
"""Tables, rows, columns, train rows."""


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("whose", choices=["ours", "package"])
    parser.add_argument("size", choices=SHAPES)
    parser.add_argument("--steps", type=int, default=6)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = PRESETS[arguments.size]()
    if arguments.whose == "ours":
        keep_freed_memory()
    base = peak_mib()
    model = MODELS["tabicl"].build(config) if arguments.whose == "ours" else package_model(config)
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-4)
    tables, rows, columns, train = SHAPES[arguments.size]
    x_BRC = torch.randn(tables, rows, columns)
    y_BN = torch.randint(0, 5, (tables, train))
    y_BM = torch.randint(0, 5, (tables, rows - train))
    seconds = []
    for _ in range(arguments.steps):
        start = time.process_time()
        logits_BMK = model(x_BRC, y_BN.float())
        F.cross_entropy(logits_BMK.flatten(0, 1), y_BM.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.process_time() - start)
    emit(cpu_s=statistics.median(seconds[1:]), peak_over_base_mib=peak_mib() - base)


if __name__ == "__main__":
    main()
