"""Reasons: attention as shares, the right rows and columns named, faithfulness measured, one page."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import torch

from priorline import api
from priorline.errors import InputError
from priorline.inference.limix_estimators import LimiXClassifier, LimiXRegressor
from priorline.inference.why import measure_faithfulness
from priorline.models.limix.config import LimiXConfig
from priorline.models.limix.model import LimiX


@pytest.fixture
def table() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.normal(size=(90, 3)), columns=["a", "b", "c"])
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(generator.integers(0, 300, 90), unit="D")
    frame["same"] = 1.0
    frame["word"] = generator.choice(["x<y", "z"], 90)
    return frame.assign(label=np.where(frame["a"] > 0, "yes", "no"))


@pytest.mark.parametrize("columns_per_token", [1, 2, 3])
def test_scores_are_the_attention_of_the_last_block(columns_per_token):
    torch.manual_seed(0)
    sizes = {"embed_dim": 16, "num_blocks": 2, "num_heads": 2, "ff_dim": 16, "block_order": "fsf_m"}
    model = LimiX(LimiXConfig(**sizes, columns_per_token=columns_per_token)).eval().requires_grad_(False)
    x_BRC, y_BN = torch.randn(1, 30, 5), torch.randint(0, 2, (1, 20))
    with torch.no_grad():
        columns_BRC, rows_BMN = model.attention_scores(x_BRC, y_BN)
        assert columns_BRC.shape == (1, 30, 5)
        assert rows_BMN.shape == (1, 10, 20)
        for part in (columns_BRC, rows_BMN):
            torch.testing.assert_close(part.sum(-1), torch.ones(part.shape[:-1]))
        # By hand: the last feature layer gets what stands before it, normed.
        entered = []
        layer = list(model.blocks[-1])[2]
        handle = layer.register_forward_hook(lambda module, inputs, output: entered.append(inputs[0]))
        model(x_BRC, y_BN)
        handle.remove()
    query, key, _ = layer.project(entered[0])
    weights = (query[:, :, -1:] @ key.mT / query.shape[-1] ** 0.5).softmax(-1).mean(1)[:, 0, :-1]
    spread = weights.repeat_interleave(columns_per_token, 1)[:, :5]
    torch.testing.assert_close(columns_BRC[0], spread / spread.sum(-1, keepdim=True))


@pytest.mark.parametrize("kind", [LimiXClassifier, LimiXRegressor])
def test_importance_is_a_share_of_each_column_as_given(random_limix, table, kind):
    X, y = table.drop(columns="label"), (table["a"] > 0).to_numpy().astype(int)
    model = kind(random_limix).fit(X[:60], y[:60])
    importance = model.feature_importance_
    assert importance.shape == (6,)
    assert importance.sum() == pytest.approx(1)
    assert importance[4] == 0  # constant
    assert (importance[[0, 1, 2, 3, 5]] > 0).all()
    rows = model.sample_importance(X[60:])
    assert rows.shape == (30, 60)
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    np.testing.assert_allclose(model.sample_importance(X[60:61]), rows[:1], atol=1e-6)


def test_more_classes_than_one_pass_takes_have_reasons_too(random_limix):
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(80, 3)), np.arange(80) % 23
    model = LimiXClassifier(random_limix).fit(x, y)
    assert model.feature_importance_.sum() == pytest.approx(1)


def test_faithfulness_shuffles_and_drops_columns(random_limix, table):
    class Knows(LimiXRegressor):
        """Attends to column a, and predicts by it."""

        @property
        def feature_importance_(self):
            return np.array([0.7 if name == "a" else 0.1 for name in self.feature_names_in_])

        def predict(self, X):
            return X["a"].to_numpy() if "a" in X else np.zeros(len(X))

    found = measure_faithfulness(Knows(random_limix), table[["b", "a", "c"]], table["a"].to_numpy())
    assert found.metric == "r2"
    assert found.score == pytest.approx(1)
    assert found.without_top < 0.5
    assert found.without_last == pytest.approx(1)
    assert np.argmax(found.permutation) == 1


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.images: list[dict] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "img":
            self.images.append(attributes)
        self.outside += [value for key, value in attrs if key in ("src", "href") and not value.startswith("data:")]


def test_the_page_is_whole_and_names_what_counts(random_limix, table):
    page, facts = api.explain_row(table, "label", table.drop(columns="label"), 7, random_limix)
    parsed = Page()
    parsed.feed(page)
    assert not parsed.outside
    assert len(parsed.images) == 1
    assert parsed.images[0]["alt"].startswith("Columns ranked")
    assert "x&lt;y" in page
    assert "<td>x<y" not in page
    assert set(facts["columns"]) == set(table.columns) - {"label"}
    assert len(facts["influential_rows"]) == 8
    assert facts["prediction"] in ("yes", "no")
    assert facts["faithfulness"]["metric"] == "roc_auc_ovr"


def test_what_cannot_be_explained_is_refused(random_limix, random_weights, table):
    query = table.drop(columns="label")
    with pytest.raises(InputError, match=r"--row 90 must lie in 0..89"):
        api.explain_row(table, "label", query, 90, random_limix)
    with pytest.raises(InputError, match="did you mean 'label'"):
        api.explain_row(table, "lable", query, 0, random_limix)
    with pytest.raises(InputError, match="lacks the columns b"):
        api.explain_row(table, "label", query.drop(columns="b"), 0, random_limix)
    with pytest.raises(InputError, match="TabICLClassifier gives no reasons"):
        api.explain_row(table, "label", query, 0, random_weights)
