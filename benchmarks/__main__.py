"""``python -m benchmarks [NAME ...]``: ours beside the peer, each measurement in a process of its own, one thread.

The sides of a pair take turns, so that a slow minute of the machine hits both; medians are compared.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

HERE = Path(__file__).parent
HIGHER_IS_BETTER = ("datasets_per_cpu_s", "product_share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row or more of the table: a script, run once per side and round."""

    name: str
    script: str
    arguments: str = ""
    rounds: int = 3
    peer: bool = True
    """False: the peer has no such thing, or takes too long for it."""


CASES = (
    Case(name="prior", script="bench_prior.py"),
    Case(name="step", script="bench_step.py", arguments="smoke"),
    Case(name="step", script="bench_step.py", arguments="small"),
    Case(name="step", script="bench_step.py", arguments="tabicl-v1 --steps 4", rounds=1),
    Case(name="predict", script="bench_predict.py", arguments="tabicl-v1"),
    Case(name="predict", script="bench_predict.py", arguments="tabicl-v1 --members 8"),
    Case(name="predict", script="bench_predict.py", arguments="tabicl-v1 --cache kv", rounds=1),
    Case(name="predict", script="bench_predict.py", arguments="tabicl-v2", rounds=1),
    Case(name="predict-large", script="bench_predict.py", arguments="tabicl-v1 --train 10000 --query 1000", rounds=1),
    Case(
        name="predict-large",
        script="bench_predict.py",
        arguments="tabicl-v1 --train 10000 --query 1000 --members 8",
        rounds=1,
    ),
    Case(
        name="predict-huge",
        script="bench_predict.py",
        arguments="tabicl-v1 --train 50000 --query 1000",
        rounds=1,
        peer=False,
    ),
    Case(
        name="predict-huge",
        script="bench_predict.py",
        arguments="small --train 100000 --query 1000",
        rounds=1,
        peer=False,
    ),
    Case(name="limix", script="bench_limix.py", arguments="limix-16m", peer=False),
    Case(name="limix", script="bench_limix.py", arguments="limix-2m", peer=False),
    Case(name="gate", script="bench_gate.py", rounds=1, peer=False),
)
DEFAULT = ("prior", "step", "predict", "predict-large", "limix", "gate")
"""Forty minutes; `predict-huge` takes half an hour more."""


def measure(case: Case, whose: str) -> dict[str, float]:
    """Run one side of a case once and return the JSON line that it printed last."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, "-m", f"benchmarks.{Path(case.script).stem}", whose, *case.arguments.split()]
    done = subprocess.run(
        command, env=os.environ | threads, cwd=HERE.parent, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def compare(case: Case) -> Iterator[dict[str, object]]:
    """Yield one row per figure: ours, the package's, and their ratio (below 1: ours needs less)."""
    sides = ("ours", "package") if case.peer else ("ours",)
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(case.rounds):
        for side in sides:
            found[side].append(measure(case, side))
    for figure in found["ours"][0]:
        values = {side: statistics.median(run[figure] for run in runs) for side, runs in found.items()}
        ratio = values["ours"] / values["package"] if case.peer and values["package"] else None
        yield {"benchmark": case.name, "case": case.arguments, "figure": figure, **values, "ratio": ratio}


def line(row: dict[str, object]) -> str:
    """Return a row of the Markdown table."""
    cells = (row["benchmark"], row["case"] or "-", row["figure"], row["ours"], row.get("package", "-"))
    ratio = row["ratio"]
    shown = f"{ratio:.2f}" if isinstance(ratio, float) else "-"
    if row["figure"] in HIGHER_IS_BETTER and ratio:
        shown += " (higher is better)"
    return "| " + " | ".join(map(str, (*cells, shown))) + " |"


def processor() -> str:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((text.split(":")[1].strip() for text in lines if text.startswith("model name")), platform.machine())


def header(command: str) -> str:
    """Return hardware, commit, date and command of a result."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return (
        f"Date {date.today()}, commit {commit.stdout.strip() or 'unknown'}, {processor()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}; one thread; CPU seconds include system time; memory is the peak over "
        f"that before the model was made.\n\nCommand: `{command}`"
    )


def main() -> None:
    """Print a Markdown table and keep it, with the figures as JSON, in ``results/``."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = list(dict.fromkeys(case.name for case in CASES))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: {' '.join(DEFAULT)}; of {' '.join(known)}")
    names = parser.parse_args().names or DEFAULT
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"unknown benchmark {', '.join(unknown)}; choose from {', '.join(known)}")
    lines = [
        header(f"python -m benchmarks {' '.join(names)}"),
        "",
        "| benchmark | case | figure | ours | package | ratio |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    print("\n".join(lines), flush=True)
    rows = []
    for case in CASES:
        if case.name in names:
            for row in compare(case):
                rows.append(row)
                lines.append(line(row))
                print(lines[-1], flush=True)
    stem = HERE / "results" / f"cpu_{date.today():%Y%m%d}_{'_'.join(names)}"
    stem.parent.mkdir(exist_ok=True)
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    stem.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(stem.with_suffix(".md"))


if __name__ == "__main__":
    main()
