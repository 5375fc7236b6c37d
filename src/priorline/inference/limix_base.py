"""What classifier and regressor over LimiX share: reasons for an answer, and two-pass inference.

Shapes: N train rows, M query rows, C columns, K classes.
"""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from priorline.config_io import nearest_name
from priorline.errors import InputError
from priorline.inference.base_estimator import InContextEstimator
from priorline.inference.ensemble import View
from priorline.inference.masked_reader import MaskedReader
from priorline.inference.retrieval import CANDIDATES, Choice, Plan, choose, draw_plan

RETRIEVALS = ("auto", "none", *CANDIDATES)


class LimiXEstimator(InContextEstimator):
    """What classifier and regressor over LimiX share."""

    _kind = "limix"
    _keeps_missing = True
    retrieval: str

    @property
    def retrieval_(self) -> Choice:
        """What was tried on held-out context rows, and what is used; made when first needed."""
        return self._two_pass()[0]

    @property
    def feature_importance_(self) -> np.ndarray:
        """Shares of the columns given to `fit`, (n_features_in_,), sum 1: what context rows' labels attend to.

        Attention of the last block, mean over rows, heads and members; a column left out counts 0.
        Source: LimiX (arXiv 2509.03505), feature score.
        """
        numbers_C, _ = self._scores(None)
        kept = [column.is_kept for column in self.encoder_.columns]
        place_C = np.repeat(np.arange(len(kept)), [int(flags.sum()) for flags in kept])
        if len(place_C) != len(numbers_C):  # no column says anything: a stand-in was shown
            return np.full(len(kept), 1 / len(kept))
        return np.bincount(place_C, weights=numbers_C, minlength=len(kept))

    def sample_importance(self, X: Any) -> np.ndarray:
        """Return how much each row of ``X`` attends to each context row, (M, N), rows sum to 1.

        Source: LimiX (arXiv 2509.03505), sample score.
        """
        _, rows_MN = self._scores(self._preprocess(X))
        return rows_MN

    def _scores(self, query: dict[str, np.ndarray] | None) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        labels_N, is_class = self._shown(self._labels())
        return self._reader().scores(self.train_, labels_N, query, self.views_, is_class=is_class)

    def _shown(self, labels_N: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return labels as one pass can take them, and whether they are classes."""
        raise NotImplementedError

    def _fit_columns(self, X: Any, targets: np.ndarray, *, num_classes: int, class_shift: bool) -> None:
        super()._fit_columns(X, targets, num_classes=num_classes, class_shift=class_shift)
        self._retrieved: dict[str, Any] = {}

    def _check_params(self) -> None:
        super()._check_params()
        if self.retrieval not in RETRIEVALS:
            raise InputError(f"retrieval={self.retrieval!r} is unknown{nearest_name(str(self.retrieval), RETRIEVALS)}")

    def _answers(self, query: dict[str, np.ndarray]) -> np.ndarray:
        """Return probabilities (M, K) or standardised values (M,), from all of the context or what retrieval keeps."""
        _, plan = self._two_pass()
        return self._by_plan(self._reader(), plan, self.train_, self._labels(), query, self.views_)

    def _two_pass(self) -> tuple[Choice, Plan | None]:
        check_is_fitted(self)
        if self._retrieved.get("asked") != self.retrieval:
            reader, labels_N = self._reader(), self._labels()

            def losses(kind: str, rest: np.ndarray, held: np.ndarray) -> np.ndarray:
                part, query = ({norm: x_NC[some] for norm, x_NC in self.train_.items()} for some in (rest, held))
                plan = None if kind == "none" else self._plan(reader, kind, part, labels_N[rest])
                found = self._by_plan(reader, plan, part, labels_N[rest], query, self.views_[:1])
                return self._losses(found, labels_N[held])

            choice = choose(losses, len(labels_N), self.retrieval)
            plan = None if choice.used == "none" else self._plan(reader, choice.used, self.train_, labels_N)
            self._retrieved.update(asked=self.retrieval, found=(choice, plan))
        found: tuple[Choice, Plan | None] = self._retrieved["found"]
        return found

    def _plan(self, reader: MaskedReader, kind: str, train: dict[str, np.ndarray], labels_N: np.ndarray) -> Plan:
        shown_N, is_class = self._shown(labels_N)
        importance_C, scores_NN = reader.scores(train, shown_N, train, self.views_[:1], is_class=is_class)
        return draw_plan(kind, scores_NN, importance_C, labels_N if is_class else None)

    def _by_plan(
        self,
        reader: MaskedReader,
        plan: Plan | None,
        train: dict[str, np.ndarray],
        labels_N: np.ndarray,
        query: dict[str, np.ndarray],
        views: list[View],
    ) -> np.ndarray:
        if plan is None:
            return self._answer(reader, train, labels_N, query, views)
        groups_M = np.zeros(len(next(iter(query.values()))), dtype=np.int64)
        if len(plan.rows_G) > 1:
            shown_N, is_class = self._shown(labels_N)
            groups_M = plan.assign(reader.scores(train, shown_N, query, self.views_[:1], is_class=is_class)[1])
        parts: dict[int, np.ndarray] = {}
        for group in np.unique(groups_M).tolist():
            rows, inside = plan.rows_G[group], groups_M == group
            some = {norm: x_NC[rows][:, plan.columns] for norm, x_NC in train.items()}
            asked = {norm: x_MC[inside][:, plan.columns] for norm, x_MC in query.items()}
            parts[group] = self._answer(reader, some, labels_N[rows], asked, plan.views(views))
        answers = np.empty((len(groups_M), *next(iter(parts.values())).shape[1:]))
        for group, part in parts.items():
            answers[groups_M == group] = part
        return answers

    def _answer(
        self,
        reader: MaskedReader,
        train: dict[str, np.ndarray],
        labels_N: np.ndarray,
        query: dict[str, np.ndarray],
        views: list[View],
    ) -> np.ndarray:
        raise NotImplementedError

    def _losses(self, answers: np.ndarray, labels_M: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _labels(self) -> np.ndarray:
        raise NotImplementedError

    def _reader(self) -> MaskedReader:
        return MaskedReader(self._load(self.weights_hash_).module, self.memory_budget_mb)
