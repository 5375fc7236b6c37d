"""CPU seconds and memory of one training step: ours, or the authors' package, same architecture and weights' sizes.

A step is forward, cross-entropy, backward and AdamW. Ours runs as `priorline.training` runs it, with
freed memory kept by the process; the package as it comes. ``product_share`` is the time that the step's
matrix products alone would take, at the rate of large square products, over the time that it took.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.measuring import emit, peak_mib
from benchmarks.peers import package_model
from torch.utils.flop_counter import FlopCounterMode

from priorline.models import MODELS
from priorline.models.tabicl.config import PRESETS
from priorline.training.allocator import keep_freed_memory

SHAPES = {"smoke": (16, 128, 10, 80), "small": (4, 1024, 20, 512), "tabicl-v1": (4, 1024, 20, 512)}
"""Tables, rows, columns, train rows."""


def product_flops(step: Callable[[], None]) -> float:
    """Return floating-point operations of all matrix products in ``step``, attention's included."""

    def attention(query: torch.Size, key: torch.Size, *_: Any, **__: Any) -> float:
        batch, heads, num_queries, width = query
        return 4.0 * batch * heads * num_queries * key[2] * width

    def attention_backward(_: torch.Size, query: torch.Size, key: torch.Size, *__: Any, **___: Any) -> float:
        return 2.5 * attention(query, key)

    operations = torch.ops.aten
    counted = {
        operations._scaled_dot_product_flash_attention_for_cpu: attention,
        operations._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward,
    }
    with FlopCounterMode(display=False, custom_mapping=counted) as counter:
        step()
    return float(counter.get_total_flops())


def product_rate(size: int = 2048, repeats: int = 4) -> float:
    """Return floating-point operations per CPU second of large square products."""
    x = torch.randn(size, size)
    x @ x
    start = time.process_time()
    for _ in range(repeats):
        x @ x
    return 2 * size**3 * repeats / (time.process_time() - start)


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

    def step() -> None:
        logits_BMK = model(x_BRC, y_BN.float())
        F.cross_entropy(logits_BMK.flatten(0, 1), y_BM.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    seconds = []
    for _ in range(arguments.steps):
        start = time.process_time()
        step()
        seconds.append(time.process_time() - start)
    cpu_s, peak = statistics.median(seconds[1:]), peak_mib() - base
    emit(cpu_s=cpu_s, peak_over_base_mib=peak, product_share=product_flops(step) / product_rate() / cpu_s)


if __name__ == "__main__":
    main()
