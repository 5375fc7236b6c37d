"""What MLflow runs to serve a registered model: weights in, one table in, predictions out.

Stored with each version as code (models-from-code), so nothing is unpickled on load. The model
holds weights only; the labelled rows come with each request.
"""

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

        Parameters
        ----------
        model_input : DataFrame
            Context and query rows in one table.
        params : dict, optional
            ``target``: name of the column to predict (default ``"target"``).
        """
        target = (params or {}).get("target", DEFAULT_TARGET)
        if target not in model_input.columns:
            known = ", ".join(map(str, model_input.columns))
            raise InputError(f"target {target!r} is not a column; name it by params, columns: {known}")
        frame = model_input.reset_index(drop=True)
        empty = frame[target].isna()
        if empty.all() or not empty.any():
            raise InputError(
                f"column {target!r} must be given in some rows (the context) and empty in others (the query); "
                f"it is empty in {int(empty.sum())} of {len(frame)}"
            )
        labels = frame.loc[~empty, target].infer_objects()
        predictor = api.load_predictor(self._weights, self._problem_type)
        predictor.fit(frame[~empty].drop(columns=target), labels.to_numpy())
        return api.prediction_table(predictor, frame[empty].drop(columns=target), frame.index[empty])


mlflow.models.set_model(InContextModel())
