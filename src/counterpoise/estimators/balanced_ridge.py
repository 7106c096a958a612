"""BalancedRidgeClassifier: a balanced ridge model with scikit-learn's conventions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoise import timestamps, validation
from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.engine.progressive_calibration import warn_sorted_labels
from counterpoise.engine.ridge import RidgeModel
from counterpoise.engine.summary import ClassMoments, class_moments
from counterpoise.estimators import array_validation
from counterpoise.estimators.base import EstimatorBase
from counterpoise.feature_maps import FittedMap, Map
from counterpoise.moments.decay import HalfLife
from counterpoise.public_names import document_like
from counterpoise.solver.class_weights import ClassFactors, ClassWeight, affine
from counterpoise.solver.score_functions import LinearScores
from counterpoise.stepwise.single_event import SingleEventModel


class BalancedRidgeClassifier(EstimatorBase[RidgeModel]):
    """Ridge classifier with balanced classes that learns incrementally and exactly.

    After any sequence of :meth:`partial_fit`, :meth:`merge` and :meth:`unlearn`, the coefficients
    equal those of a batch scaler and a batch solver on the remaining rows. Another order or other
    chunks change them by rounding errors only, some 1e-12, or more if features are nearly copies of
    each other. The same chunks in the same order give bit-identical coefficients.

    Parameters
    ----------
    ridge : float, "auto" or "gcv", default="auto"
        L2 penalty b on the coefficients of the scaled features. With balanced classes it is
        ``2 * alpha / n`` of scikit-learn, without class weights it is ``alpha``. "auto" has the
        strength of three rows: 3 without class weights, and 3 times the mean of 1/n_k for two
        balanced classes. "gcv" is generalized cross-validation from the moments. Sample weights
        count as numbers of rows.
    class_weight : "balanced", dict or None, default="balanced"
        "balanced" gives every class the total weight 1. A dict gives each row the weight of its
        label, by default 1. None gives 1: ordinary ridge regression on ±1.
    class_factors : dict, optional
        Factors on the class weights by label, by default 1. With balanced classes and a factor of
        5, a class counts five times as much as all rows of another class together. To decide by the
        costs of mistakes, use :class:`~counterpoise.CostSensitiveClassifier` instead. Labels may
        occur later.
    scale : "standard" or None, default="standard"
        Scaling of the features by their standard deviations over all rows so far. It is exact for
        early rows, too.
    fit_intercept : bool, default=True
        Add a constant feature.
    penalize_intercept : bool, default=True
        Penalize the constant like any coefficient, as the paper does, or leave it free, as
        ``RidgeClassifier`` does.
    half_life : float, dict or str, optional
        Number of rows, or time, after which a row has half its weight. Only rows of its own class
        count, so a frequent class does not make a rare one decay. A dict has a number for each
        label. With a time such as "12h", "7d" or "2w" a row weighs 2^(−age/half_life), independent
        of the order. Its age is counted from the latest learned time, and ``t`` has the times.
    multi_class : "lda" or "ovr", default="lda"
        Method for three or more classes: linear discriminant analysis, or one-vs-rest, in which all
        other classes have equal weights.
    pooled_rows : float, optional
        Weight, in rows, of the pooled covariance W in the covariance of each class,
        (n_k S_k + pooled_rows W) / (n_k + pooled_rows). Boundaries are then quadratic. With None
        all classes share one covariance, and boundaries are linear.
    calibrate : bool, default=False
        Correct :meth:`predict_stream_proba` by the outcomes of rows that were scored by a model
        that had not learned them. :meth:`fit` cross-fits with five folds, independent of the order
        of rows, and takes the memory of seven models. :meth:`partial_fit`, and :meth:`fit` with a
        ``half_life``, score each row before they learn it. Then :meth:`predict_stream_proba`
        depends on the order of rows, but not on chunks. Rows with sorted labels do not count.
    memory_limit : float, default=2e9
        Bytes that learning may take: the moments of all classes, and as much again for a chunk.
    feature_map : str, Map or FittedMap, optional
        A nonlinear map of the features: "poly2", "interactions", "rm3", "rff:400" or an object of
        :mod:`counterpoise.feature_maps`. The first 256 rows fit the scaling of its input, and are
        kept until then. A fitted map, such as ``feature_map_`` of another model, is used as it is.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
        Labels seen, or declared, so far.
    class_count_ : ndarray of shape (c,)
        Weight of each class, not decayed; decayed where ``half_life`` is a time.
    coef_ : ndarray of shape (1, d) or (c, d)
        Coefficients in the units of the features, or mapped features.
    intercept_ : ndarray of shape (1,) or (c,)
        Scores where all features, or mapped features, are 0.
    mean_, scale_ : ndarray of shape (d,)
        Mean and standard deviation of each feature, or mapped feature, over all rows.
    moments_ : ClassMoments
        Count, mean and scatter of each class seen, read-only.
    feature_map_ : FittedMap or None
        The map as it is fitted so far.
    clipped_ : float
        Weight of the rows with a value 10 or more standard deviations from the mean of the rows
        that fitted the map. Such values count as 10. It is 0 without a map.
    ridge_ : float
        The ridge that was used.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (d,)
        Their names, where X has names that are all strings.

    References
    ----------
    Se-In Jang, "Deterministic Online Classification: Non-iteratively Reweighted Recursive
    Least-Squares for Binary Class Rebalancing", ICML 2023, eq. (4) and Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise import BalancedRidgeClassifier
    >>> X, y = np.array([[0.0], [1.0], [2.0], [9.0]]), ["ok", "ok", "ok", "fraud"]
    >>> model = BalancedRidgeClassifier().partial_fit(X[:2], y[:2]).partial_fit(X[2:], y[2:])
    >>> model.predict([[8.0]])
    array(['fraud'], dtype='<U5')
    >>> bool(np.allclose(model.coef_, BalancedRidgeClassifier().fit(X, y).coef_))
    True
    """

    def __init__(
        self,
        *,
        ridge: float | str = "auto",
        class_weight: ClassWeight = "balanced",
        class_factors: ClassFactors = None,
        scale: str | None = "standard",
        fit_intercept: bool = True,
        penalize_intercept: bool = True,
        half_life: HalfLife = None,
        multi_class: str = "lda",
        pooled_rows: float | None = None,
        calibrate: bool = False,
        memory_limit: float = 2e9,
        feature_map: str | Map | FittedMap | None = None,
    ) -> None:
        self.ridge = ridge
        self.class_weight = class_weight
        self.class_factors = class_factors
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.half_life = half_life
        self.multi_class = multi_class
        self.pooled_rows = pooled_rows
        self.calibrate = calibrate
        self.memory_limit = memory_limit
        self.feature_map = feature_map

    _engine_class = RidgeModel

    # Learning

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        t: ArrayLike | None = None,
    ) -> BalancedRidgeClassifier:
        """Learn from these rows alone.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels.
        sample_weight : array-like of shape (n,), optional
            Weight of each row; a row of weight 0 changes nothing.
        t : array-like of shape (n,), optional
            Times of the rows, for a ``half_life`` that is a time: dates, times, or seconds since
            1970.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, t)

    @document_like(fit)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        t: ArrayLike | None = None,
    ) -> BalancedRidgeClassifier:
        """Learn from more rows, of which there may be none; new labels may appear at any time.

        Parameters
        ----------
        classes : array-like, optional
            Labels that ``classes_`` contains even before they are seen. Never needed.
        """
        return self._partial_fit(X, y, classes, sample_weight, t)

    @document_like(fit)
    def unlearn(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> BalancedRidgeClassifier:
        """Unlearn rows, as if they had never been learned.

        Calibration counts, which contain no features, stay. A class without rows loses its counts.
        There is a PrecisionWarning if the relative error may pass 1e-8, by an estimate of 1e-9.
        Above 1e-3 it is an error instead, and the model stays as it was.
        """
        engine, names = self._fitted_engine(), self.__dict__.get("feature_names_in_")
        engine.require_unlearnable()
        rows, labels = array_validation.rows(self, X, y, least=0)
        moments = engine.moments_of(rows, labels, sample_weight, names)
        changed = self._fresh(engine)
        changed.unlearn(moments, names)
        self._replace_engine(changed)
        return self

    def progressive_scores(
        self,
        X: ArrayLike,
        y: ArrayLike,
        delay: int = 0,
        classes: ArrayLike | None = None,
        t: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> NDArray[np.float64]:
        """Score each row by the exact model just before it, then learn it: test, then train.

        These rows do not count for ``calibrate``.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            The rows, in order.
        y : array-like of shape (n,)
            Their labels.
        delay : int, default=0
            The label of a row arrives this many rows after it. In the end all are learned.
        classes : array-like, optional
            Labels to expect in addition to those in y and those seen before.
        t : array-like of shape (n,), optional
            Times, as for :meth:`fit`. Each step is then solved again, which takes longer.
        n_jobs : int, optional
            Threads, each with a part of the rows, for the same scores up to rounding. None means
            one thread, and −1 one thread per core.

        Returns
        -------
        ndarray of shape (n,) or (n, c)
            Scores as of :meth:`decision_function` for all labels: 0 before a row was learned. Of
            several classes one that was not seen yet scores −∞, or −1 with ``multi_class="ovr"``.
        """
        delay, jobs = validation.check_nonnegative_int(delay, "delay"), validation.jobs(n_jobs)

        def score(engine: RidgeModel, rows: Matrix, labels: Labels, names: Any) -> Matrix:
            return engine.progressive_scores(rows, labels, delay, t, classes, names, jobs)

        return self._score_progressively(X, y, score, accept_sparse=False)

    def learn_one(self, x: ArrayLike, y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one row, with little overhead.

        Parameters
        ----------
        x : array-like of shape (d,)
            The row.
        y : label
            Its label.
        w : float, default=1.0
            Its weight.
        t : date, time or float, optional
            Its time, as for :meth:`fit`.
        """
        engine = self._current()
        config = self._params().config if engine is None else engine.params.config
        when = timestamps.time(t) if config.decay.is_timed else None
        found = None if engine is None else engine.state.open(engine.params.options)
        if engine is not None and found is not None:
            was_sorted = self.calibrate and engine.has_sorted_labels
            if engine.state.learn_row(found, x, y, w, when):
                if self.calibrate and engine.has_sorted_labels and not was_sorted:
                    warn_sorted_labels(stacklevel=3)
                return
        self._learn_row(x, y, w, t=when)

    # Predicting

    @document_like(learn_one)
    def predict_one(self, x: ArrayLike) -> Any:
        """Return the label of one row, by the model of all rows so far.

        Returns
        -------
        label
        """
        engine, row = self._current(), np.asarray(x)  # not _open: a call is 5% of the time
        found = None if engine is None else engine.state.open(engine.params.options)
        mapped = None if engine is None or found is None else engine.state.row(row)
        best = None if found is None or mapped is None else found.best(mapped)
        if best is not None:
            return best
        return array_validation.without_feature_names(self).predict(row[None])[0]

    @document_like(learn_one)
    def predict_proba_one(self, x: ArrayLike) -> Vector:
        """Return balanced probabilities of one row.

        Returns
        -------
        ndarray of shape (c,)
            Probabilities in the order of ``classes_``.
        """
        return self._probabilities_one(x, stream=False)

    @document_like(predict_proba_one)
    def predict_stream_proba_one(self, x: ArrayLike) -> Vector:
        """Return probabilities of one row under the observed class frequencies."""
        return self._probabilities_one(x, stream=True)

    def _probabilities_one(self, x: ArrayLike, stream: bool) -> Vector:
        """Return probabilities of one row, by the compiled link where that is possible."""
        found, row = self._open(), np.asarray(x)
        if found is not None:
            state = self._engine.state
            mapped = state.row(row)
            p = None if mapped is None else found.events.probabilities(mapped, stream)
            if p is not None:
                if stream and found.options.calibrate and state.calibration is not None:
                    p = state.calibration.correct_one(p, found.labels)
                return np.array(p)
        bare = array_validation.without_feature_names(self)
        whole: Matrix = (bare.predict_stream_proba if stream else bare.predict_proba)(row[None])
        return np.array(whole[0])

    def _open(self) -> SingleEventModel | None:
        """Return the moments open to single rows; None where only batches are possible."""
        engine = self._current()
        return None if engine is None else engine.state.open(engine.params.options)

    # Learned values

    @property
    def moments_(self) -> ClassMoments:
        """Count, mean and scatter of each class seen, read-only; of mapped features."""
        state = self._fitted_engine().state
        return class_moments(state.imputed_moments, state.classes)

    @property
    def mean_(self) -> Vector:
        """Mean of each feature, or mapped feature, over all rows."""
        moments = self._fitted_engine().state.imputed_moments
        return moments.anchor + affine(moments, "standard")[0]

    @property
    def scale_(self) -> Vector:
        """Standard deviation of each feature, or mapped feature; 1 if it is constant."""
        return affine(self._fitted_engine().state.imputed_moments, "standard")[1]

    @property
    def feature_map_(self) -> FittedMap | None:
        """The map as it is fixed so far; None without one."""
        return self._fitted_engine().state.fixed

    @property
    def clipped_(self) -> float:
        """Weight of the rows of which the map clipped a value; 0 without a map."""
        return float(self._fitted_engine().state.moments.clipped[0])

    @property
    def coef_(self) -> Matrix:
        """Coefficients in the units of the features, or mapped features."""
        return self._linear().coef.copy()

    @property
    def intercept_(self) -> Vector:
        """Scores where all features, or mapped features, are 0."""
        solution = self._linear()
        return solution.offset - solution.coef @ solution.anchor

    @property
    def ridge_(self) -> float:
        """The ridge that was used."""
        return self._fitted_engine().scores(False).solution.ridge

    def _linear(self) -> LinearScores:
        solution = self._fitted_engine().scores(False).solution
        if not isinstance(solution, LinearScores):
            raise AttributeError(
                "with pooled_rows scores are quadratic: they have no coef_ and no intercept_"
            )
        return solution
