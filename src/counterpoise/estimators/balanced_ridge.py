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
from counterpoise.solver.class_weights import ClassFactors, ClassWeight, affine
from counterpoise.solver.score_functions import LinearScores
from counterpoise.stepwise.single_event import SingleEventModel


class BalancedRidgeClassifier(EstimatorBase[RidgeModel]):
    """Ridge classifier with balanced classes, exact at every moment of a stream.

    After any sequence of :meth:`partial_fit`, :meth:`merge` and :meth:`unlearn` the weights are
    those that a batch solver, after a batch scaler, would find on the rows that remain, equal to
    rounding whatever the order and the chunks (some 1e-12, and more where features are nearly
    copies of each other); the same chunks in the same order give bit-identical weights.

    Parameters
    ----------
    ridge : float, "auto" or "gcv", default="auto"
        The penalty b on the squared weights, in scaled units, where two classes have total weight
        1 each; scikit-learn's ``alpha`` is ``ridge * n / 2``. "auto" is worth three rows,
        however many there are: ``alpha`` = 3 where classes are not balanced, and where they are
        3 times the mean of 1/n_k for two of them. "gcv" chooses it by generalised
        cross-validation, from the moments alone. Both count sample weights as numbers of rows.
    class_weight : "balanced", dict or None, default="balanced"
        "balanced" gives every class the total weight 1, that is 1/n_k a row (scikit-learn's
        n/(2 n_k) means another ridge, not other weights). A dict gives each row the weight of
        its label, None gives 1: then this is ordinary ridge regression on ±1, or RLS. Labels
        missing from the dict weigh 1.
    class_factors : dict, optional
        Factors on the class weights by label. They multiply balance: with 5 a class counts five
        times as much as all rows of another together. For what a mistake costs, decide by
        :class:`~counterpoise.CostSensitiveClassifier` instead. Labels missing from it count 1;
        labels not yet seen are allowed.
    scale : "standard" or None, default="standard"
        Scaling of the features by everything seen so far, exact after the fact.
    fit_intercept : bool, default=True
        Add a constant feature.
    penalize_intercept : bool, default=True
        Penalise the constant like any weight, as the paper does, or leave it free, as
        ``RidgeClassifier`` does.
    half_life : float, dict or str, optional
        A row fades to half its weight while its own class receives this much weight. The rare
        class is not unlearned because the common one keeps coming. A dict has such numbers by
        label; classes missing from it do not fade. A time such as "12h", "7d" or "2w" lets all
        rows fade by the clock: then a row weighs 2^(−age/half_life), its age counted from the
        latest time learned, whatever the order; ``t`` says when rows were.
    multi_class : "lda" or "ovr", default="lda"
        What three or more classes are told apart by: all at once, as normal classes that share
        their covariance are, or each against the rest, in which every other class has the same
        weight. With two classes both are the same.
    pooled_rows : float, optional
        Rows of pooled evidence for the covariance of each class. None lets all classes share one,
        and boundaries are linear. A number gives each class its own, (n_k S_k + pooled_rows W) /
        (n_k + pooled_rows), and boundaries are quadratic: the less so the larger it is.
    calibrate : bool, default=False
        Correct :meth:`predict_stream_proba` by the outcomes of rows that were scored by a model
        without them. :meth:`fit` cross-fits with five folds, independent of the order of rows, and
        takes
        the memory of seven models. :meth:`partial_fit`, and :meth:`fit` with a ``half_life``, score
        each row before they learn it. Then :meth:`predict_stream_proba` depends on the order of
        rows, but not on chunks, and rows with sorted labels do not count. Nothing else depends on
        ``calibrate``.
    memory_limit : float, default=2e9
        Bytes that learning may take: the moments of all classes, and as much again for a chunk.
    feature_map : str, Map or FittedMap, optional
        A map of the features, for what is not linear: "poly2", "interactions", "rm3", "rff:400" or
        an object of :mod:`counterpoise.feature_maps`. Rows are standardised for it by the first 256
        of them; until then by all rows so far, which are kept. Then the map is fixed, and all
        that is promised holds on its terms. A fixed map, such as ``feature_map_`` of another model,
        is taken as it is.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
        Labels seen, or declared, so far.
    class_count_ : ndarray of shape (c,)
        Weight of each class, not faded; faded where ``half_life`` is a time.
    coef_ : ndarray of shape (1, d) or (c, d)
        Weights in the units of the input, or of the terms of the map.
    intercept_ : ndarray of shape (1,) or (c,)
        Scores at the origin of the input, or where all terms are 0.
    mean_, scale_ : ndarray of shape (d,)
        Mean and standard deviation of each feature, or term, over all rows.
    moments_ : ClassMoments
        Count, mean and scatter of each class seen, read-only.
    feature_map_ : FittedMap or None
        The map as it is fixed so far.
    clipped_ : float
        Weight of the rows that have a value 10 or more standard deviations from the mean of the
        rows that fixed the map, and count as if it were 10; 0 without a map.
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
            When each row was, for a ``half_life`` that is a time, and used by that alone: dates,
            times, or seconds since 1970.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, t)

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        t: ArrayLike | None = None,
    ) -> BalancedRidgeClassifier:
        """Learn from more rows.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows; of none at all nothing is learned.
        y : array-like of shape (n,)
            Their labels; new ones may appear at any time.
        classes : array-like, optional
            Labels that are to appear in ``classes_`` even before they are seen. Never needed.
        sample_weight : array-like of shape (n,), optional
            Weight of each row; a row of weight 0 changes nothing.
        t : array-like of shape (n,), optional
            As of :meth:`fit`.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, classes, sample_weight, t)

    def unlearn(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> BalancedRidgeClassifier:
        """Take rows back, as if they had never been learned.

        Calibration counts, which contain no features, stay. A class of which no row is left loses
        its counts.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels.
        sample_weight : array-like of shape (n,), optional
            Their weights when they were learned.

        Returns
        -------
        self

        Warns
        -----
        PrecisionWarning
            If the relative error may pass 1e-8, by an estimate of 1e-9; above 1e-3 it is an error
            instead, and the model stays as it was.
        """
        engine, names = self._fitted(), self.__dict__.get("feature_names_in_")
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
        """Test, then train: score each row by the exact model just before it, learning as it goes.

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
            Labels to reckon with beside those in y and those seen before.
        t : array-like of shape (n,), optional
            As of :meth:`fit`. Each step is then solved anew, which takes longer.
        n_jobs : int, optional
            Threads, each with a part of the rows, which begins with the sums of all rows before
            it: the same scores up to rounding. None is one, and −1 as many as there are cores.

        Returns
        -------
        ndarray of shape (n,) or (n, c)
            Scores as of :meth:`decision_function`, with all labels known from the start: 0 while
            nothing was learned; of several classes one that has not been seen yet scores −∞, or −1
            where each is set against the rest.
        """
        delay, jobs = validation.check_nonnegative_int(delay, "delay"), validation.jobs(n_jobs)

        def score(engine: RidgeModel, rows: Matrix, labels: Labels, names: Any) -> Matrix:
            return engine.progressive_scores(rows, labels, delay, t, classes, names, jobs)

        return self._score_progressively(X, y, score, accept_sparse=False)

    def learn_one(self, x: ArrayLike, y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one row, at once and with little overhead.

        Parameters
        ----------
        x : array-like of shape (d,)
            The row.
        y : label
            Its label.
        w : float, default=1.0
            Its weight.
        t : date, time or float, optional
            When it was, as of :meth:`fit`.
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
        with validation.transactional(self) as draft:
            names = draft.__dict__.pop("feature_names_in_", None)
            draft.partial_fit(np.asarray(x)[None], np.array([y]), sample_weight=[w], t=when)
            if names is not None and len(names) == draft.n_features_in_:
                draft.feature_names_in_ = names

    # Predicting

    def predict_one(self, x: ArrayLike) -> Any:
        """Label of one row, by weights that are brought up to date first.

        Parameters
        ----------
        x : array-like of shape (d,)
            The row.

        Returns
        -------
        label
        """
        found, row = self._open(), np.asarray(x)
        mapped = None if found is None else self._engine.state.row(row)
        best = None if found is None or mapped is None else found.best(mapped)
        if best is not None:
            return best
        return array_validation.without_feature_names(self).predict(row[None])[0]

    def predict_proba_one(self, x: ArrayLike) -> Vector:
        """Probabilities of one row under the weights of training, as :meth:`predict_proba`.

        Parameters
        ----------
        x : array-like of shape (d,)
            The row.

        Returns
        -------
        ndarray of shape (c,)
        """
        found: Vector | None = self._probabilities_one(np.asarray(x), False)
        if found is None:
            found = array_validation.without_feature_names(self).predict_proba([x])[0]
        return found

    def predict_stream_proba_one(self, x: ArrayLike) -> Vector:
        """Probabilities of one row, as :meth:`predict_stream_proba`.

        Parameters
        ----------
        x : array-like of shape (d,)
            The row.

        Returns
        -------
        ndarray of shape (c,)
        """
        found: Vector | None = self._probabilities_one(np.asarray(x), True)
        if found is None:
            found = array_validation.without_feature_names(self).predict_stream_proba([x])[0]
        return found

    def _probabilities_one(self, row: NDArray[Any], stream: bool) -> Vector | None:
        """Return probabilities of one row by the compiled link; None where it does not apply."""
        found = self._open()
        if found is None:
            return None
        state = self._engine.state
        mapped = state.row(row)
        p = None if mapped is None else found.events.probabilities_array(mapped, stream)
        if p is not None and stream and found.options.calibrate and state.calibration is not None:
            p = state.calibration.corrected(p, found.labels)
        return None if p is None else np.array(p)

    def _open(self) -> SingleEventModel | None:
        """Return the moments open to single rows; None where only batches are possible."""
        engine = self._current()
        return None if engine is None else engine.state.open(engine.params.options)

    # Learned values

    @property
    def moments_(self) -> ClassMoments:
        """Count, mean and scatter of each class seen, read-only; of the terms of a map."""
        state = self._fitted().state
        return class_moments(state.imputed_moments, state.classes)

    @property
    def mean_(self) -> Vector:
        """Mean of each feature, or term of the map, over all rows."""
        moments = self._fitted().state.imputed_moments
        return moments.anchor + affine(moments, "standard")[0]

    @property
    def scale_(self) -> Vector:
        """Standard deviation of each feature, or term, over all rows; 1 if it never varies."""
        return affine(self._fitted().state.imputed_moments, "standard")[1]

    @property
    def feature_map_(self) -> FittedMap | None:
        """The map as it is fixed so far; None without one."""
        return self._fitted().state.fixed

    @property
    def clipped_(self) -> float:
        """Weight of the rows of which the map clipped a value; 0 without a map."""
        return float(self._fitted().state.moments.clipped[0])

    @property
    def coef_(self) -> Matrix:
        """Weights in the units of the input, or of the terms of the map."""
        return self._linear().coef.copy()

    @property
    def intercept_(self) -> Vector:
        """Scores at the origin of the input, or where all terms of the map are 0."""
        solution = self._linear()
        return solution.offset - solution.coef @ solution.anchor

    @property
    def ridge_(self) -> float:
        """The ridge that was used."""
        return self._fitted().scores(False).solution.ridge

    def _linear(self) -> LinearScores:
        solution = self._fitted().scores(False).solution
        if not isinstance(solution, LinearScores):
            raise AttributeError(
                "with pooled_rows scores are quadratic: they have no coef_ and no intercept_"
            )
        return solution
