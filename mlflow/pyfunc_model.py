"""What MLflow runs to serve a registered model: weights in, one table in, predictions out.

Stored with each version as code (models-from-code), so nothing is unpickled on load. The model
holds weights only; the labelled rows come with each request.
"""

import os
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
from mlflow.pyfunc import PythonModel, PythonModelContext

from priorline import api
from priorline.errors import InputError

DEFAULT_TARGET = "target"


class InContextModel(PythonModel):
    """Predicts the rows whose target is empty from the rows whose target is given."""

    def load_context(self, context: PythonModelContext) -> None:
        """Find the weights beside this file; the estimator is made per request."""
        self._weights = Path(context.artifacts["weights"])
        self._problem_type = (context.model_config or {}).get("problem_type", "classification")

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """Return ``row`` (position in the input), ``prediction``, ``probability_<class>``...

        An imputer returns the table itself with its missing cells filled, and needs no target.

        Parameters
        ----------
        model_input : DataFrame
            Context and query rows in one table; in query rows the target is missing or blank text.
        params : dict, optional
            ``target``: name of the column to predict (default ``"target"``).

        Raises
        ------
        InputError
            If there is no such column, or it is given in all rows or in none.
        """
        if not isinstance(model_input, pd.DataFrame):
            raise InputError(f"the input must be a table with named columns, got {type(model_input).__name__}")
        device = api.resolve_device(os.environ.get("PRIORLINE_DEVICE") or "auto")
        if self._problem_type == "imputation":
            imputer = api.load_predictor(self._weights, self._problem_type, device=device)
            return imputer.fit(model_input).transform(model_input)
        target = (params or {}).get("target", DEFAULT_TARGET)
        if list(model_input.columns).count(target) != 1:
            known = ", ".join(map(str, model_input.columns))
            raise InputError(f"target {target!r} is not a column, or not just one; name it by params; columns: {known}")
        frame = model_input.reset_index(drop=True)
        empty = frame[target].isna() | frame[target].map(lambda cell: isinstance(cell, str) and not cell.strip())
        if empty.all() or not empty.any():
            raise InputError(
                f"column {target!r} must be given in some rows (the context) and empty in others (the query); "
                f"it is empty in {int(empty.sum())} of {len(frame)}"
            )
        labels = frame.loc[~empty, target].infer_objects()
        if pd.api.types.is_float_dtype(labels) and (labels % 1 == 0).all():
            labels = labels.astype("int64")  # whole numbers became floats only because some rows are empty
        predictor = api.load_predictor(self._weights, self._problem_type, device=device)
        predictor.fit(frame[~empty].drop(columns=target), labels.to_numpy())
        return api.prediction_table(predictor, frame[empty].drop(columns=target), frame.index[empty])


mlflow.models.set_model(InContextModel())
