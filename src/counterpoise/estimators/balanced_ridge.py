"""BalancedRidgeClassifier: moments, class weights and a solver behind scikit-learn's face."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError

from counterpoise import timestamps, validation
from counterpoise.arrays import Flags, Labels, Matrix, Rows, Vector
from counterpoise.engine import progressive
from counterpoise.engine.parameters import cached_params, read_ridge_parameters
from counterpoise.engine.progressive_calibration import warn_if_sorted
from counterpoise.engine.state import Batch, LearningConfig, State
from counterpoise.engine.summary import ClassMoments, Summary, class_moments, summarize
from counterpoise.errors import DataError, Suggestion
from counterpoise.explanation import Explanation
from counterpoise.feature_maps import FittedMap, Map
from counterpoise.feature_maps.fitted import feature_map_name
from counterpoise.modelfile.container import Contents
from counterpoise.modelfile.engines import SaveLoadMixin, learned_of, names_of, state_contents
from counterpoise.moments.classes import Classes, declared, grouped, ravel_binary
from counterpoise.moments.decay import HalfLife
from counterpoise.moments.moments import Moments
from counterpoise.solver.attribution import explain
from counterpoise.solver.class_weights import ClassFactors, ClassWeight, affine
from counterpoise.solver.imputation import MeanImputation
from counterpoise.solver.options import Options
from counterpoise.solver.score_functions import LinearScores
from counterpoise.solver.scores import Scores
from counterpoise.stepwise.single_event import SingleEventModel


class Params(NamedTuple):
    """What the parameters mean."""

    options: Options
    plan: LearningConfig


class BalancedRidgeClassifier(SaveLoadMixin, ClassifierMixin, BaseEstimator):
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

    n_features_in_: int
    state_: State

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
        with validation.transactional(self) as draft:
            draft.__dict__.pop("state_", None)
            draft._learn(X, y, None, sample_weight, t, is_whole=True)
            validation.require_some_weight(draft.state_.moments.n)
        return self

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
        with validation.transactional(self) as draft:
            draft._learn(X, y, classes, sample_weight, t, least=0)
        return self

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
        self.require_forgettable()
        self.unlearn_moments(self.gathered(X, y, sample_weight), self.terms())
        return self

    def merge(self, other: BalancedRidgeClassifier) -> BalancedRidgeClassifier:
        """Make one model of two, as if it had seen both streams, this one first.

        Parameters
        ----------
        other : BalancedRidgeClassifier
            A fitted model with the same features, and the same options but for ``memory_limit`` and
            ``calibrate``. Calibration counts add up; this model decides whether to use them.

        Returns
        -------
        BalancedRidgeClassifier
            A new model; both of the old ones stay as they are.
        """
        if not isinstance(other, BalancedRidgeClassifier):
            raise TypeError(f"can only merge with a BalancedRidgeClassifier, not {type(other)}")
        mine, theirs = self._settled(), other._settled()
        self._require_same_options(other)
        if mine.warmup is not None or theirs.warmup is not None or mine.fixed != theirs.fixed:
            raise DataError(
                "cannot merge models whose maps were fixed by different rows, or are not fixed yet "
                f"(that takes {mine.plan.rows} rows)",
                Suggestion("let both begin with the same fixed map, given by {}", "feature_map"),
            )
        validation.require_one_type(theirs.moments.labels, mine.moments.labels)
        state = mine.merged(theirs, self.memory_limit)
        result: BalancedRidgeClassifier = clone(self)
        for name in ("n_features_in_", "feature_names_in_"):
            if name in self.__dict__:
                setattr(result, name, getattr(self, name))
        result.state_ = state
        return result

    def _require_same_options(self, other: BalancedRidgeClassifier) -> None:
        """Raise unless two models were learned in the same way, of the same features."""
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        for params in (mine, theirs):
            params["feature_map"] = feature_map_name(params["feature_map"])
        for name in mine:
            if mine[name] != theirs[name] and name not in ("memory_limit", "calibrate"):
                raise ValueError(
                    f"cannot merge models with different options: {name} is {mine[name]!r} here "
                    f"and {theirs[name]!r} there"
                )
        names = [getattr(m, "feature_names_in_", np.empty(0)).tolist() for m in (self, other)]
        if self.n_features_in_ != other.n_features_in_ or names[0] != names[1]:
            raise ValueError(
                "cannot merge models with different features: "
                f"{names[0] or self.n_features_in_} here, {names[1] or other.n_features_in_} there"
            )

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
        with validation.transactional(self) as draft:
            rows, target, known = draft._enter(X, y, classes, accept_sparse=False)
            validation.require_bounded(draft, rows)
            batch = draft._batch(rows, target, None, t)
            options, limit = draft._params().options, draft.memory_limit
            scores, draft.state_ = progressive.scores(
                draft.state_, batch, known, options, delay, limit, jobs
            )
        return ravel_binary(scores)

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
        found = self._open()
        plan = self.state_.plan if found is not None else self._params().plan
        when = timestamps.time(t) if plan.decay.is_timed else None
        before = self.state_.progressive if found is not None and self.calibrate else None
        if found is not None and self.state_.learn_row(found, x, y, w, when):
            if self.calibrate:
                warn_if_sorted(before, self.state_.progressive)
        else:
            row = np.asarray(x)
            with validation.transactional(self) as draft:
                names = draft.__dict__.pop("feature_names_in_", None)
                draft.partial_fit(row[None], np.array([y]), sample_weight=[w], t=when)
                if names is not None and len(names) == draft.n_features_in_:
                    draft.feature_names_in_ = names

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
        if found is None:  # else there is something to look at
            self._require_fitted()
        mapped = None if found is None else self.state_.row(row)
        best = None if found is None or mapped is None else found.best(mapped)
        return (
            validation.without_feature_names(self).predict(row[None])[0] if best is None else best
        )

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
        told = self._told(np.asarray(x), False)
        return (
            validation.without_feature_names(self).predict_proba([x])[0] if told is None else told
        )

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
        told = self._told(np.asarray(x), True)
        return (
            validation.without_feature_names(self).predict_stream_proba([x])[0]
            if told is None
            else told
        )

    def _told(self, row: Any, stream: bool) -> Vector | None:
        """Probabilities of one row by the compiled link; None where that cannot tell."""
        found = self._open()
        if found is None:
            self._require_fitted()
            return None
        mapped = self.state_.row(row)
        told = None if mapped is None else found.events.probabilities_array(mapped, stream)
        calibration = self.state_.calibration
        if told is not None and stream and found.options.calibrate and calibration is not None:
            told = calibration.corrected(told, found.labels)
        return None if told is None else np.array(told)

    def _open(self) -> SingleEventModel | None:
        """What is learned, open to single rows; None where only whole batches will do."""
        if "state_" not in self.__dict__:
            return None
        state = self.state_
        options, plan = self._params()
        if state.plan is not plan:
            if not state.begun:
                return None
            self._require_same_plan(plan)
        return state.open(options)

    # Looking

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Scores: the positive class, or each class against the rest, aims at 1, the other at −1.

        With three or more classes they compare the classes of one row, not rows by one class; rank
        rows by a column of :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n,) or (n, c)
        """
        return ravel_binary(self._scored(X)[0])

    def predict(self, X: ArrayLike) -> Labels:
        """Most probable label under the weights of training: balanced classes, by default.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        f, scores = self._scored(X)
        return scores.classes.best(f)

    def predict_proba(self, X: ArrayLike) -> Matrix:
        """Probabilities under the weights of training: its argmax is always :meth:`predict`.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n, c)
        """
        f, scores = self._scored(X, link=True)
        return scores.probabilities(f, stream=False)

    def predict_log_proba(self, X: ArrayLike) -> Matrix:
        """Logarithms of :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n, c)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict_stream_proba(self, X: ArrayLike) -> Matrix:
        """Probabilities under the stream's own class frequencies.

        Where :meth:`predict_proba` says "more like a fraud than like a payment", this estimates how
        likely a fraud is. On rare classes the two differ a lot. With ``half_life`` the frequency
        of a class is the one that it had while its rows are remembered. With ``calibrate`` the odds
        are corrected by calibration counts, which do not decay.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n, c)
        """
        f, scores = self._scored(X, link=True)
        return scores.probabilities(f, stream=True)

    def explain(self, X: ArrayLike) -> Explanation:
        """Say what each feature contributes to the scores of rows.

        The contributions add up to the score minus the score at the balanced centre, the mean of
        the class means, each weighted as the model weighs its class (all the same by default). A
        linear model weighs the distance from the centre; with a map or with ``pooled_rows`` they
        are integrated gradients along the straight line from the centre, which add up as well.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        Reasons
            Contributions ``values`` of shape (n, d) for two classes, (n, c, d) for several; with
            ``base``, the score at the centre, ``top(k)`` and ``plot(row)``.

        Examples
        --------
        >>> from counterpoise import BalancedRidgeClassifier
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [9.0, 0.0]], ["ok", "ok", "ok", "fraud"]
        >>> reasons = BalancedRidgeClassifier().fit(X, y).explain([[8.0, 0.0]])
        >>> names, values = reasons.top(1)
        >>> names.item(), round(values.item(), 2)
        ('x0', -0.34)
        """
        self._require_fitted()
        rows = validation.rows(self, X)
        validation.require_finite(self, rows)
        names = getattr(self, "feature_names_in_", None)
        return explain(self._scores(), self.state_.moments, self.options_, rows, names)

    @property
    def classes_(self) -> Labels:
        """Labels seen, or declared, so far."""
        return self._classes().labels

    @property
    def class_count_(self) -> Vector:
        """Weight of each class, not faded."""
        self._classes()
        return self.state_.class_count

    def summary(self) -> Summary:
        """Sum up what was found: standardised weights with 95 % intervals, means, class means.

        Standard errors are there for least squares: two classes, or ``multi_class="ovr"``, without
        map, ``pooled_rows`` or ``half_life``. They assume independent rows whose features are
        normal within each class; ``note`` says so, or why there are none.

        Returns
        -------
        Summary
            Printed, it is a table.

        Examples
        --------
        >>> import numpy as np
        >>> from counterpoise import BalancedRidgeClassifier
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 2, 500)
        >>> found = BalancedRidgeClassifier().fit(rng.standard_normal((500, 2)) + y[:, None], y)
        >>> summary = found.summary()
        >>> bool((summary.low < summary.weights).all())
        True
        """
        self._require_fitted()
        names = [f"x{j}" for j in range(self.n_features_in_)]
        names = [str(name) for name in getattr(self, "feature_names_in_", names)]
        if self.feature_map_ is not None:
            names = self.feature_map_.names(names)
        return summarize(self.state_, self.options_, names)

    @property
    def moments_(self) -> ClassMoments:
        """Count, mean and scatter of each class seen, read-only; of the terms of a map."""
        self._require_fitted()
        return class_moments(self.state_.whole, self.state_.classes)

    @property
    def mean_(self) -> Vector:
        """Mean of each feature, or term of the map, over all rows."""
        self._require_fitted()
        moments = self.state_.whole
        return moments.anchor + affine(moments, "standard")[0]

    @property
    def scale_(self) -> Vector:
        """Standard deviation of each feature, or term, over all rows; 1 if it never varies."""
        self._require_fitted()
        return affine(self.state_.whole, "standard")[1]

    @property
    def feature_map_(self) -> FittedMap | None:
        """The map as it is fixed so far; None without one."""
        self._require_fitted()
        return self.state_.fixed

    @property
    def clipped_(self) -> float:
        """Weight of the rows of which the map clipped a value; 0 without a map."""
        self._require_fitted()
        return float(self.state_.moments.clipped[0])

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
        return self._scores().solution.ridge

    @property
    def scores_(self) -> Scores:
        """Scores as a function of rows, under the present options, and their probabilities."""
        return self._scores(link=True)

    @property
    def options_(self) -> Options:
        """How moments are looked at, by the parameters as they are."""
        return self._params().options

    def __copy__(self) -> BalancedRidgeClassifier:
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {**super().__getstate__()}
        state.pop("_held", None)
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return "state_" in self.__dict__ and self.state_.begun

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # For other rooms of the package

    def check(self) -> None:
        """Raise if a parameter has no meaning."""
        self._params()

    def require_forgettable(self) -> None:
        """Raise if rows cannot be taken back."""
        if self.half_life is not None:
            raise ValueError(
                "unlearn is not possible with half_life: how far a row has faded is not known"
            )
        state = self._settled()
        if state.warmup is not None:
            raise DataError(
                "unlearn is not possible before the map is fixed, which takes "
                f"{state.plan.rows} rows, {state.waiting} more than so far",
                Suggestion("begin with a map that is fixed, given by {}", "feature_map"),
            )

    def gathered(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Moments:
        """Moments of rows that are to be taken back, in the slots of what was learned.

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
        Moments
        """
        rows, labels = validation.rows(self, X, y, least=0)
        batch = self._batch(rows, labels, sample_weight)
        return self.state_.gathered(batch, self.memory_limit)

    def learn_rows(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        t: ArrayLike | None = None,
        calibrate: bool = True,
    ) -> None:
        """Learn more rows, as :meth:`partial_fit`, without a warning about sorted labels.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels.
        sample_weight : array-like of shape (n,), optional
            Weight of each row.
        t : array-like of shape (n,), optional
            Time of each row.
        calibrate : bool, default=True
            Whether the rows count for the parameter ``calibrate``.
        """
        with validation.transactional(self) as draft:
            batch, known = draft._checked(X, y, None, sample_weight, t, least=0)
            options = draft._params().options if self.calibrate and calibrate else None
            draft.state_ = draft.state_.learn(batch, draft.memory_limit, known, calibrating=options)

    def batch_of(self, X: Rows, y: Labels, weight: Vector | None) -> Batch:
        """Return rows that were learned before as a batch.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, d)
            The rows.
        y : ndarray of shape (n,)
            Their labels.
        weight : ndarray of shape (n,), optional
            Their weights.

        Returns
        -------
        Batch
        """
        rows, labels = validation.rows(self, X, y, least=0)
        return self._batch(rows, labels, weight)

    def cross_fit(self, batches: Callable[[], Iterable[Batch]], names: Sequence[Any]) -> None:
        """Calibrate by all rows that were learned, independent of their order.

        Parameters
        ----------
        batches : callable
            Gives these rows again and again, in the same order.
        names : sequence
            Names of the features, or their positions.
        """
        options = self._params().options
        with validation.transactional(self) as draft:
            draft.state_ = self.state_.cross_fitted(batches, names, options, self.memory_limit)

    def unlearn_moments(self, chunk: Moments, names: Sequence[str]) -> None:
        """Take moments back, if enough digits are left, given what to call each term.

        Parameters
        ----------
        chunk : Moments
            The moments of the rows. Their room is taken over: they must not be used any more.
        names : sequence of str
            See :meth:`terms`.
        """
        state = self.state_.unlearn(chunk, self._params().options, names.__getitem__)
        with validation.transactional(self) as draft:
            draft.state_ = state
            if not state.begun:  # nothing is left, not even a name
                draft.__dict__.pop("feature_names_in_", None)

    def terms(self, names: Sequence[str] | None = None) -> list[str]:
        """What to call what is weighed in a message: features, or terms of the map.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the features, where the model does not know them.

        Returns
        -------
        list of str
        """
        fixed, inputs = self.state_.fixed, range(self.n_features_in_)
        if fixed is None and names is None:
            return [validation.feature_name(self, j) for j in inputs]
        names = names or getattr(self, "feature_names_in_", [f"x{j}" for j in inputs])
        if fixed is None:
            return [f"feature {name!r}" for name in names]
        return [f"term {name!r}" for name in fixed.names([str(name) for name in names])]

    def fill_in(self, fill: MeanImputation | None) -> None:
        """Say which features may be missing, to be filled by the mean of what was seen.

        Parameters
        ----------
        fill : Fill, optional
            The features, and how rows say that they are missing.
        """
        self._fill = fill
        if "state_" in self.__dict__ and self.state_.fill != fill:
            with validation.transactional(self) as draft:
                draft.state_ = self.state_.filling(fill)

    def rebase(self, before: MeanImputation, after: MeanImputation) -> None:
        """Let rows hold other constants where features are missing, with what was learned of them.

        Parameters
        ----------
        before, after : Fill
            The same features, and what rows held and are to hold where they are missing.
        """
        with validation.transactional(self) as draft:
            draft.state_ = self.state_.rebased(before, after)

    def widen(self, names: Sequence[str]) -> None:
        """Make room for features that were zero in every row so far.

        Parameters
        ----------
        names : sequence of str
            Names of all features, the old ones first.
        """
        if "state_" in self.__dict__ and len(names) != self.n_features_in_:
            self._move(self.state_.widened(names, self.memory_limit), len(names))

    def place(self, at: NDArray[np.intp], names: Sequence[str]) -> None:
        """Move the features to other places of a wider row.

        Parameters
        ----------
        at : ndarray of shape (d_old,)
            The new place of each feature.
        names : sequence of str
            Names of all features.
        """
        self._move(self.state_.placed(at, names, self.memory_limit), len(names))

    def leave_out(self, gone: Flags) -> NDArray[np.intp]:
        """Drop features that are 0 in every row; return the places of those that stay.

        Those by whose scaling a map was fixed stay with it, and one stays while there are rows.

        Parameters
        ----------
        gone : ndarray of bool of shape (d,)
            Which features are 0 in every row.

        Returns
        -------
        ndarray of int
        """
        state = self.state_
        stay = ~gone if state.fixed is None else ~(gone & state.fixed.late)
        if not stay.any() and state.begun:
            stay[0] = True
        at = np.flatnonzero(stay)
        if len(at) < len(stay):
            self._move(state.only(at), len(at))
        return at

    def contents(self) -> Contents:
        """What a file is to hold of this model.

        Returns
        -------
        Contents
        """
        if "state_" not in self.__dict__:
            self._require_fitted()
        self._require_same_plan(self._params().plan)
        return state_contents(self, self.state_)

    @classmethod
    def from_contents(cls, contents: Contents) -> BalancedRidgeClassifier:
        """A model from what a file holds, checked as if a stranger had written it.

        Parameters
        ----------
        contents : Contents
            What the file holds.

        Returns
        -------
        BalancedRidgeClassifier
        """
        learned = learned_of(contents)
        state, limit = learned.state, contents.options["memory_limit"]
        features = state.plan.given or state.plan.text
        result = cls.with_state(
            state, **asdict(learned.options), memory_limit=limit, feature_map=features
        )
        state.plan = result._params().plan  # the very same is found to be equal at once
        names = names_of(contents, state.inputs)
        if names is not None:
            result.feature_names_in_ = names
        return result

    @classmethod
    def with_state(cls, state: State, **params: Any) -> BalancedRidgeClassifier:
        """A model that has learned what a State says.

        Parameters
        ----------
        state : State
            What is learned; it is shared, not copied.
        **params : object
            Parameters, which must go with it.

        Returns
        -------
        BalancedRidgeClassifier
        """
        result = cls(**params)
        result.state_, result.n_features_in_ = state, state.inputs
        return result

    # Inside

    @cached_params(__init__)
    def _params(self) -> Params:
        """What the parameters mean; raise if one has no meaning."""
        return Params(*read_ridge_parameters(self))

    def _learn(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None,
        t: ArrayLike | None,
        least: int = 1,
        is_whole: bool = False,
    ) -> None:
        """Check rows and learn them; ``is_whole`` if they are all rows."""
        batch, known = self._checked(X, y, classes, sample_weight, t, least)
        options = self._params().options if self.calibrate else None
        cross_fits = is_whole and options is not None and self.half_life is None
        before = self.state_.progressive
        self.state_ = self.state_.learn(
            batch, self.memory_limit, known, calibrating=None if cross_fits else options
        )
        if cross_fits:
            self.cross_fit(lambda: [batch], range(self.n_features_in_))
        warn_if_sorted(before, self.state_.progressive, stacklevel=4)

    def _checked(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None,
        t: ArrayLike | None,
        least: int,
    ) -> tuple[Batch, Labels]:
        """Return rows that can be learned, and labels declared so far; there is a State then."""
        rows, target, known = self._enter(X, y, classes, least=least)
        return self._batch(rows, target, sample_weight, t), known

    def _enter(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None,
        accept_sparse: bool = True,
        least: int = 1,
    ) -> tuple[Rows, Labels, Labels]:
        """Rows and labels, checked, and labels declared so far; there is a State afterwards."""
        plan, fitted = self._params().plan, self.__sklearn_is_fitted__()
        validation.require_y(self, y)
        rows, target = validation.rows(self, X, y, not fitted, accept_sparse, least)
        inputs = rows.shape[1]
        state: State | None = self.__dict__.get("state_")
        if fitted:
            self._require_same_plan(plan)
        elif state is None or state.plan != plan or state.inputs != inputs:
            if plan.given is not None and inputs != len(plan.given.mean):
                raise ValueError(
                    f"features is a map fixed for {len(plan.given.mean)} features, but X has "
                    f"{inputs} features"
                )
            # Nothing is left of what was learned, so nothing needs to be kept of its map.
            before = target[:0] if state is None else state.declared
            fill: MeanImputation | None = self.__dict__.get("_fill")
            self.state_ = State.empty(plan, inputs).announced(before).filling(fill)
        known = declared(self.state_.declared, classes)
        validation.require_one_type(target, known)
        return rows, target, known

    def _batch(
        self, X: Rows, y: Labels, sample_weight: ArrayLike | None, t: ArrayLike | None = None
    ) -> Batch:
        """Rows with their weights, and times where these matter, without those of weight 0."""
        weight = validation.weights(sample_weight, X.shape[0])
        is_timed = self._params().plan.decay.is_timed
        when = timestamps.times(t, X.shape[0]) if is_timed else None
        if self.feature_map is not None:
            validation.require_bounded(self, X)
        elif sp.issparse(X) or self.half_life is not None or weight is not None:
            validation.require_finite(self, X)
        if weight is not None and not weight.all():
            kept = weight > 0
            X, y, weight, when = (
                X[kept],
                y[kept],
                weight[kept],
                None if when is None else when[kept],
            )
        return Batch(X, y, weight, grouped, self, when)

    def _move(self, state: State, inputs: int) -> None:
        """Let a State of wider rows take the place of this one."""
        with validation.transactional(self) as draft:
            if state.plan.given is not None:
                draft.feature_map = state.plan.given
            draft.state_, draft.n_features_in_ = state, inputs

    def _classes(self) -> Classes:
        if "state_" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} has learned nothing yet")
        return self.state_.classes

    def _scored(self, X: Any, link: bool = False) -> tuple[Matrix, Scores]:
        """Scores of rows, which are checked, and what they were scored by."""
        self._require_fitted()
        X = validation.rows(self, X)
        validation.require_finite(self, X)
        scores = self._scores(link)
        return scores.of(X), scores

    def _scores(self, link: bool = False) -> Scores:
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"this {type(self).__name__} has learned nothing yet")
        params = self._params()
        self._require_same_plan(params.plan)
        return self.state_.solve(None, params.options, link)

    def _linear(self) -> LinearScores:
        solution = self._scores().solution
        if not isinstance(solution, LinearScores):
            raise AttributeError(
                "with pooled_rows scores are quadratic: they have no coef_ and no intercept_"
            )
        return solution

    def _settled(self) -> State:
        """What is learned, if it goes with the parameters."""
        self._require_fitted()
        self._require_same_plan(self._params().plan)
        return self.state_

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} has learned nothing yet, or has unlearned it all; "
                "call fit or partial_fit first"
            )

    def _require_same_plan(self, plan: LearningConfig) -> None:
        if self.state_.plan is not plan and self.state_.plan != plan:
            raise ValueError(
                "feature_map and half_life cannot change once rows were learned; fit again, or "
                "use a clone"
            )
