import numpy as np
import pytest

from priorline.errors import InputError
from priorline.inference.preprocessing import NORMALIZATIONS, Preprocessor


@pytest.fixture
def table():
    generator = np.random.default_rng(0)
    return np.column_stack(
        [
            generator.normal(5, 3, 300),
            generator.lognormal(0, 2, 300),
            generator.integers(0, 2, 300).astype(float),
            1e9 + generator.uniform(0, 1, 300),
        ]
    )


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_train_rows_come_out_centred_and_finite(table, name):
    z = Preprocessor(name).fit_transform(table)
    assert z.dtype == np.float32
    assert np.isfinite(z).all()
    assert np.abs(z).max() < 15
    if name in ("none", "power"):
        assert np.abs(z[:, [0, 2, 3]].mean(axis=0)).max() < 1e-3
        assert z[:, [0, 2, 3]].std(axis=0) == pytest.approx(1, abs=1e-2)


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_query_rows_do_not_change_each_other(table, name):
    step = Preprocessor(name)
    step.fit_transform(table)
    other = table.copy()
    other[1:] = 1e300
    np.testing.assert_array_equal(step.transform(table)[0], step.transform(other)[0])


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_extreme_values_stay_finite(table, name):
    table[0] = [1e308, -1e308, 1e-308, 5e200]
    step = Preprocessor(name)
    with np.errstate(all="raise", under="ignore", over="ignore"):
        assert np.isfinite(step.fit_transform(table)).all()
        assert np.isfinite(step.transform(np.full((2, 4), 1.7e308))).all()
        assert np.isfinite(step.transform(np.full((2, 4), -1.7e308))).all()


def test_outliers_grow_only_logarithmically(table):
    step = Preprocessor("none", outlier_threshold=4.0)
    step.fit_transform(table)
    far = step.transform(table[:1] + np.array([[300.0, 0, 0, 0]]))[0, 0]
    # z = about 100: the bound of 4 plus log(1 + 100).
    assert 7 < far < 10


def test_scaling_a_column_changes_nothing(table):
    for factor in (1e-12, 1e12):
        np.testing.assert_allclose(
            Preprocessor().fit_transform(table * factor), Preprocessor().fit_transform(table), atol=2e-5
        )


def test_an_unknown_normalization_is_refused():
    with pytest.raises(InputError, match="did you mean 'power'"):
        Preprocessor("powr")
