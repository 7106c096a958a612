"""Moments: weight, mean and scatter of each class, as a value that can be added and subtracted.

docs/math.md has the formulas (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm
for computing sample variances", 1979), and ``downdate.py`` their inverse. Means are relative to an
anchor, at first the first row. It moves if the mean of all rows is more than 8 standard deviations
away.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.lib.stride_tricks import as_strided
from numpy.typing import ArrayLike, NDArray

from counterpoise.arrays import Labels, Matrix, Rows, Vector, groups, scatters, to_dense
from counterpoise.moments import accumulate as class_rows
from counterpoise.moments import downdate
from counterpoise.moments._moments import MIN_DECAYED_CLASS_WEIGHT, add
from counterpoise.moments._moments import decay as reduce_weights
from counterpoise.moments._sparse import add_products
from counterpoise.moments.categories import CategoryMoments
from counterpoise.moments.decay import NO_DECAY, NO_TIMESTAMP, Decay, HalfLife

EPS = downdate.EPS
MAX_PENDING_CHUNKS, MAX_PENDING_BYTES = 16, 1 << 26
PendingProducts = tuple[int, class_rows.Products, Vector]  # class, and distance of its means
MIN_DECAYED_WEIGHT = 2.0**-900  # of a row that decayed by time: one with less is ignored


class Moments:
    """Centered second moments of each class of a labeled sample.

    Make one with :meth:`of`; then ``a + b`` are the moments of both samples together, and ``a - b``
    those of a without the rows of b. ``a += b`` works in place.

    Attributes
    ----------
    labels : ndarray of shape (c,)
        Label of each slot, in order of arrival. A slot with ``n == 0`` was never seen.
    n : ndarray of shape (c,)
        Weight of each class, decayed if rows decay.
    weight_remainder : ndarray of shape (c,)
        Rounding error of n: the true sum of the weights minus n.
    min_row_weight : ndarray of shape (c,)
        Smallest weight of a row of each class.
    N : ndarray of shape (c,)
        True weight of each class, which decays by time only.
    stream : ndarray of shape (c,)
        Weight of the rows of all classes, decayed like n by the later rows of this class:
        n / stream is the frequency of the class in its memory.
    anchor : ndarray of shape (d,)
        Origin of the means.
    mean : ndarray of shape (c, d)
        Mean of each class minus the anchor.
    C : ndarray of shape (c, d, d)
        Scatter of each class about its own mean.
    max_scatter : ndarray of shape (c, d)
        Rounding error of the diagonal of C, in units of eps: its largest value so far, and the
        error of each removal.
    removed : ndarray of shape (c, 2, d)
        Rounding error of removals in the sum of the rows, n times their mean, in units of eps; and
        the mean when that began. A wrong sum makes the scatter drift as the mean moves.
    nonconstant_weight : ndarray of shape (c, 2, d)
        Weight of the rows in which a feature is not 0, and not 1. Where removals bring it back to
        zero, the feature is constant.
    row_hashes : ndarray of uint64 of shape (c, 2, 1 + d)
        Sums of the weights, and of the bits of each feature as they are and folded, modulo 2⁶⁴.
        They have no rounding error, and show that all rows left have the same value.
    when : ndarray of shape (1,)
        Latest time in seconds, as of which everything is weighted; −∞ if rows do not decay by time.
    clipped : ndarray of shape (1,)
        Weight, not decayed, of the rows of which a map clipped a value; 0 without a map.
    categories : CategoryMoments or None
        Moments of columns with many categories; None without such columns.

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

    labels: Labels
    n: Vector
    weight_remainder: Vector
    min_row_weight: Vector
    N: Vector
    stream: Vector
    anchor: Vector
    mean: Matrix
    max_scatter: Matrix
    removed: NDArray[np.float64]
    nonconstant_weight: NDArray[np.float64]
    row_hashes: NDArray[np.uint64]
    when: Vector
    clipped: Vector

    __slots__ = (*__annotations__, "categories", "pending", "unfinished_C")
    ARRAYS = tuple(sorted((*__annotations__, "C")))
    VALUES = (*ARRAYS, "categories")
    categories: CategoryMoments | None
    pending: list[PendingProducts]  # of CSR rows, which are in no scatter yet
    unfinished_C: NDArray[np.float64]  # the scatters without them, except for the diagonals

    @property
    def C(self) -> NDArray[np.float64]:
        """Scatters, with all products that were pending."""
        if self.pending:
            add_products(self.pending, self.unfinished_C)
        return self.unfinished_C

    @C.setter
    def C(self, scatters: NDArray[np.float64]) -> None:
        self.unfinished_C, self.pending = scatters, []

    def __init__(self, labels: Labels, anchor: Vector) -> None:
        """Moments of no rows of these classes, about this anchor."""
        c, d = len(labels), len(anchor)
        self.labels = labels
        self.anchor = anchor.copy()
        self.n, self.N, self.stream, self.weight_remainder, self.min_row_weight = np.zeros((5, c))
        self.mean, self.max_scatter = np.zeros((2, c, d))
        self.nonconstant_weight, self.removed = np.zeros((2, c, 2, d))
        self.row_hashes = np.zeros((c, 2, 1 + d), dtype=np.uint64)
        self.unfinished_C, self.pending = scatters(c, d), []
        self.when, self.clipped = np.array([NO_TIMESTAMP]), np.zeros(1)
        self.categories = None

    @classmethod
    def of(
        cls,
        X: ArrayLike | sp.csr_array,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        half_life: HalfLife = None,
        t: ArrayLike | None = None,
    ) -> Moments:
        """Return the moments of a labeled sample.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            The rows, finite.
        y : array-like of shape (n,)
            Their labels.
        sample_weight : array-like of shape (n,), optional
            Weight of each row, not negative; a row of weight 0 changes nothing.
        half_life : float, dict or str, optional
            A row decays to half its weight while its class receives this much weight, or in this
            time.
        t : array-like of shape (n,), optional
            The time of each row in seconds, where rows decay by time.

        Returns
        -------
        Moments
        """
        if sp.issparse(X):
            X = sp.csr_array(X, dtype=np.float64)
            if not X.has_canonical_format:  # sum duplicates, but not in place
                X = X.copy()
                X.sum_duplicates()
        else:
            X = np.ascontiguousarray(X, dtype=np.float64)
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
        index: NDArray[np.intp] | None = None,
    ) -> Moments:
        """Return the moments of rows grouped by label, each group in order, about an anchor.

        ``index`` (n, B) are the categories of the rows in columns with many of them, −1 for none.
        """
        d = X.shape[1]
        if weight is not None and not weight.all():
            rows_of = [rows[weight[rows] > 0] for rows in rows_of]
        if anchor is None:
            first = min((rows[0] for rows in rows_of if len(rows)), default=None)
            row: Rows = np.zeros(d) if first is None else X[[first]]
            anchor = to_dense(row).reshape(d)
        result = cls(labels, anchor)
        if decay.is_timed and t is not None:
            result.when[0], weight = decay.weigh(t, weight)
            rows_of = [rows[weight[rows] >= MIN_DECAYED_WEIGHT] for rows in rows_of]
        half_lives = decay.rows_per_class(labels) if decay.is_active else None
        entering = class_rows.fill(
            result, X, rows_of, weight, half_lives, lasting=not decay.is_active
        )
        if index is not None:
            result.categories = CategoryMoments.of(X, index, entering, result.anchor)
        return result

    def __iadd__(self, other: Moments) -> Moments:
        return self.append(other)

    def __add__(self, other: Moments) -> Moments:
        return self.copy().append(other)

    def append(self, other: Moments, decay: Decay = NO_DECAY) -> Moments:
        """Append another sample in place: decay by its weight, then add.

        A signal finds the state before or after, never between.
        """
        from counterpoise.moments.resize import with_labels

        self._check_compatible(other)
        grown = with_labels(self, other.labels)
        names = () if grown is self else Moments.VALUES
        after = {name: getattr(grown, name) for name in names}
        add(*grown.add_arguments(other, decay, self, after))
        return self

    def add_arguments(
        self, other: Moments, decay: Decay, holder: Any, state: dict[str, Any]
    ) -> tuple[Any, ...]:
        """Return the arguments by which ``_moments.add`` or ``add_all`` appends a sample.

        Its labels have slots. The holder gets the attributes in ``state`` in the same step.
        """
        if isinstance(other, SparseChunk) and self._has_many_pending:
            assert self.C is not None  # one pass over the scatters takes longer than the products
        keep, share = None, 1.0
        if decay.is_active:
            share, late = decay.time_factors(float(self.when[0]), float(other.when[0]))
            if late != 1.0:
                other = other.copy()
                if other.categories is not None:
                    other.categories = other.categories.scale(class_factors(other, late))
                reduce_weights(other, late)
            keep = decay.row_factors(other.labels, other.N)
        slot = self._slots(other.labels)
        if other.categories is None:
            return slot, keep, share, other, self, holder, state
        factor = class_factors(self, share)
        if keep is not None:
            factor[slot[other.n > 0]] *= keep[other.n > 0]
        mine = self.categories
        if mine is None:
            columns = len(other.categories.columns)
            mine = CategoryMoments.empty(len(self.n), self.anchor, columns)
        change = mine.prepare_append(other.categories, slot, self.anchor, factor)
        if "categories" in state:  # the holder gets those with the sample
            state = {**state, "categories": change[0]}
        return slot, keep, share, other, self, holder, state, change

    @property
    def _has_many_pending(self) -> bool:
        """True if the products that are pending should be added to the scatters."""
        size = sum(part.size + delta.nbytes for _, part, delta in self.pending)
        return len(self.pending) >= MAX_PENDING_CHUNKS * len(self.n) or size >= MAX_PENDING_BYTES

    def __sub__(self, other: Moments) -> Moments:
        """Return the moments without the rows of another sample."""
        return self.subtract(other.copy())

    def subtract(self, other: Moments) -> Moments:
        """Return ``self - other``; the memory of the other is reused if the labels are the same."""
        self._check_compatible(other)
        same = self.labels.tolist() == other.labels.tolist()
        result = self._copy_with(other.C if same else self.C.copy())
        downdate.downdate(self, result, other)
        if self.categories is not None and other.categories is not None:
            seen = np.flatnonzero(other.n > 0)
            slots = dict(zip(seen.tolist(), self._slots(other.labels[seen]).tolist(), strict=True))
            offset = self.anchor - self.categories.origin
            spread = np.sqrt(self.max_scatter / np.maximum(self.n, 1e-300)[:, None])
            size = np.abs(self.mean + offset) + spread + EPS * np.abs(self.anchor)
            result.categories = self.categories.subtract(
                other.categories, slots, self.min_row_weight, size
            )
        return result

    def relative_error(self) -> Vector:
        """Return the estimated relative error (d,) that removals left in second moments."""
        return downdate.relative_error(self)

    def empty_class(self, k: int) -> Moments:
        """Return the moments of no rows of the class in a slot, about the same anchor."""
        return Moments(self.labels[k : k + 1], self.anchor)

    def copy(self) -> Moments:
        """Return an independent copy."""
        C = scatters(len(self.n), len(self.anchor))
        C[:] = self.C
        result = self._copy_with(C)
        if self.categories is not None:
            result.categories = self.categories.copy()
        return result

    def _copy_with(self, C: NDArray[np.float64]) -> Moments:
        """Return a copy with other scatters, which shares the moments of categories."""
        result = object.__new__(Moments)
        for name in Moments.ARRAYS:
            setattr(result, name, C if name == "C" else getattr(self, name).copy())
        result.categories = self.categories
        return result

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        """Return the attributes; pickle protocols 0 and 1 do not read slots by themselves."""
        return None, {name: getattr(self, name) for name in Moments.VALUES}

    def _check_compatible(self, other: Moments) -> None:
        if len(self.anchor) != len(other.anchor):
            raise ValueError(
                f"moments of {len(self.anchor)} and {len(other.anchor)} features cannot be combined"
            )

    def _slots(self, labels: Labels) -> NDArray[np.intp]:
        """Return the slot of each label, all of which have one."""
        if labels is self.labels:
            return np.arange(len(labels))
        index = {label: k for k, label in enumerate(self.labels.tolist())}
        return np.array([index[label] for label in labels.tolist()], dtype=np.intp)


def class_factors(moments: Moments, share: float) -> Vector:
    """Return the factor of each class (c,) that decays by ``share``: 0 if it is then empty."""
    return np.where(moments.n * share >= MIN_DECAYED_CLASS_WEIGHT, share, float(share == 1.0))


class SparseChunk(Moments):
    """Moments of CSR rows, to be added: the rows are parts, and C has its diagonals alone."""

    __slots__ = ("diagonal", "parts", "squares", "u")

    def __init__(self, labels: Labels, anchor: Vector) -> None:
        super().__init__(labels, anchor)
        (c, d), size = self.mean.shape, self.mean.itemsize
        self.diagonal, self.squares, self.u = np.zeros((3, c, d))
        self.parts = [None] * c
        self.C = as_strided(self.diagonal, (c, d, d), (d * size, 0, size))

    @classmethod
    def of_rows(
        cls, X: Any, rows_of: list[NDArray[np.intp]], known: Moments, weight: Vector | None
    ) -> SparseChunk:
        """Return the moments of CSR rows, grouped by the labels of moments that will get them."""
        if weight is not None and not weight.all():
            rows_of = [rows[weight[rows] > 0] for rows in rows_of]
        result = cls(known.labels, known.anchor)
        class_rows.fill_parts(result, X, rows_of, weight)
        return result
