"""Titanic by LimiX, one command each: classify, predict a fare, fill gaps, draw passengers, give reasons."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from priorline.checkpoints import load_weights
from priorline.evaluation.suites import load_example

OFFICIAL = Path(__file__).parents[1] / "data" / "limix"


@pytest.fixture(scope="module")
def passengers() -> pd.DataFrame:
    """Real passengers in the columns of the well-known file; fare and port are made up from the others."""
    context = load_example("titanic").context.head(120).copy()
    generator = np.random.default_rng(0)
    klass = context["pclass"].str[0].astype(int)
    return pd.DataFrame(
        {
            "PassengerId": np.arange(1, len(context) + 1),
            "Survived": (context["survived"] == "survived").astype(int),
            "Pclass": klass,
            "Sex": context["sex"],
            "Age": context["age"],
            "SibSp": context["sibsp"],
            "Fare": (90 / klass**2 * generator.lognormal(0, 0.3, len(context))).round(4),
            "Embarked": np.where(generator.random(len(context)) < 0.05, None, generator.choice(list("SCQ"), 120)),
        }
    )


@pytest.fixture
def call(passengers, random_limix, tmp_path, prefect_server, monkeypatch, capsys):
    """Return a function: a command's arguments in, (exit code, JSON answer) out; run among the files."""
    passengers.head(100).to_csv(tmp_path / "train.csv", index=False)
    passengers.tail(20).drop(columns="Survived").to_csv(tmp_path / "test.csv", index=False)
    monkeypatch.setenv("PRIORLINE_ROOT", str(tmp_path / "project"))
    monkeypatch.setenv("PRIORLINE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    from flows.cli import app
    from priorline.cli import run_app

    def run(text: str, weights: Path | None = random_limix):
        capsys.readouterr()
        code = run_app(app, [*text.split(), *(["--weights", str(weights)] if weights else []), "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def test_classes_and_numbers_are_predicted(call):
    command = "predict --context train.csv --query test.csv"
    code, answer = call(f"{command} --target Survived --problem-type classification --out survived.csv")
    assert code == 0, answer
    assert set(pd.read_csv("survived.csv")["prediction"]) <= {0, 1}
    fares = f"{command} --target Fare --problem-type regression --out fares.csv"
    code, answer = call(fares)
    assert code == 3
    assert "--ignore" in answer["error"]["message"]
    code, answer = call(f"{fares} --ignore Survived --ignore PassengerId")
    assert code == 0, answer
    fares = pd.read_csv("fares.csv")
    assert list(fares.columns) == ["row", "prediction", "quantile_0.1", "quantile_0.5", "quantile_0.9"]
    assert fares.notna().all(axis=None)


def test_gaps_are_filled_and_known_cells_stay(call):
    code, answer = call("impute --table train.csv --out filled.csv")
    assert code == 0, answer
    before, after = pd.read_csv("train.csv"), pd.read_csv("filled.csv")
    assert answer["filled"] == {name: int(before[name].isna().sum()) for name in ("Age", "Embarked")}
    assert answer["still_empty"] == 0
    assert not after.isna().any(axis=None)
    for name in before:
        known = before[name].notna()
        pd.testing.assert_series_equal(before.loc[known, name], after.loc[known, name], check_exact=True)
    assert set(after["Embarked"]) <= set("SCQ")
    assert call("impute --table train.csv --out train.csv")[0] == 2
    assert call("impute --table train.csv --out filled.xlsx")[0] == 2


def test_new_passengers_are_drawn(call):
    code, answer = call("generate --table train.csv --rows 50 --where Sex=female --where Pclass=1 --out new.csv")
    assert code == 0, answer
    drawn = pd.read_csv("new.csv")
    assert list(drawn.columns) == list(pd.read_csv("train.csv").columns)
    assert len(drawn) == answer["rows"] == 50
    assert (drawn["Sex"] == "female").all()
    assert (drawn["Pclass"] == 1).all()
    again = Path("new.csv").read_bytes()
    call("generate --table train.csv --rows 50 --where Sex=female --where Pclass=1 --out new.csv")
    assert Path("new.csv").read_bytes() == again
    for wrong in ("--where Sex", "--where Sexx=female", "--where Age=old"):
        code, answer = call(f"generate --table train.csv {wrong} --out other.csv")
        assert code == 2, wrong
        assert not Path("other.csv").exists()


def test_one_passenger_is_explained(call):
    code, answer = call("explain --context train.csv --target Survived --query test.csv --row 3 --out why.html")
    assert code == 0, answer
    page = Path("why.html").read_text()
    assert "Why: row 3" in page
    assert set(answer["columns"]) == set(pd.read_csv("test.csv").columns)
    assert call("explain --context train.csv --target Survived --query test.csv --row 99")[0] == 2
    assert call("explain --context train.csv --query test.csv")[0] == 2


def test_without_a_champion_the_command_says_what_to_do(call):
    code, answer = call("impute --table train.csv --out filled.csv", weights=None)
    assert code != 0
    assert "priorline-imputer has no champion yet" in answer["error"]["message"]


@pytest.mark.parametrize("name", ["16m", "2m"])
def test_official_checkpoints_become_weights(name, call, tmp_path):
    code, answer = call(f"import-checkpoint limix {OFFICIAL / f'limix_{name}_tiny.ckpt'} --out imported", weights=None)
    assert code == 0, answer
    _, content = load_weights(tmp_path / "imported")
    assert content["kind"] == "limix"
    assert "Model License" in answer["note"]
    code, answer = call("impute --table train.csv --out filled.csv", weights=tmp_path / "imported")
    assert code == 0, answer
    assert not pd.read_csv("filled.csv").isna().any(axis=None)
