"""Reports show everything, ask nothing of the network, and are the same for the same rows."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from priorline.errors import InputError
from priorline.evaluation.config import EvaluationConfig, PromotionConfig
from priorline.evaluation.metrics import METRICS
from priorline.evaluation.promotion import decide
from priorline.evaluation.report import leaderboard, markdown_leaderboard, print_leaderboard, write_report
from priorline.evaluation.runner import COLUMNS, read_rows

CONFIG = EvaluationConfig(suite="classification", num_splits=2, baselines=("linear", "majority"))
NASTY = "<b>$new$|one</b>"


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.images: list[dict[str, str | None]] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    records = []
    levels = {NASTY: 0.8, "old": 0.78, "linear": 0.79, "majority": 0.5}
    for table in ("wine", "biopsy", "titanic"):
        for split in range(2):
            for contender, level in levels.items():
                failed = contender == "old" and table == "wine"
                for metric in METRICS["classification"]:
                    facts: dict[str, object] = dict.fromkeys(COLUMNS, 0)
                    facts |= {
                        "suite": "classification",
                        "suite_hash": "0123456789abcdef",
                        "problem_type": "classification",
                        "table": table,
                        "split": split,
                        "seed": split,
                        "contender": contender,
                        "is_baseline": contender in ("linear", "majority"),
                        "metric": metric,
                        "value": float("nan") if failed else level + generator.normal(scale=0.03),
                        "error": "RuntimeError: <no> memory" if failed else "",
                        "train_rows": 89,
                        "test_rows": 90,
                        "num_classes": 3,
                        "duplicate_test_rows": 9,
                        "mean_confidence": float("nan") if failed else 0.75,
                        "fit_s": 0.1,
                        "predict_s": 0.1,
                    }
                    records.append(facts)
    return pd.DataFrame(records)[list(COLUMNS)]


@pytest.fixture(scope="module")
def folder(rows: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("report")
    decision = decide(rows, [NASTY], "old", PromotionConfig())
    assert write_report(rows, directory, CONFIG, decision=decision) == directory / "report.html"
    return directory


def test_page_is_self_contained_and_escaped(folder: Path) -> None:
    html = (folder / "report.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(html)
    assert not {"script", "link", "iframe", "b"} & set(page.tags)
    assert set(re.findall(r"\b(?:src|href)=.{6}", html)) == {'src="data:'}
    assert "url(" not in html
    assert NASTY in page.text
    assert "RuntimeError: <no> memory" in page.text


def test_figures_have_texts_for_who_cannot_see_them(folder: Path) -> None:
    page = Page()
    page.feed((folder / "report.html").read_text(encoding="utf-8"))
    assert len(page.images) == 3
    for image in page.images:
        assert len(image["alt"] or "") > 40
        assert (image["src"] or "").startswith("data:image/svg+xml;base64,")


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_reports_say_how_to_repeat_them(folder: Path, name: str) -> None:
    page = Page()
    page.feed((folder / name).read_text(encoding="utf-8"))
    for text in ("0123456789abcdef", "priorline evaluate", "evaluation.num_splits=2", "C=1", "CC BY 4.0"):
        assert text in page.text
    assert "becomes champion" in page.text
    assert re.search(r"seeds 0(, 1| to 1)", page.text)


def test_losses_and_failures_are_shown(folder: Path) -> None:
    content = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    losses = {(item["contender"], item["table"]) for item in content["losses"]}
    assert ("old", "wine") in losses
    assert all(item["gap"] > 0 for item in content["losses"])
    assert content["failures"] == [
        {"contender": "old", "table": "wine", "splits": 2, "error": "RuntimeError: <no> memory"}
    ]
    assert content["decision"]["winner"] == NASTY
    assert content["facts"]["duplicate_share"] == 0.1


def test_equal_rows_give_equal_files(folder: Path, rows: pd.DataFrame, tmp_path: Path) -> None:
    decision = decide(rows, [NASTY], "old", PromotionConfig())
    write_report(read_rows(folder / "rows.parquet"), tmp_path, CONFIG, decision=decision)
    for name in ("report.html", "report.md", "summary.json"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_leaderboard_is_sorted_by_rank_and_plain(rows: pd.DataFrame) -> None:
    records = leaderboard(rows)
    assert json.loads(json.dumps(records)) == records
    ranks = [record["mean_rank"] for record in records]
    assert ranks == sorted(ranks)
    assert {record["contender"]: record["failures"] for record in records}["old"] == 2
    assert set(METRICS["classification"]) <= set(records[0])


def test_markdown_cells_stay_in_their_table(rows: pd.DataFrame) -> None:
    text = markdown_leaderboard(rows)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
    assert len(lines) == 2 + 4
    assert len(widths) == 1
    assert "tables: 3, splits: 2 (seeds 0 to 1)" in text


def test_terminal_shows_every_contender(rows: pd.DataFrame) -> None:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    print_leaderboard(console, rows)
    text = console.export_text()
    assert "linear (baseline)" in text
    assert "old" in text


def test_one_contender_on_one_split_still_reports(rows: pd.DataFrame, tmp_path: Path) -> None:
    single = rows[(rows["contender"] == "old") & (rows["table"] == "titanic") & (rows["split"] == 0)]
    write_report(single, tmp_path, CONFIG)
    assert "There is a single contender." in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_nothing_to_report_is_told(rows: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no rows"):
        write_report(rows[:0], tmp_path, CONFIG)
