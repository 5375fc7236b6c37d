"""26 classes on a model of ten: letter recognition, real data, a model trained on synthetic tables alone."""

import json
from pathlib import Path

import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from priorline import TabICLClassifier
from priorline.cli import library, run_app


@pytest.mark.slow
def test_letters_are_told_apart_far_beyond_the_majority(tmp_path, capsys):
    letters = pd.read_csv(Path(__file__).parent / "data" / "letter_recognition.csv.gz")
    x, y = letters.drop(columns="letter"), letters["letter"]
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=520, stratify=y, random_state=0)
    folders = ["--config", "tabicl-smoke", "--workers", "2"]
    assert run_app(library, ["priors", "generate", *folders, "--out", str(tmp_path / "priors")]) == 0
    capsys.readouterr()
    folders += ["--priors", str(tmp_path / "priors"), "--out", str(tmp_path / "pretrain")]
    assert run_app(library, ["pretrain", *folders, "--json"]) == 0
    trained = json.loads(capsys.readouterr().out)
    classifier = TabICLClassifier(trained["weights"]).fit(x_train, y_train)
    accuracy = accuracy_score(y_test, classifier.predict(x_test))
    scaler = StandardScaler().fit(x_train)
    linear = LogisticRegression(max_iter=1000).fit(scaler.transform(x_train), y_train)
    print(f"accuracy on 26 letters: {accuracy:.3f}, linear {linear.score(scaler.transform(x_test), y_test):.3f}")
    # The majority, and chance, is 1 in 26 = 0.038.
    assert accuracy > 0.3
