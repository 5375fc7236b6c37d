import numpy as np
import pandas as pd
import pytest

from priorline.errors import InputError
from priorline.inference.labels import encode_labels


@pytest.mark.parametrize(
    ("labels", "dtype_kind"),
    [
        (["b", "a", "b"], "U"),
        (np.array(["b", "a", "b"]), "U"),
        (np.array(["b", "a", "b"], dtype=object), "O"),
        (pd.Series(["b", "a", "b"]), "O"),
        (pd.Series(["b", "a", "b"], dtype="category"), "O"),
        ([True, False, True], "b"),
        (pd.Series([True, False, True], dtype="boolean"), "b"),
        (np.array([True, False, True], dtype=object), "b"),
        (np.array([7, 3, 7], dtype=np.int8), "i"),
        (pd.Series([7, 3, 7], dtype="Int64", index=[9, 9, 9]), "i"),
        (pd.Series([7, 3, 7], dtype="category"), "i"),
        (np.array([1.0, 0.0, 1.0]), "f"),
    ],
)
def test_labels_keep_their_dtype(labels, dtype_kind):
    classes, codes = encode_labels(labels)
    assert classes.dtype.kind == dtype_kind
    assert codes.tolist() == [1, 0, 1]
    assert classes[codes].tolist() == list(labels)


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b", None],
        pd.Series(["a", np.nan, "b", None]),
        pd.Series([1, pd.NA, 2, pd.NA], dtype="Int64"),
        np.array([1.0, np.nan, 2.0, np.nan]),
        pd.Series(["a", None, "b", None], dtype="category"),
    ],
)
def test_missing_labels_are_named_by_row(labels):
    with pytest.raises(InputError, match=r"2 of 4 labels are missing, row 1, 3 \(counted from 0\)"):
        encode_labels(labels)


def test_mixed_and_continuous_labels_are_refused():
    with pytest.raises(InputError, match="Unknown label type"):
        encode_labels(["a", 1, "b"])
    with pytest.raises(InputError, match="Unknown label type"):
        encode_labels(np.linspace(0, 1, 5))
    with pytest.raises(InputError, match="y to be passed"):
        encode_labels(None)
