"""Moments: everything that is ever learned, as a value that can be added and subtracted.

Per class k of a labelled sample

    n_k = Σ ω_i        μ_k = Σ ω_i x_i / n_k        C_k = Σ ω_i (x_i − μ_k)(x_i − μ_k)ᵀ

with the sums over the rows of that class and ω the sample weights. Two samples together have

    n = n_a + n_b      μ = μ_a + δ n_b / n          C = C_a + C_b + δδᵀ n_a n_b / n,   δ = μ_b − μ_a

(Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
variances", 1979), and the inverse of that removes one from the other: ``removal.py`` does that.
Means are kept relative to an anchor, at first the first row seen, so that features far from zero
keep their digits; it moves when the mean of all rows has left it by more than 8 standard
deviations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from counterpoise.arrays import Labels, Matrix, Rows, Vector, groups, scatters
from counterpoise.moments import accumulate as class_rows
from counterpoise.moments import downdate
from counterpoise.moments._moments import add
from counterpoise.moments.decay import NO_DECAY, NO_TIMESTAMP, Decay, HalfLife

EPS = downdate.EPS
MIN_DECAYED_WEIGHT = 2.0**-900  # of a row that has faded by the clock, and is worth a look
# What there is of each class, but for its scatter and its stream.
PER_CLASS_ARRAYS = (
    "n",
    "weight_remainder",
    "min_row_weight",
    "N",
    "mean",
    "max_scatter",
    "nonconstant_weight",
    "removed",
    "row_hashes",
)


class Moments:
    """Centred second moments of each class of a labelled sample.

    Make one with :meth:`of`; then ``a + b`` is the value of both samples together, ``a - b``
    that of a with the rows of b never seen. ``a += b`` works in place.

    Attributes
    ----------
    labels : ndarray of shape (c,)
        The label of each slot, in order of arrival. A slot with ``n == 0`` was never seen.
    n : ndarray of shape (c,)
        Weight of each class, faded if rows fade with age.
    weight_remainder : ndarray of shape (c,)
        True sum of the weights minus n: the rounding error of n.
    min_row_weight : ndarray of shape (c,)
        Smallest weight of a row that each class ever had.
    N : ndarray of shape (c,)
        True weight of each class, not faded.
    stream : ndarray of shape (c,)
        Weight of the rows of all classes, faded like n by the rows of this class that came after
        them: n / stream is how frequent the class was while its rows are remembered.
    anchor : ndarray of shape (d,)
        The point that means are relative to.
    mean : ndarray of shape (c, d)
        Mean of each class minus the anchor.
    C : ndarray of shape (c, d, d)
        Scatter of each class about its own mean.
    max_scatter : ndarray of shape (c, d)
        What rounding may have cost the diagonal of C, in units of eps: the largest ever held, and
        what each removal adds to it.
    removed : ndarray of shape (c, 2, d)
        What rounding in removals may have cost the sum of the rows, n times their mean, in units
        of eps; and where the mean was when that began. A sum that is off makes the scatter drift
        as the mean goes away from there. :meth:`relative_error` makes an estimate of both.
    nonconstant_weight : ndarray of shape (c, 2, d)
        Weight of the rows in which a feature is not 0, and not 1. When removals bring it back to
        zero, the feature is known to be constant, which rounding could not tell.
    row_hashes : ndarray of uint64 of shape (c, 2, 1 + d)
        Sums of the weights, and of the bits of each feature as they are and folded, modulo 2⁶⁴.
        They know no rounding, and tell when all rows left have the same value of a feature.
    when : ndarray of shape (1,)
        Where rows fade by the clock, the latest time in seconds, as of which everything weighs:
        N is then faded too. Else −∞.
    clipped : ndarray of shape (1,)
        Weight, not faded, of the rows of which a map clipped a value; 0 without a map.

    Examples
    --------
    >>> from counterpoise import Moments
    >>> one = Moments.of([[1.0], [3.0]], ["ham", "spam"])
    >>> both = one + Moments.of([[5.0]], ["spam"])
    >>> both.labels.tolist(), both.n.tolist(), (both.mean + both.anchor).ravel().tolist()
    (['ham', 'spam'], [1.0, 2.0], [1.0, 4.0])
    >>> (both - Moments.of([[1.0]], ["ham"])).n.tolist()
    [0.0, 2.0]
    """

    __slots__ = (
        "C",
        "N",
        "anchor",
        "clipped",
        "labels",
        "max_scatter",
        "mean",
        "min_row_weight",
        "n",
        "nonconstant_weight",
        "removed",
        "row_hashes",
        "stream",
        "weight_remainder",
        "when",
    )

    labels: Labels
    n: Vector
    weight_remainder: Vector
    min_row_weight: Vector
    N: Vector
    stream: Vector
    anchor: Vector
    mean: Matrix
    C: NDArray[np.float64]
    max_scatter: Matrix
    removed: NDArray[np.float64]
    nonconstant_weight: NDArray[np.float64]
    row_hashes: NDArray[np.uint64]
    when: Vector
    clipped: Vector

    def __init__(self, labels: Labels, anchor: Vector) -> None:
        """Nothing seen yet of these classes, about this anchor."""
        c, d = len(labels), len(anchor)
        self.labels = labels
        self.anchor = anchor.copy()
        self.n, self.N, self.stream, self.weight_remainder, self.min_row_weight = np.zeros((5, c))
        self.mean, self.max_scatter = np.zeros((2, c, d))
        self.nonconstant_weight, self.removed = np.zeros((2, c, 2, d))
        self.row_hashes = np.zeros((c, 2, 1 + d), dtype=np.uint64)
        self.C = scatters(c, d)
        self.when, self.clipped = np.array([NO_TIMESTAMP]), np.zeros(1)

    @classmethod
    def of(
        cls,
        X: ArrayLike | sp.csr_array,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        half_life: HalfLife = None,
        t: ArrayLike | None = None,
    ) -> Moments:
        """Moments of a labelled sample.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            The rows, finite.
        y : array-like of shape (n,)
            Their labels.
        sample_weight : array-like of shape (n,), optional
            Weight of each row, not negative; a row of weight 0 changes nothing.
        half_life : float, dict or str, optional
            A row fades to half its weight while its class receives this much weight, or in this
            time.
        t : array-like of shape (n,), optional
            The time of each row in seconds, where rows fade by the clock.

        Returns
        -------
        Moments
        """
        X = _canonical(X) if sp.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
        if X.ndim != 2 or len(np.atleast_1d(y)) != X.shape[0]:
            raise ValueError(
                f"X of shape {X.shape} and {len(np.atleast_1d(y))} labels do not match"
            )
        if sample_weight is not None and np.shape(sample_weight) != (X.shape[0],):
            raise ValueError(
                f"sample_weight must have shape ({X.shape[0]},), got {np.shape(sample_weight)}"
            )
        labels, codes = np.unique(np.asarray(y), return_inverse=True)
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        times = None if t is None else np.asarray(t, dtype=np.float64)
        rows_of = groups(codes, len(labels))
        return cls.of_groups(X, rows_of, labels, weight, Decay.parse(half_life), t=times)

    @classmethod
    def of_groups(
        cls,
        X: Rows,
        rows_of: list[NDArray[np.intp]],
        labels: Labels,
        weight: Vector | None = None,
        decay: Decay = NO_DECAY,
        anchor: Vector | None = None,
        t: Vector | None = None,
    ) -> Moments:
        """Moments of rows grouped by label, each group in order, about a given anchor."""
        d = X.shape[1]
        if weight is not None and not weight.all():
            rows_of = [rows[weight[rows] > 0] for rows in rows_of]
        if anchor is None:
            first = min((rows[0] for rows in rows_of if len(rows)), default=None)
            anchor = np.zeros(d) if first is None else _row(X, first)
        result = cls(labels, anchor)
        if decay.is_timed and t is not None:
            result.when[0], weight = decay.weigh(t, weight)
            rows_of = [rows[weight[rows] >= MIN_DECAYED_WEIGHT] for rows in rows_of]
        half_lives = decay.rows_per_class(labels) if decay.is_active else None
        class_rows.fill(result, X, rows_of, weight, half_lives, lasting=not decay.is_active)
        return result

    def __iadd__(self, other: Moments) -> Moments:
        return self.append(other)

    def __add__(self, other: Moments) -> Moments:
        return self.copy().append(other)

    def append(self, other: Moments, decay: Decay = NO_DECAY) -> Moments:
        """Let another sample follow this one, in place: addition, after fading by its weight.

        A signal finds the state before or after, never between.
        """
        from counterpoise.moments.resize import with_labels

        grown = with_labels(self, other.labels)
        names = () if grown is self else Moments.__slots__
        after = {name: getattr(grown, name) for name in names}
        add(*grown.add_arguments(other, decay, self, after))
        return self

    def add_arguments(
        self, other: Moments, decay: Decay, holder: Any, state: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Return the arguments by which ``_moments.add`` or ``add_all`` appends a sample.

        Its labels have slots. The holder gets the attributes in ``state`` in the same call, so
        that a signal finds all of it done, or nothing.
        """
        self._check_compatible(other)
        keep, share = None, 1.0
        if decay.is_active:
            share, late = decay.time_factors(float(self.when[0]), float(other.when[0]))
            other = other if late == 1.0 else other.scaled(late, counts=True)
            keep = decay.row_factors(other.labels, other.N)
        return self._slots(other.labels), keep, share, other, self, holder, state

    def __sub__(self, other: Moments) -> Moments:
        """Remove the rows of another sample, as if they had never been seen."""
        return self.subtract(other.copy())

    def subtract(self, other: Moments) -> Moments:
        """Remove the rows of another sample, whose room is taken over if the labels are the "
        "same.
        """
        self._check_compatible(other)
        result = object.__new__(Moments)
        for name in Moments.__slots__:
            if name != "C":
                setattr(result, name, getattr(self, name).copy())
        same = self.labels.tolist() == other.labels.tolist()
        result.C = other.C if same else self.C.copy()
        downdate.downdate(self, result, other)
        return result

    def relative_error(self) -> Vector:
        """Estimated relative error that removals left in each feature's second moment. Shape of the
        result: (d,).
        """
        return downdate.relative_error(self)

    def scaled(self, gamma: float | Vector, counts: bool = False) -> Moments:
        """Fade: weight and scatter of each class times gamma, in [0, 1]; also N if asked."""
        result = self.copy()
        gamma = np.broadcast_to(np.asarray(gamma, dtype=np.float64), self.n.shape)
        if counts:
            result.N *= gamma
        for weights in (result.n, result.weight_remainder, result.min_row_weight):
            weights *= gamma
        result.row_hashes[gamma != 1.0] = downdate.UNTRACKED_HASH
        result.stream *= gamma
        result.C *= gamma[:, None, None]
        result.nonconstant_weight *= gamma[:, None, None]
        return result

    def empty_class(self, k: int) -> Moments:
        """Nothing seen yet of the class in one slot, about the same anchor."""
        return Moments(self.labels[k : k + 1], self.anchor)

    def copy(self) -> Moments:
        """Return an independent copy."""
        result = object.__new__(Moments)
        for name in Moments.__slots__:
            if name != "C":
                setattr(result, name, getattr(self, name).copy())
        result.C = scatters(len(self.n), len(self.anchor))
        result.C[:] = self.C
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in Moments.__slots__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, np.ascontiguousarray(value))

    def __reduce__(self) -> Any:
        return object.__new__, (Moments,), self.__getstate__()

    def _check_compatible(self, other: Moments) -> None:
        if len(self.anchor) != len(other.anchor):
            raise ValueError(
                f"moments of {len(self.anchor)} and {len(other.anchor)} features cannot be combined"
            )

    def _index(self) -> dict[Any, int]:
        return {label: k for k, label in enumerate(self.labels.tolist())}

    def _slots(self, labels: Labels) -> NDArray[np.intp]:
        """Slot of each label, all of which have one."""
        if labels is self.labels:
            return np.arange(len(labels))
        index = self._index()
        return np.array([index[label] for label in labels.tolist()], dtype=np.intp)


def _canonical(X: Any) -> Rows:
    """As CSR, with one entry a place."""
    X = sp.csr_array(X, dtype=np.float64)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _row(X: Rows, i: int) -> Vector:
    row: Vector = X[[i]].toarray()[0] if sp.issparse(X) else X[i].copy()
    return row
