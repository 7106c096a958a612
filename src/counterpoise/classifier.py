"""BalancedRidgeClassifier: moments, class weights and a solver behind scikit-learn's face."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import assert_all_finite

from counterpoise import validate
from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.exact import lifting, model, probability, progressive
from counterpoise.exact.events import Single
from counterpoise.exact.model import Options, Solved
from counterpoise.exact.moments import Moments
from counterpoise.exact.scaling import affine
from counterpoise.exact.state import Chunk, Learned, union
from counterpoise.exact.weighting import ClassWeight, Costs
from counterpoise.features import WARMUP, FixedMap, Map
from counterpoise.modelfile import packing
from counterpoise.modelfile.container import Contents, ModelFileError, Saved


class BalancedRidgeClassifier(Saved, ClassifierMixin, BaseEstimator):
    """Ridge classifier with balanced classes, exact at every moment of a stream.

    After any sequence of :meth:`partial_fit`, :meth:`merge` and :meth:`forget` the weights are
    those that a batch solver, after a batch scaler, would find on the rows that remain, equal to
    rounding whatever the order and the chunks (some 1e-12, and more where features are nearly
    copies of each other); the same chunks in the same order give bit-identical weights.

    Parameters
    ----------
    ridge : float or "gcv", default=1e-4
        The penalty b on the squared weights, in scaled units, where each class has total weight
        1; scikit-learn's ``alpha`` is ``ridge * n / 2``. "gcv" chooses it by generalised
        cross-validation, from the moments alone; sample weights then count as numbers of rows.
    class_weight : "balanced", dict or None, default="balanced"
        "balanced" gives every class the total weight 1, that is 1/n_k a row (scikit-learn's
        n/(2 n_k) means another ridge, not other weights). A dict gives each row the weight of
        its label, None gives 1: then this is ordinary ridge regression on ±1, or RLS. Labels
        missing from the dict weigh 1.
    costs : dict, optional
        Factors on the class weights by label, for mistakes that cost more. Labels missing from
        it count 1; labels not yet seen are allowed.
    scale : "standard", "minmax" or None, default="standard"
        Scaling of the features by everything seen so far, exact after the fact.
    fit_intercept : bool, default=True
        Add a constant feature.
    penalize_intercept : bool, default=True
        Penalise the constant like any weight, as the paper does, or leave it free, as
        ``RidgeClassifier`` does.
    half_life : float, optional
        A row fades to half its weight while its own class receives this much weight. The rare
        class is not forgotten because the common one keeps coming.
    memory_limit : float, default=2e9
        Bytes that learning may take: the moments of all classes, and as much again for a chunk.
    features : str, Map or FixedMap, optional
        A map of the features, for what is not linear: "poly2", "interactions", "rm3", "rff:400" or
        an object of :mod:`counterpoise.features`. Rows are standardised for it by the first 256
        of them; until then by all rows so far, which are kept. Then the map is fixed, and all
        that is promised holds on its terms. A fixed map, such as ``features_`` of another model,
        is taken as it is.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
        Labels seen, or declared, so far.
    class_count_ : ndarray of shape (c,)
        Weight of each class, not faded.
    coef_ : ndarray of shape (1, d) or (c, d)
        Weights in the units of the input, or of the terms of the map.
    intercept_ : ndarray of shape (1,) or (c,)
        Scores at the origin of the input, or where all terms are 0.
    features_ : FixedMap or None
        The map as it is fixed so far.
    ridge_ : float
        The ridge that was used.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (d,)
        Their names, where X has names that are all strings.

    References
    ----------
    Non-iteratively Reweighted Recursive Least Squares, ICML 2023, eq. (4) and Algorithm 1.

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
        ridge: float | str = 1e-4,
        class_weight: ClassWeight = "balanced",
        costs: Costs = None,
        scale: str | None = "standard",
        fit_intercept: bool = True,
        penalize_intercept: bool = True,
        half_life: float | None = None,
        memory_limit: float = 2e9,
        features: str | Map | FixedMap | None = None,
    ) -> None:
        self.ridge = ridge
        self.class_weight = class_weight
        self.costs = costs
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.half_life = half_life
        self.memory_limit = memory_limit
        self.features = features

    n_features_in_: int
    _learned: Learned

    # Learning

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
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

        Returns
        -------
        self
        """
        with validate.all_or_nothing(self) as draft:
            draft.__dict__.pop("_learned", None)
            chunk = draft._take(X, y, None, sample_weight)
            validate.require_some_weight(chunk.moments.n)
            draft._commit(chunk)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
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

        Returns
        -------
        self
        """
        with validate.all_or_nothing(self) as draft:
            draft._commit(draft._take(X, y, classes, sample_weight, least=0))
        return self

    def forget(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> BalancedRidgeClassifier:
        """Take rows back, as if they had never been learned.

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
            If the estimated relative error passes 1e-8; above 1e-3 it is an error instead, and
            the model stays as it was.
        """
        self._require_forgettable()
        rows, labels = validate.rows(self, X, y, least=0)
        chunk = self._moments_of(*self._weighed(rows, labels, sample_weight), self._learned.fixed)
        self._forget(chunk, self._terms())
        return self

    def merge(self, other: BalancedRidgeClassifier) -> BalancedRidgeClassifier:
        """Make one model of two, as if it had seen both streams, this one first.

        Parameters
        ----------
        other : BalancedRidgeClassifier
            A fitted model with the same options and features.

        Returns
        -------
        BalancedRidgeClassifier
            A new model; both of the old ones stay as they are.
        """
        if not isinstance(other, BalancedRidgeClassifier):
            raise TypeError(f"can only merge with a BalancedRidgeClassifier, not {type(other)}")
        self._require_fitted()
        other._require_fitted()
        self._require_same_learning()
        other._require_same_learning()
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        for params in (mine, theirs):
            params["features"] = lifting.text_of(params["features"])
        for name in mine:
            if mine[name] != theirs[name] and name != "memory_limit":
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
        known, more = self._learned, other._learned
        if known.warmup is not None or more.warmup is not None or known.fixed != more.fixed:
            raise ValueError(
                "cannot merge models whose maps were fixed by different rows, or are not fixed yet "
                f"(that takes {WARMUP} rows); let both begin with the same fixed map: "
                "features=model.features_, one of counterpoise.features.fixed_by, or --features "
                "FILE in a shell"
            )
        labels = union(known.moments.labels, more.moments.labels)
        self._require_room(len(labels), known.moments.mean.shape[1])
        result: BalancedRidgeClassifier = clone(self)
        for name in ("n_features_in_", "feature_names_in_"):
            if name in self.__dict__:
                setattr(result, name, getattr(self, name))
        moments = known.moments.copy().follow(more.moments, self.half_life)
        declared = union(known.declared, more.declared)
        result._learned = Learned(moments, declared, known.learned_with, known.fixed)
        return result

    def progressive_scores(
        self, X: ArrayLike, y: ArrayLike, delay: int = 0, classes: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Test, then train: score each row by the exact model just before it, learning as it goes.

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

        Returns
        -------
        ndarray of shape (n,) or (n, c)
            Scores as of :meth:`decision_function`, with all labels known from the start: 0 while
            nothing was learned; a class that has not been seen yet scores −1.
        """
        delay = validate.whole(delay, "delay")
        with validate.all_or_nothing(self) as draft:
            rows, target, declared = draft._enter(X, y, classes, accept_sparse=False)
            validate.require_bounded(draft, rows)
            delay = min(delay, len(rows))
            warm = min(draft._wanting(), len(rows))
            first = draft._warm_scores(rows, target, declared, warm, delay)
            if warm == len(rows):
                scores = first
            else:
                classes = union(np.unique(target), declared)
                rest = draft._fixed_scores(rows[warm:], target[warm:], declared, classes, delay)
                scores = np.concatenate([first, rest[delay:]]) if warm else rest
        return scores.ravel() if scores.shape[1] == 1 else scores

    def _fixed_scores(
        self, rows: Matrix, target: Labels, declared: Labels, classes: Labels, delay: int
    ) -> Matrix:
        """Progressive scores of rows that go through a fixed map, or none."""
        before = self.__dict__.get("_learned")
        fixed = self._given() if before is None else before.fixed
        self._require_map_fits(rows.shape[1])
        first = rows[0].copy() if fixed is None else fixed.transform(rows[:1])[0]
        moments = Moments(target[:0], first, self.scale == "minmax")
        if self.__sklearn_is_fitted__():
            moments = self._learned.moments.copy()
        rows_of, arrived = validate.group(target, moments.labels)
        labels = union(arrived, classes)
        self._require_room(len(labels), len(first))
        moments = moments.with_labels(arrived).with_labels(labels)
        codes = np.empty(len(rows), dtype=np.intp)
        for k, mine in enumerate(rows_of):
            codes[mine] = k
        options, delay = Options.of(self), min(delay, len(rows))
        scores = progressive.scores(options, moments, labels, rows, codes, delay, fixed)
        self._learned = Learned(moments, declared, self._learning(), fixed)
        return scores

    def _warm_scores(
        self, rows: Matrix, target: Labels, declared: Labels, warm: int, delay: int
    ) -> Matrix:
        """Progressive scores while so many rows are learned before the map is fixed."""
        everything = union(np.unique(target), declared)
        if "_learned" in self.__dict__:
            everything = union(self._learned.moments.labels, everything)
        steps = warm + delay if warm else 0
        scores = np.zeros((min(len(rows), steps), 1 if len(everything) <= 2 else len(everything)))
        for at in range(steps):
            if at < len(rows) and self.__sklearn_is_fitted__():
                self._learned = replace(self._learned, declared=everything, solved=None)
                scores[at] = self._solved().scores(rows[[at]])[0]
            if at >= delay:
                mine = slice(at - delay, at - delay + 1)
                self._commit(self._chunk(rows[mine], target[mine], None, declared))
        return scores

    def learn_one(self, x: ArrayLike, y: Any, w: float = 1.0) -> None:
        """Learn one row, at once and with little overhead.

        Parameters
        ----------
        x : array-like of shape (d,)
            The row.
        y : label
            Its label.
        w : float, default=1.0
            Its weight.
        """
        single, row = self._single(), np.asarray(x)
        slot = None if single is None else single.slots.get(y)
        mapped = None if slot is None else self._learned.row(row)
        if single is None or mapped is None or not 0.0 <= w <= validate.HEAVIEST:
            with validate.all_or_nothing(self) as draft:
                names = draft.__dict__.pop("feature_names_in_", None)
                draft.partial_fit(row[None], np.array([y]), sample_weight=[w])
                if names is not None and len(names) == draft.n_features_in_:
                    draft.feature_names_in_ = names
            return
        single.version = self._learned.version = self._learned.version + 1
        single.events.learn_array(mapped, single.slots[y], w)

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
        self._require_fitted()
        single, row = self._single(), np.asarray(x)
        mapped = None if single is None else self._learned.row(row)
        best = None if single is None or mapped is None else single.best(mapped)
        return validate.nameless(self).predict(row[None])[0] if best is None else best

    def _single(self) -> Single | None:
        """What was learned, open to single rows; None where only whole chunks will do."""
        learned: Learned | None = self.__dict__.get("_learned")
        if learned is None or learned.warmup is not None:
            return None
        single = learned.single
        signature = (
            self.ridge,
            self.class_weight,
            self.costs,
            self.scale,
            self.fit_intercept,
            self.penalize_intercept,
            self.half_life,
        )
        if (
            single is None
            or single.moments is not learned.moments
            or single.features is not self.features
            or single.signature != signature
        ):
            if not self.__sklearn_is_fitted__():
                return None
            self._check()
            self._require_same_learning()
            options = Options.of(self)
            version, features = learned.version, self.features
            single = Single.of(learned.moments, *learned.classes(), options, features, version)
            learned.single = single
        if single is not None and single.version != learned.version:
            single.version, single.events.stale = learned.version, True
        return single

    # Looking

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Scores: the positive class, or each class against the rest, aims at 1, the other at −1.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n,) or (n, c)
        """
        f = self._scores(X)[0]
        return f.ravel() if f.shape[1] == 1 else f

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
        f, solved = self._scores(X)
        labels: Labels = solved.classes[solved.best(f)]
        return labels

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
        f, solved = self._scores(X)
        return probability.probabilities(f, np.ones_like(solved.factor), solved.seen)

    def stream_proba(self, X: ArrayLike) -> Matrix:
        """Probabilities under the stream's own class frequencies.

        Where :meth:`predict_proba` says "more like a fraud than like a payment", this estimates how
        likely a fraud is. On rare classes the two differ a lot. With ``half_life`` the frequency
        of a class is the one that it had while its rows are remembered.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n, c)
        """
        f, solved = self._scores(X)
        return probability.probabilities(f, solved.factor, solved.seen)

    @property
    def classes_(self) -> Labels:
        """Labels seen, or declared, so far."""
        return self._classes()[0]

    @property
    def class_count_(self) -> Vector:
        """Weight of each class, not faded."""
        _, slot = self._classes()
        N = self._learned.moments.N
        return np.array([N[k] if k >= 0 else 0.0 for k in slot])

    @property
    def features_(self) -> FixedMap | None:
        """The map as it is fixed so far; None without one."""
        self._require_fitted()
        return self._learned.fixed

    @property
    def coef_(self) -> Matrix:
        """Weights in the units of the input, or of the terms of the map."""
        return self._solved().solution.coef.copy()

    @property
    def intercept_(self) -> Vector:
        """Scores at the origin of the input, or where all terms of the map are 0."""
        solution = self._solved().solution
        return solution.offset - solution.coef @ solution.anchor

    @property
    def ridge_(self) -> float:
        """The ridge that was used."""
        return self._solved().solution.ridge

    def __copy__(self) -> BalancedRidgeClassifier:
        return copy.deepcopy(self)

    def __sklearn_is_fitted__(self) -> bool:
        return "_learned" in self.__dict__ and bool(self._learned.moments.n.any())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Within

    def _check(self) -> None:
        """Raise if a parameter has no meaning."""
        Options.of(self).check()
        validate.positive(self, "memory_limit")
        lifting.map_in(self.features)

    def _take(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None,
        least: int = 1,
    ) -> Chunk:
        """Rows ready to be learned; changes nothing that was learned."""
        rows, target, declared = self._enter(X, y, classes, least=least)
        return self._chunk(rows, target, sample_weight, declared)

    def _chunk(
        self, X: Rows, y: Labels, sample_weight: ArrayLike | None, declared: Labels
    ) -> Chunk:
        """Checked rows, ready to be learned."""
        X, y, weight = self._weighed(X, y, sample_weight)
        learned: Learned | None = self.__dict__.get("_learned")
        fixed = self._given() if learned is None else learned.fixed
        if not self._wanting():
            return Chunk(self._moments_of(X, y, weight, fixed), declared, fixed)
        self._require_map_fits(X.shape[1])
        dense = X.toarray() if sp.issparse(X) else X
        before = None if learned is None else learned.warmup
        rows, fixed, kept = lifting.warmed(self.features, before, dense, y, weight)
        moments = self._moments_of(rows.X, rows.y, rows.weight, fixed)
        return Chunk(moments, declared, fixed, kept, everything=True)

    def _given(self) -> FixedMap | None:
        return self.features if isinstance(self.features, FixedMap) else None

    def _wanting(self) -> int:
        """Rows that are wanting until the map is fixed."""
        if self.features is None or isinstance(self.features, FixedMap):
            return 0
        learned: Learned | None = self.__dict__.get("_learned")
        if learned is None or learned.fixed is None:
            return WARMUP
        return 0 if learned.warmup is None else WARMUP - len(learned.warmup.X)

    def _enter(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None,
        accept_sparse: bool = True,
        least: int = 1,
    ) -> tuple[Rows, Labels, Labels]:
        """Rows and labels, checked, and labels declared so far."""
        self._check()
        first, fitted = "_learned" not in self.__dict__, self.__sklearn_is_fitted__()
        validate.require_y(self, y)
        rows, target = validate.rows(self, X, y, not fitted, accept_sparse, least)
        given = self._given()
        if fitted:
            self._require_same_learning()
        elif not first and not self._learned.fits(self._learning(), rows.shape[1]):
            # Nothing is left of what was learned, so that nothing need be kept of its map.
            learned = self._learned
            self._learned = Learned(learned.moments, learned.declared, self._learning(), given)
        if not fitted and given is not None and rows.shape[1] != len(given.mean):
            raise ValueError(
                f"features is a map fixed for {len(given.mean)} features, but X has "
                f"{rows.shape[1]} features"
            )
        declared = target[:0] if first else self._learned.declared
        if classes is not None:
            more = np.unique(np.asarray(classes))
            assert_all_finite(more, input_name="classes")
            validate.require_labels(more)
            declared = union(declared, more)
        validate.require_one_type(target, declared)
        return rows, target, declared

    def _commit(self, chunk: Chunk) -> None:
        """Let what was learned take a chunk in; a signal finds it before or after."""
        if chunk.everything or not self.__sklearn_is_fitted__():
            self._learned = Learned(
                chunk.moments, chunk.declared, self._learning(), chunk.fixed, chunk.warmup
            )
            return
        self._learned.follow(chunk, self.half_life)

    def _learning(self) -> tuple[Any, ...]:
        return *Options.of(self).learning, lifting.text_of(self.features), self._given()

    def _require_same_learning(self) -> None:
        if self._learned.learned_with != self._learning():
            raise ValueError(
                "features, half_life, and scale to or from 'minmax', cannot change once rows were "
                "learned; fit again, or use a clone"
            )

    def _weighed(
        self, X: Rows, y: Labels, sample_weight: ArrayLike | None
    ) -> tuple[Rows, Labels, Vector | None]:
        """Rows with their weights, without those of weight 0."""
        weight = validate.weights(sample_weight, X.shape[0])
        if self.features is not None:
            validate.require_bounded(self, X)
        elif sp.issparse(X) or self.half_life is not None or weight is not None:
            validate.require_finite(self, X)
        if weight is not None and not weight.all():
            X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
        return X, y, weight

    def _moments_of(
        self, X: Rows, y: Labels, weight: Vector | None, fixed: FixedMap | None
    ) -> Moments:
        """Moments of a checked chunk, in the slots of what was learned."""
        known = self._learned.moments if "_learned" in self.__dict__ else None
        rows_of, labels = validate.group(y, known.labels if known else y[:0])
        self._require_room(len(labels), X.shape[1] if fixed is None else fixed.size)
        # In a warm-up the rows come back with another scaling, and bring their anchor along.
        anchor = known.anchor if known and known.n.any() and not self._wanting() else None
        extremes = self.scale == "minmax"
        with np.errstate(over="ignore", invalid="ignore"):  # found out, and named, just below
            chunk = lifting.moments_of(
                X, rows_of, labels, weight, self.half_life, extremes, anchor, fixed
            )
        if fixed is None:
            validate.require_moderate(self, X, chunk)
        validate.require_light(chunk)
        return chunk

    def _require_forgettable(self) -> None:
        if self.half_life is not None:
            raise ValueError(
                "forget is not possible with half_life: how far a row has faded is not known"
            )
        if self.scale == "minmax":
            raise ValueError(
                "forget is not possible with scale='minmax': a minimum cannot be taken back; "
                "use scale='standard'"
            )
        self._require_fitted()
        self._check()
        self._require_same_learning()
        if self._learned.warmup is not None:
            raise ValueError(
                f"forget is not possible before the map is fixed, which takes {WARMUP} rows, of "
                f"which {self._wanting()} are wanting; begin with a map that is fixed: "
                "features=counterpoise.features.fixed_by(...), or --features FILE in a shell"
            )

    def _forget(self, chunk: Moments, names: Sequence[str]) -> None:
        """Take moments back, if enough digits are left."""
        learned = self._learned
        moments = model.without(learned.moments, chunk, Options.of(self), names.__getitem__)
        with validate.all_or_nothing(self) as draft:
            draft._learned = Learned(moments, learned.declared, learned.learned_with, learned.fixed)
            if not moments.n.any():  # nothing is left, not even a name
                draft.__dict__.pop("feature_names_in_", None)

    def _terms(self, names: Sequence[str] | None = None) -> list[str]:
        """What to call what is weighed: features, or terms of the map."""
        fixed, inputs = self._learned.fixed, range(self.n_features_in_)
        if fixed is None and names is None:
            return [validate.feature_name(self, j) for j in inputs]
        names = names or getattr(self, "feature_names_in_", [f"x{j}" for j in inputs])
        if fixed is None:
            return [f"feature {name!r}" for name in names]
        return [f"term {name!r}" for name in fixed.names([str(name) for name in names])]

    def _place(self, at: NDArray[np.intp], names: Sequence[str]) -> None:
        """Move the features to other places of a wider row, whose features have these names."""
        self._require_map_fits(len(names))
        if self._learned.fixed is None:
            self._require_room(len(self._learned.moments.n), len(names))
        learned = self._learned.placed(at, names)
        with validate.all_or_nothing(self) as draft:
            if self._given() is not None:
                draft.features = learned.fixed
            learned.learned_with = draft._learning()
            draft._learned, draft.n_features_in_ = learned, len(names)

    def _spread(self) -> Vector:
        """Standard deviation of each feature over everything learned, 1 where it is constant."""
        return affine(self._learned.moments, "standard")[1]

    def _condition(self) -> float:
        """Condition number of what is solved."""
        slots = self._classes()[1]
        return model.condition(self._learned.moments, slots, Options.of(self), self.ridge_)

    def _widen(self, names: Sequence[str]) -> None:
        """Make room for features that were zero in every row so far, given the names of all."""
        d = len(names)
        if "_learned" not in self.__dict__ or d == self.n_features_in_:
            return
        if self._learned.fixed is not None:
            self._place(np.arange(self.n_features_in_), names)
            return
        moments = self._learned.moments
        self._require_room(len(moments.n), d)
        wider, version = moments.with_features(d), self._learned.version + 1
        with validate.all_or_nothing(self) as draft:
            draft._learned = replace(self._learned, moments=wider, version=version)
            draft.n_features_in_ = d

    def _contents(self) -> Contents:
        if "_learned" not in self.__dict__:
            self._require_fitted()
        self._require_same_learning()
        return self._learned.contents(self, self._given() is not None)

    @classmethod
    def _of(cls, contents: Contents) -> BalancedRidgeClassifier:
        options = {"features": None, **contents.options}
        result = cls(**packing.options_of(options, cls().get_params()))
        try:
            result._check()
        except ValueError as error:
            raise ModelFileError(f"has an option that is impossible: {error}") from None
        learned = Learned.of(contents, result.features, Options.of(result))
        if learned.fixed is not None and contents.facts["map"]["given"]:
            result.features = learned.fixed
        learned.learned_with = result._learning()
        inputs = learned.moments.anchor if learned.fixed is None else learned.fixed.mean
        result.n_features_in_ = len(inputs)
        names = packing.names_of(contents, result.n_features_in_)
        if names is not None:
            result.feature_names_in_ = names
        result._learned = learned
        return result

    def _classes(self) -> tuple[Labels, list[int]]:
        """Sorted labels seen or declared, and the slot of each in the moments or −1."""
        if "_learned" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} has learned nothing yet")
        return self._learned.classes()

    def _solved(self) -> Solved:
        """Solution of what was learned so far under the present options."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"this {type(self).__name__} has learned nothing yet")
        options = Options.of(self)
        key = self._learned.version, options
        cached = self._learned.solved
        self._require_same_learning()
        if cached is None or cached[0] != key:
            self._check()
            cached = self._learned.solved = key, self._learned.solve(options)
        return cached[1]

    def _scores(self, X: Any) -> tuple[Matrix, Solved]:
        self._require_fitted()
        X = validate.rows(self, X)
        validate.require_finite(self, X)
        solved = self._solved()
        return solved.scores(X), solved

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} has learned nothing yet, or has forgotten it all; "
                "call fit or partial_fit first"
            )

    def _require_map_fits(self, inputs: int) -> None:
        lifting.require_map_fits(lifting.map_in(self.features), inputs, self.memory_limit)

    def _require_room(self, c: int, d: int) -> None:
        lifting.require_room(c, d, self.memory_limit, self.features is not None)
