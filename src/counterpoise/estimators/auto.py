"""AutoClassifier: an average of maps, boundaries and ridges, with scikit-learn's conventions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoise import validation
from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.engine.auto import AutoModel, Engine
from counterpoise.engine.parameters import RIDGES
from counterpoise.estimators import array_validation
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.estimators.base import EstimatorBase, wrap
from counterpoise.public_names import document_like
from counterpoise.solver.class_weights import ClassFactors


class AutoClassifier(EstimatorBase[AutoModel]):
    """Ridge classifier with balanced classes that averages maps, boundaries and ridges.

    All candidates learn in one pass. They are ranked by their leave-one-out G-mean on the last rows
    of each class. The score is the weighted average of their scores, and better candidates have
    larger weights. Memory and time per row do not grow with the stream.

    :meth:`fit` does not depend on the order of the rows, unless there is a half-life. In a stream
    the first rows (1,200 by default) fit the maps. A warning reports later rows that are far from
    them. From then on only the averaging weights depend on the order of rows. :attr:`best_` is the
    best candidate, a :class:`~counterpoise.BalancedRidgeClassifier`, which can unlearn.

    Parameters
    ----------
    candidates : sequence of str, Map or FittedMap, optional
        Maps of the features, the simplest first. "linear" means no map, and "pooled_rows=10" no map
        and quadratic boundaries. By default linear, pooled_rows=1000 and 10, ranks, hinges,
        reduced polynomial of order 2, hinges with random steps, landmarks of two widths, and the
        polynomial with landmarks of three widths.
    ridges : sequence of float
        Ridges to average, the largest first; by default 13 from 100 to 1e-6. They cost one
        decomposition together. Quadratic boundaries have ``ridge="auto"``.
    kept_rows : int, default=128
        Rows of each class that are kept to rank candidates; at least 1.
    class_factors : dict, optional
        Factors on the balanced class weights, by label. They are also the exponents of the recalls
        in the G-mean that ranks candidates.
    half_life : float, optional
        See :class:`~counterpoise.BalancedRidgeClassifier`.
    calibrate : bool, default=False
        Correct :meth:`predict_stream_proba` by the outcomes of rows that were scored before they
        were learned, by an average that had not learned them. Rows count once the maps are fitted.
        :meth:`fit` scores rows in the order in which it learns them, so that their given order has
        no effect. In a stream :meth:`predict_stream_proba` depends on the order of rows, but not on
        chunks. Rows with sorted labels do not count.
    memory_limit : float, default=2e9
        Bytes that the moments of all candidates together may take. Candidates without a map share
        theirs; each with quadratic boundaries takes as much again.

    Attributes
    ----------
    best_ : BalancedRidgeClassifier
        A copy of the best candidate, with its ridge.
    g_means_ : dict of str to dict of float to float
        G-mean of each candidate by ridge, without ridges by which a model interpolates its rows.
        Quadratic boundaries have one ridge, which depends on the rows so far.
    averaging_weights_ : dict of str to float
        Weight of each candidate in the average; they add up to 1.
    maps_ : tuple
        Candidates with their maps as they are fixed: a model with ``candidates=a.maps_`` can be
        merged with ``a``.
    clipped_ : dict of str to float
        Weight of the rows that each map has clipped: a value was 10 or more standard deviations
        from the mean of the rows that fixed it.
    classes_, class_count_, n_features_in_, feature_names_in_ : ndarray or int
        See :class:`~counterpoise.BalancedRidgeClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise import AutoClassifier
    >>> X = np.random.default_rng(0).normal(size=(600, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> model = AutoClassifier().partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    >>> model.score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        *,
        candidates: Sequence[Any] | None = None,
        ridges: Sequence[float] = RIDGES,
        kept_rows: int = 128,
        class_factors: ClassFactors = None,
        half_life: float | None = None,
        calibrate: bool = False,
        memory_limit: float = 2e9,
    ) -> None:
        self.candidates = candidates
        self.ridges = ridges
        self.kept_rows = kept_rows
        self.class_factors = class_factors
        self.half_life = half_life
        self.calibrate = calibrate
        self.memory_limit = memory_limit

    _engine_class = AutoModel

    # Learning

    @document_like(BalancedRidgeClassifier.fit)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> AutoClassifier:
        """Learn from these rows alone, in a random order that depends on their contents.

        A seeded sample of all rows fixes the maps and is kept, so that the order of rows has no
        effect. With a half-life rows are learned in the given order. A row of weight 2 is learned
        as if it came twice, and ranks candidates once.
        """
        return self._fit(X, y, sample_weight)

    @document_like(BalancedRidgeClassifier.partial_fit)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> AutoClassifier:
        """Learn from more rows; a single row is stored as in :meth:`learn_one`."""
        if classes is None and sample_weight is None and self._learned_one(X, y):
            return self
        return self._partial_fit(X, y, classes, sample_weight)

    def _learned_one(self, X: Any, y: Any) -> bool:
        """Learn a single row that needs no conversion, if possible; return whether it is."""
        if "_engine" not in self.__dict__ or "feature_names_in_" in self.__dict__ or y is None:
            return False
        if not array_validation.is_plain(X, y, accept_sparse=False) or len(X) > 1:
            return False
        engine = self._current()
        return engine is not None and engine.learn_one(X[0], y[0])

    @document_like(BalancedRidgeClassifier.progressive_scores)
    def progressive_scores(
        self, X: ArrayLike, y: ArrayLike, delay: int = 0, classes: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Score each row by an average of candidates from before it, then learn it.

        The average is at most a third of the rows, and at most 16,384 rows, old. The first
        average comes after 16 rows. With ``calibrate`` the rows count for calibration.
        """
        delay = validation.check_nonnegative_int(delay, "delay")

        def score(engine: AutoModel, rows: Rows, labels: Labels, names: Any) -> Matrix:
            return engine.progressive_scores(rows, labels, delay, classes, names)

        return self._score_progressively(X, y, score)

    @document_like(BalancedRidgeClassifier.learn_one)
    def learn_one(self, x: ArrayLike, y: Any, w: float = 1.0) -> None:
        """Learn one row, with little overhead.

        Rows are stored, and learned together when there are 512 of them, or when something needs
        what they changed. Until the maps are fixed, predictions do not contain the last of them:
        at most 15 rows, or a third of the rows before these.
        """
        row, engine = np.asarray(x), self._current()
        names = self.__dict__.get("feature_names_in_")
        if engine is None or not engine.learn_one(row, y, w, names):
            self._learn_row(row, y, w)

    # Predicting

    @document_like(BalancedRidgeClassifier.predict_one)
    def predict_one(self, x: ArrayLike) -> Any:
        """Return the label of one row, by the average that :meth:`progressive_scores` uses."""
        row, engine = np.asarray(x), self._fitted_engine()
        if engine.accepts(row):
            return engine.predict_one(row)
        return array_validation.without_feature_names(self).predict(row[None])[0]

    @document_like(BalancedRidgeClassifier.predict_proba_one)
    def predict_proba_one(self, x: ArrayLike) -> Vector:
        """Return balanced probabilities of one row, by the average of :meth:`predict_one`.

        They are 0 for a class that is newer than this average.
        """
        row, engine = np.asarray(x), self._fitted_engine()
        if engine.accepts(row):
            return engine.predict_proba_one(row)
        p: Vector = array_validation.without_feature_names(self).predict_proba(row[None])[0]
        return p

    # Learned values

    @property
    def unlearn(self) -> Any:
        """Not available, because the kept rows depend on all others; :attr:`best_` can unlearn."""
        raise AttributeError(
            "AutoClassifier cannot unlearn: the rows that it keeps depend on all other rows; "
            "use best_, a BalancedRidgeClassifier, which can"
        )

    @property
    def best_(self) -> BalancedRidgeClassifier:
        """A copy of the best candidate, with its ridge."""
        engine = copy.deepcopy(self._fitted_engine().best)
        return wrap(BalancedRidgeClassifier, engine, self.__dict__.get("feature_names_in_"))

    @property
    def g_means_(self) -> dict[str, dict[float, float]]:
        """G-mean of each candidate by ridge."""
        return self._fitted_engine().g_means

    @property
    def averaging_weights_(self) -> dict[str, float]:
        """Weight of each candidate in the average."""
        return self._fitted_engine().averaging_weights

    @property
    def maps_(self) -> tuple[Any, ...]:
        """Candidates with their maps as they are fixed: what a model to be merged begins with."""
        return self._fitted_engine().fitted_candidates

    @property
    def clipped_(self) -> dict[str, float]:
        """Weight of the rows that each map has clipped."""
        states = self._fitted_engine().candidates.states
        mapped = {name: state for name, state in states.items() if state.fixed is not None}
        return {name: float(state.moments.clipped[0]) for name, state in mapped.items()}


def wrap_engine(engine: Engine, names: Any = None) -> BalancedRidgeClassifier | AutoClassifier:
    """Return an estimator that shares an engine, whose features have these names."""
    kind = AutoClassifier if isinstance(engine, AutoModel) else BalancedRidgeClassifier
    found: BalancedRidgeClassifier | AutoClassifier = wrap(kind, engine, names)
    return found
