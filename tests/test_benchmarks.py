"""The benchmark scripts run on both sides and give figures; what the figures are is no test's business."""

import pytest
from benchmarks.__main__ import CASES, Case, compare, line


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("bench_step.py", "smoke --steps 2"),
        ("bench_predict.py", "smoke --train 60 --query 20 --columns 4 --cache kv"),
    ],
)
def test_both_sides_are_measured(script, arguments):
    rows = list(compare(Case(name="debug", script=script, arguments=arguments, rounds=1)))
    figures = [row["figure"] for row in rows]
    assert {"cpu_s", "peak_over_base_mib"} <= set(figures)
    assert ("again_cpu_s" in figures) is ("kv" in arguments)
    for row in rows:
        assert row["ours"] >= 0
        assert row["package"] >= 0
        assert line(row).count("|") == 7


def test_every_case_names_a_script_that_is_there():
    from benchmarks.__main__ import HERE

    assert all((HERE / case.script).exists() for case in CASES)
