"""``python -m benchmarks.curve``: time and memory of a prediction against rows and columns, and 500,000 rows on paper.

Each point is a process of its own, one thread, `small` preset, one member, 500 query rows. The
exponents between neighbouring points are log-log slopes; TabICL's cost is O(n^2 + n m^2) for n rows and
m columns, so the slopes rise to 2 in n, and towards 2 in m from 1 (the products per cell) below.
"""

import math
from itertools import pairwise

from benchmarks.__main__ import HERE, Case, header, measure

from priorline.models.tabicl.config import TabICLConfig, tabicl_v1

ROWS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
COLUMNS = (10, 20, 40, 80, 160, 320)
FIXED_COLUMNS, FIXED_ROWS = 10, 500
GIB = 2**30


def flops(config: TabICLConfig, rows: int, columns: int) -> dict[str, float]:
    """Return floating-point operations of one member by stage, ``rows`` of context and queries together."""
    width, row_width = config.embed_dim, config.embed_dim * config.row_num_cls
    per_token = 2 * width**2 * (4 + 2 * config.ff_factor)
    cells, tokens = rows * columns, rows * (columns + config.row_num_cls)
    inducing = 4 * width * config.col_num_inds
    return {
        "columns": config.col_num_blocks * cells * (per_token + 4 * width**2 + 2 * inducing),
        "rows": config.row_num_blocks * tokens * (per_token + 4 * width * (columns + config.row_num_cls)),
        "in-context": config.icl_num_blocks
        * rows
        * (2 * row_width**2 * (4 + 2 * config.ff_factor) + 4 * row_width * rows),
    }


def memory_gib(config: TabICLConfig, rows: int, float_bytes: int) -> dict[str, float]:
    """Return GiB on the device by holder, rows in main memory until the in-context learner takes them."""
    row_width = config.embed_dim * config.row_num_cls
    return {
        "row embeddings, twice": 2 * rows * row_width * float_bytes / GIB,
        "keys and values of one block": 2 * rows * row_width * float_bytes / GIB,
        "norm and projection of one block": 3 * rows * row_width * float_bytes / GIB,
        "one column's train rows": 5 * rows * config.embed_dim * float_bytes / GIB,
    }


def points(name: str, values: tuple[int, ...], other: str) -> list[tuple[int, float, float]]:
    """Return (value, CPU seconds, MiB over base) along one axis."""
    found = []
    for value in values:
        arguments = f"small --query 500 --{name} {value} {other}"
        figures = measure(Case(name="curve", script="bench_predict.py", arguments=arguments), "ours")
        found.append((value, figures["cpu_s"], figures["peak_over_base_mib"]))
        print(name, found[-1], flush=True)
    return found


def table(title: str, found: list[tuple[int, float, float]]) -> list[str]:
    """Return a Markdown table with the slope to the point before."""
    lines = ["", f"| {title} | CPU s | slope | MiB over base | slope |", "| --- | --- | --- | --- | --- |"]
    value, seconds, mib = found[0]
    lines.append(f"| {value} | {seconds:.2f} | - | {mib:.0f} | - |")
    for before, after in pairwise(found):
        step = math.log(after[0] / before[0])
        slopes = [
            math.log(max(new, 1e-9) / max(old, 1e-9)) / step for old, new in zip(before[1:], after[1:], strict=True)
        ]
        lines.append(f"| {after[0]} | {after[1]:.2f} | {slopes[0]:.2f} | {after[2]:.0f} | {slopes[1]:.2f} |")
    return lines


def on_paper(rows: int, columns: int) -> list[str]:
    """Return what ``rows`` x ``columns`` takes of a GPU with 80 GiB, from the formulas."""
    config = tabicl_v1()
    work = flops(config, rows, columns)
    lines = ["", f"## {rows:,} rows x {columns} columns on one GPU of 80 GiB, on paper", ""]
    lines += ["| stage | TFLOP |", "| --- | --- |"]
    lines += [f"| {stage} | {value / 1e12:,.0f} |" for stage, value in work.items()]
    lines.append(f"| together, one member | {sum(work.values()) / 1e12:,.0f} |")
    lines += ["", "| on the device | float32 GiB | bfloat16 GiB |", "| --- | --- | --- |"]
    single, half = (memory_gib(config, rows, size) for size in (4, 2))
    lines += [f"| {holder} | {single[holder]:.2f} | {half[holder]:.2f} |" for holder in single]
    lines.append(f"| together | {sum(single.values()):.2f} | {sum(half.values()):.2f} |")
    total = sum(work.values()) / 1e12
    over_rows = 4 * config.embed_dim * config.row_num_cls * rows**2 * config.icl_num_blocks / 1e12
    over_columns = 4 * config.embed_dim * rows * columns**2 * config.row_num_blocks / 1e12
    lines += [
        "",
        f"At 60 TFLOP/s sustained (float32 by TF32) one member takes about {total / 60:,.0f} s, at 250 TFLOP/s "
        f"(bfloat16) about {total / 250:,.0f} s. The two terms of O(n^2 + n m^2): attention over rows "
        f"{over_rows:,.0f} TFLOP, over columns {over_columns:,.0f} TFLOP.",
    ]
    return lines


def main() -> None:
    """Print the curve and keep it in ``results/``."""
    lines = [header("python -m benchmarks.curve")]
    lines += ["", f"`small` preset, one member, 500 query rows; first {FIXED_COLUMNS} columns, then {FIXED_ROWS} rows."]
    lines += table("context rows", points("train", ROWS, f"--columns {FIXED_COLUMNS}"))
    lines += table("columns", points("columns", COLUMNS, f"--train {FIXED_ROWS}"))
    lines += on_paper(500_000, 100) + on_paper(500_000, 500)
    path = HERE / "results" / "curve.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
