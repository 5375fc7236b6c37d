"""``python -m benchmarks [NAME ...]``: run benchmarks, each measurement in a process of its own, one thread."""

import json
import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path

HERE = Path(__file__).parent
BENCHMARKS = {
    "prior": ("bench_prior.py", ["ours", "package"]),
    "step": ("bench_step.py", ["ours smoke", "package smoke", "ours small", "package small"]),
    "gate": ("bench_gate.py", ["ours"]),
}


def measure(script: str, case: str) -> dict[str, object]:
    """Run one case and return the JSON line that it printed last."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / script), *case.split()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    """Print a Markdown table and keep it in ``results/``."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    lines = [
        f"Date {date.today()}, commit {commit.stdout.strip() or 'unknown'}, {platform.machine()}, "
        f"{os.cpu_count()} cores, Python {platform.python_version()}; CPU seconds, one thread.",
        "",
        "| benchmark | case | result |",
        "| --- | --- | --- |",
    ]
    for name in sys.argv[1:] or BENCHMARKS:
        script, cases = BENCHMARKS[name]
        for case in cases:
            found = measure(script, case)
            lines.append(f"| {name} | {case} | {', '.join(f'{key} {value}' for key, value in found.items())} |")
            print(lines[-1], flush=True)
    path = HERE / "results" / f"cpu_{date.today():%Y%m%d}.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
