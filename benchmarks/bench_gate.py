"""Seconds to gate 100,000 rows x 20 columns, 5 % of them bad, import of Great Expectations included."""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.measuring import emit

from priorline.datasets.contracts import profile_contract
from tasks.gate import run_gate

ROWS, COLUMNS = 100_000, 20


def table(seed: int, bad_share: float) -> pd.DataFrame:
    """Return 13 numeric, 6 categorical columns and a target; bad cells are out of range or unseen."""
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": generator.normal(size=ROWS) for i in range(13)})
    for i in range(COLUMNS - 14):
        frame[f"c{i}"] = generator.choice(list("abcdef"), size=ROWS)
    frame["y"] = generator.choice(["no", "yes"], size=ROWS)
    bad = generator.random(ROWS) < bad_share
    frame.loc[bad, "x3"] = 1e6
    frame.loc[bad, "c2"] = "unseen"
    return frame


def main() -> None:
    """Print one JSON line."""
    assert sys.argv[1] == "ours"
    context, query = table(0, 0.0), table(1, 0.05).drop(columns="y")
    start = time.perf_counter()
    contract = profile_contract(context, "y")
    with tempfile.TemporaryDirectory() as folder:
        report = run_gate(query, contract, Path(folder))
    wall_s = time.perf_counter() - start
    emit(wall_s=wall_s, rows=ROWS, quarantined=len(report.quarantined_rows))


if __name__ == "__main__":
    main()
