"""Moments: everything that is ever learned, as a value that can be added and subtracted.

Per class k of a labelled sample

    n_k = Σ ω_i        μ_k = Σ ω_i x_i / n_k        C_k = Σ ω_i (x_i − μ_k)(x_i − μ_k)ᵀ

with the sums over the rows of that class and ω the sample weights. Two samples together have

    n = n_a + n_b      μ = μ_a + δ n_b / n          C = C_a + C_b + δδᵀ n_a n_b / n,   δ = μ_b − μ_a

(Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
variances", 1979), and the inverse of that removes one from the other. Means are kept relative
to an anchor, at first the first row seen, so that features far from zero keep their digits; it
moves when the mean of all rows has left it by more than 8 standard deviations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.exact import gather as class_rows
from counterpoise.exact._moments import add, places

EPS = float(np.finfo(np.float64).eps)
GONE = 1e-12  # what rounding may leave of a sum, relative to what it was
REFUSED = 1e-3  # an estimated relative error at which a removal is refused
ROUNDED = 0.25  # what rounding to the nearest leaves on average, in units of eps
WHOLE = 2.0**53  # whole numbers below this add up without rounding
FEW = 3  # rows of a chunk whose means need no anchor of their own
BLOCK = 256  # rows of a scatter that are removed at a time
OLDEST = 600.0  # rows this many half-lives old weigh nothing: 2**-600


class RemovalError(ValueError):
    """Rows cannot be removed: they were never added, or too few digits would be left."""

    def __init__(self, message: str, feature: int | None = None) -> None:
        super().__init__(message)
        self.feature = feature


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
    peak : ndarray of shape (c, d)
        What rounding may have cost the diagonal of C, in units of eps: the largest ever held, and
        what each removal adds to it.
    removed : ndarray of shape (c, 2, d)
        What rounding in removals may have cost the sum of the rows, n times their mean, in units
        of eps; and where the mean was when that began. A sum that is off makes the scatter drift
        as the mean goes away from there. :meth:`lost` makes an estimate of both.
    away : ndarray of shape (c, 2, d)
        Weight of the rows in which a feature is not 0, and not 1. When removals bring it back to
        zero, the feature is known to be constant, which rounding could not tell.
    low, high : ndarray of shape (d,), or (0,)
        Extremes of each feature over all rows; empty unless asked for.

    Examples
    --------
    >>> from counterpoise.exact.moments import Moments
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
        "_store",
        "anchor",
        "away",
        "high",
        "labels",
        "low",
        "mean",
        "n",
        "peak",
        "removed",
        "stream",
    )

    labels: Labels
    n: Vector
    N: Vector
    stream: Vector
    anchor: Vector
    mean: Matrix
    C: NDArray[np.float64]
    peak: Matrix
    removed: NDArray[np.float64]
    away: NDArray[np.float64]
    low: Vector
    high: Vector

    def __init__(self, labels: Labels, anchor: Vector, extremes: bool = False) -> None:
        """Nothing seen yet of these classes, about this anchor."""
        c, d = len(labels), len(anchor)
        self.labels = labels
        self.anchor = anchor.copy()
        self.n, self.N, self.stream = np.zeros(c), np.zeros(c), np.zeros(c)
        self.mean, self.peak, self.away = np.zeros((c, d)), np.zeros((c, d)), np.zeros((c, 2, d))
        self.removed = np.zeros((c, 2, d))
        self._store = self.C = np.zeros((c, d, d))
        self.low = np.full(d if extremes else 0, np.inf)
        self.high = -self.low

    @classmethod
    def of(
        cls,
        X: ArrayLike | sp.csr_array,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        half_life: float | None = None,
        extremes: bool = False,
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
        half_life : float, optional
            A row fades to half its weight while its class receives this much weight.
        extremes : bool, default=False
            Also keep the minimum and the maximum of each feature.

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
                f"{X.shape[0]} rows want as many weights, not {np.shape(sample_weight)}"
            )
        labels, codes = np.unique(np.asarray(y), return_inverse=True)
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return cls.of_groups(X, groups(codes, len(labels)), labels, weight, half_life, extremes)

    @classmethod
    def of_groups(
        cls,
        X: Rows,
        rows_of: list[NDArray[np.intp]],
        labels: Labels,
        weight: Vector | None = None,
        half_life: float | None = None,
        extremes: bool = False,
        anchor: Vector | None = None,
    ) -> Moments:
        """Moments of rows grouped by label, each group in order, about a given anchor."""
        d = X.shape[1]
        if weight is None:
            weight = np.ones(X.shape[0])
        elif not weight.all():
            rows_of = [rows[weight[rows] > 0] for rows in rows_of]
        if anchor is None:
            first = min((rows[0] for rows in rows_of if len(rows)), default=None)
            anchor = np.zeros(d) if first is None else _row(X, first)
        result = cls(labels, anchor, extremes)
        if extremes:
            _extremes(X, np.concatenate([np.empty(0, dtype=np.intp), *rows_of]), result)
        of_class = class_rows.sparse if sp.issparse(X) else class_rows.dense
        block = max(1024, 2**20 // d)  # rows at a time: about 8 MB
        entering = [(rows, weight) for rows in rows_of]
        if half_life is not None:
            entering = [
                _faded(rows, weight, half_life) if len(rows) else (rows, weight) for rows in rows_of
            ]
        for k, (rows, omega) in enumerate(entering):
            for i in range(0, len(rows), block):
                part, slot = (
                    (result, k) if i == 0 else (cls(labels[k : k + 1], anchor, extremes), 0)
                )
                part.n[slot] = part.N[slot] = of_class(
                    X,
                    rows[i : i + block],
                    omega,
                    anchor,
                    part.mean[slot],
                    part.C[slot],
                    part.away[slot],
                )
                part.peak[slot] = np.maximum(part.C[slot].diagonal(), 0.0)
                if i:
                    result += part
                    anchor = result.anchor
        if half_life is not None:
            result.N[:] = [weight[rows].sum() for rows in rows_of]
        result.stream[:] = result.N.sum()
        if half_life is not None:
            _own_clocks(rows_of, weight, half_life, result)
        if X.shape[0] > FEW:
            result._settle(X, entering, block)
        return result

    def _settle(self, X: Rows, entering: list[tuple[NDArray[np.intp], Vector]], block: int) -> None:
        """Move the anchor where the means of these rows have left it, and find the means anew.

        Scatters are about means of their own, so that they know no anchor.
        """
        place = places(self)
        if place is None:
            return
        moved = np.flatnonzero(place != self.anchor)
        self.anchor[moved] = place[moved]
        for k, (rows, omega) in enumerate(entering):
            total = np.zeros(len(moved))
            for i in range(0, len(rows), block):
                mine = rows[i : i + block]
                part = X[mine][:, moved]
                part = part.toarray() if sp.issparse(part) else part
                total += omega[mine] @ (part - place[moved])
            if len(rows):
                self.mean[k, moved] = total / self.n[k]

    def __iadd__(self, other: Moments) -> Moments:
        return self.follow(other)

    def __add__(self, other: Moments) -> Moments:
        return self.copy().follow(other)

    def follow(self, other: Moments, half_life: float | None = None) -> Moments:
        """Let another sample follow this one, in place: addition, after fading by its weight.

        A signal finds the state before or after, never between.
        """
        grown = self.with_labels(other.labels)
        names = () if grown is self else Moments.__slots__
        grown.take_in(other, half_life, self, {name: getattr(grown, name) for name in names})
        return self

    def take_in(
        self, other: Moments, half_life: float | None, holder: Any, state: dict[str, Any]
    ) -> None:
        """Let a sample follow whose labels have slots; its holder gets these attributes with it.

        Parameters
        ----------
        other : Moments
            The sample.
        half_life : float, optional
            Weight of a class that fades its past to half.
        holder : object
            Who gets attributes in the same moment: a signal finds all of it done, or nothing.
        state : dict
            These attributes, by name.
        """
        add(*self.entering(other, half_life, holder, state))

    def entering(
        self, other: Moments, half_life: float | None, holder: Any, state: dict[str, Any]
    ) -> tuple[Any, ...]:
        """What :meth:`take_in` would do, as arguments of ``_moments.add`` and ``add_all``."""
        self._require_alike(other)
        keep = None if half_life is None else 2.0 ** (-other.N / half_life)
        return self._slots(other.labels), keep, other, self, holder, state

    def __sub__(self, other: Moments) -> Moments:
        """Remove the rows of another sample, as if they had never been seen."""
        self._require_alike(other)
        if self.low.size:
            raise RemovalError("extremes cannot be forgotten")
        result, index = self.copy(), self._index()
        shift = other.anchor - self.anchor
        for j, label in enumerate(other.labels.tolist()):
            if other.n[j] == 0.0:
                continue
            k = index.get(label)
            if k is None or self.n[k] == 0.0:
                raise RemovalError(f"cannot forget rows of class {label!r}: none was ever seen")
            result._remove(k, label, other, j, other.mean[j] + shift)
        result.stream[:] = result.N.sum()
        lost = result.lost()
        if lost.max() > REFUSED:
            raise RemovalError("too few digits would be left", int(lost.argmax()))
        return result

    def _remove(self, k: int, label: object, other: Moments, j: int, mean_b: Vector) -> None:
        """Chan's formulae backwards, for class j of other and class k of self."""
        n_a, n_b = self.n[k], other.n[j]
        n, apart = n_a - n_b, mean_b - self.mean[k]
        if n < -GONE * n_a:
            raise RemovalError(
                f"cannot forget a weight of {n_b:g} of class {label!r}: only {n_a:g} was seen"
            )
        C_b = other.C[j].diagonal()
        exact = max(n_a, n_b) < WHOLE and n_a.is_integer() and n_b.is_integer()
        if n <= GONE * n_a:
            # Is that rounding, or are there rows so much lighter than those that go?
            left = self.C[k].diagonal() - C_b
            if n > 0:
                left = left - apart**2 * (n_a * (n_b / n))
            lighter = left > GONE * self.peak[k]
            if not (lighter.any() or (exact and n > 0)):
                state = self.n, self.N, self.mean, self.C, self.peak, self.away, self.removed
                for array in state:
                    array[k] = 0.0
                return
            if n <= 0:
                raise RemovalError("too few digits would be left", int(lighter.argmax()))
        self.n[k], self.N[k] = n, self.N[k] - other.N[j]
        mean_a, C_a = self.mean[k].copy(), self.C[k].diagonal().copy()
        self.mean[k] -= apart * (n_b / n)
        delta = mean_b - self.mean[k]
        for i in range(0, len(delta), BLOCK):  # not all of it at once, which would take its room
            rows = slice(i, i + BLOCK)
            self.C[k, rows] -= other.C[j, rows] + np.outer(delta[rows], delta) * (n * (n_b / n_a))
        C_jj = self.C[k].diagonal()
        impossible = C_jj < -GONE * self.peak[k]
        if impossible.any():
            raise RemovalError(
                "the variance would turn negative: these rows were never seen",
                int(impossible.argmax()),
            )
        # Rounding can turn a variance that vanished into a small negative number.
        constant = C_jj < 0.0
        cost = C_a if exact else C_a + self._spread(k) * (n_a / n)  # that of the count
        self.peak[k] = np.hypot(self.peak[k], cost)
        off, begun = self.removed[k]
        begun[off == 0.0] = (mean_a + self.anchor)[off == 0.0]
        off[:] = np.hypot(off, ROUNDED * n_a * (np.abs(mean_a) + np.abs(delta)))
        for value in (0, 1):
            was = self.away[k, value].copy()
            self.away[k, value] = np.clip(was - other.away[j, value], 0.0, n)
            known = self.away[k, value] <= np.minimum(GONE * was, REFUSED * n)
            known &= was > 0
            self.away[k, value, known] = 0.0
            self.mean[k, known] = value - self.anchor[known]
            self.peak[k, known], self.removed[k, 0, known] = 0.0, 0.0
            constant |= known
        self.C[k, constant, :] = 0.0
        self.C[k][:, constant] = 0.0

    def _spread(self, k: int) -> Vector:
        """Squares that a class brings to what is solved: its scatter, and that of class means."""
        apart = np.abs(self.mean[self.n > 0] - self.mean[k]).max(axis=0)
        spread: Vector = np.maximum(self.C[k].diagonal(), 0.0) + self.n[k] * apart**2
        return spread

    def lost(self) -> Vector:
        """Estimated relative error that removals left in each feature's second moment.

        Rounding leaves about eps times the largest scatter ever held, and what it did to the
        means; what is left of the scatter decides how much that is, with every row or every class
        weighing the same.

        Returns
        -------
        ndarray of shape (d,)
        """
        seen = np.flatnonzero(self.n > 0)
        if not seen.size:
            return np.zeros(len(self.anchor))
        n, mean, peak = self.n[seen, None], self.mean[seen], self.peak[seen]
        if self.removed[:, 0].any():
            off, begun = self.removed[seen, 0], self.removed[seen, 1]
            spread = np.array([self._spread(k) for k in seen.tolist()])
            gone = np.abs((self.anchor - begun) + mean)
            peak = peak + off * (2.0 * gone + np.sqrt(spread / n))
        C_jj = np.einsum("kjj->kj", self.C[seen])
        worst = np.zeros(len(self.anchor))
        for alpha in (np.ones_like(n), 1.0 / n):
            m = (alpha * n * mean).sum(axis=0) / (alpha * n).sum()
            left = (alpha * (C_jj + n * (mean - m) ** 2)).sum(axis=0)
            noise = EPS * (alpha * peak).sum(axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                error = np.where(noise > 0, noise / np.maximum(left, 0.0), 0.0)
            worst = np.maximum(worst, np.where(left < 0, np.inf, error))
        return worst

    def scaled(self, gamma: float | Vector) -> Moments:
        """Fade: the weight and the scatter of each class times gamma, in (0, 1]."""
        result = self.copy()
        gamma = np.broadcast_to(np.asarray(gamma, dtype=np.float64), self.n.shape)
        result.n *= gamma
        result.stream *= gamma
        result.C *= gamma[:, None, None]
        result.away *= gamma[:, None, None]
        return result

    def with_features(self, d: int) -> Moments:
        """Widen to d features, the new ones zero in every row so far: itself if it has as many.

        The scatter is copied at geometrically spaced sizes only; in between the wider value takes
        over the room of this one, which must not be used any more.

        Parameters
        ----------
        d : int
            How many.

        Returns
        -------
        Moments
        """
        more = d - len(self.anchor)
        if more == 0:
            return self
        result = object.__new__(Moments)
        for name in ("labels", "n", "N", "stream", "C", "_store", "low", "high"):
            setattr(result, name, getattr(self, name))
        result.anchor = np.append(self.anchor, np.zeros(more))
        result.mean, result.peak = (np.pad(A, ((0, 0), (0, more))) for A in (self.mean, self.peak))
        result.removed = np.pad(self.removed, ((0, 0), (0, 0), (0, more)))
        away = np.zeros((len(self.n), 2, more))
        away[:, 1] = self.n[:, None]
        result.away = np.concatenate([self.away, away], axis=2)
        if self.low.size:
            edge = np.full(more, 0.0 if self.n.any() else np.inf)
            result.low, result.high = np.append(self.low, edge), np.append(self.high, -edge)
        result._reserve(len(self.labels), d)
        return result

    def placed(self, at: NDArray[np.intp], d: int) -> Moments:
        """Move features to other places of a wider row; the others were zero in every row.

        Parameters
        ----------
        at : ndarray of shape (d_old,)
            The new place of each feature.
        d : int
            Number of places.

        Returns
        -------
        Moments
        """
        anchor = np.zeros(d)
        anchor[at] = self.anchor
        result = Moments(self.labels.copy(), anchor, bool(self.low.size))
        result.n, result.N, result.stream = self.n.copy(), self.N.copy(), self.stream.copy()
        result.mean[:, at], result.peak[:, at] = self.mean, self.peak
        result.away[:, 1] = self.n[:, None]
        result.away[:, :, at], result.removed[:, :, at] = self.away, self.removed
        result.C[:, at[:, None], at] = self.C
        if self.low.size and self.n.any():
            result.low[:], result.high[:] = 0.0, 0.0
            result.low[at], result.high[at] = self.low, self.high
        return result

    def only(self, at: NDArray[np.intp]) -> Moments:
        """Moments of some of the features.

        Parameters
        ----------
        at : ndarray of int
            Their places, in order.

        Returns
        -------
        Moments
        """
        result = Moments(self.labels.copy(), self.anchor[at], bool(self.low.size))
        d = len(self.anchor)
        result.C[:] = self.C[:, at[:, None], at]
        if self.low.size:
            result.low, result.high = self.low[at], self.high[at]
        for name in Moments.__slots__:
            if name in ("labels", "anchor", "low", "high", "C", "_store"):
                continue
            value = getattr(self, name)  # of each class: a number, or one a feature, those last
            first = value.shape[-1] - d
            last = value if value.ndim == 1 else value[..., np.r_[:first, first + at]]
            setattr(result, name, np.array(last, order="C"))
        return result

    def copy(self) -> Moments:
        """Return an independent copy."""
        result = object.__new__(Moments)
        for name in Moments.__slots__:
            setattr(result, name, getattr(self, name).copy())
        result._store = result.C
        return result

    def with_labels(self, labels: Labels) -> Moments:
        """Make slots for these labels: itself if it has them, else an equal value with more slots.

        That may take over the room of this one, which must then not be used any more.

        Parameters
        ----------
        labels : ndarray
            The labels.

        Returns
        -------
        Moments
        """
        if labels is self.labels:
            return self
        index = self._index()
        new = np.array([label not in index for label in labels.tolist()], dtype=bool)
        if not new.any():
            return self
        more, result = int(new.sum()), object.__new__(Moments)
        for name in ("anchor", "low", "high", "C", "_store"):
            setattr(result, name, getattr(self, name))
        for name in ("n", "N", "mean", "peak", "away", "removed"):
            old = getattr(self, name)
            setattr(result, name, np.concatenate([old, np.zeros((more, *old.shape[1:]))]))
        result.stream = np.append(self.stream, np.full(more, self.N.sum()))
        fresh = labels[new]
        result.labels = joined(self.labels, fresh)
        result._reserve(len(result.labels), len(self.anchor))
        return result

    def without_empty(self) -> Moments:
        """Slots of classes of which nothing is left are gone: itself if there is none."""
        seen = self.n > 0
        if seen.all():
            return self
        result = Moments(self.labels[seen], self.anchor, bool(self.low.size))
        for name in ("n", "N", "stream", "mean", "C", "peak", "away", "removed"):
            setattr(result, name, getattr(self, name)[seen])
        result.low, result.high, result._store = self.low.copy(), self.high.copy(), result.C
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in Moments.__slots__ if name != "_store"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, np.ascontiguousarray(value))
        self._store = self.C

    def __reduce__(self) -> Any:
        return object.__new__, (Moments,), self.__getstate__()

    def _require_alike(self, other: Moments) -> None:
        if len(self.anchor) != len(other.anchor) or self.low.size != other.low.size:
            raise ValueError(
                f"moments of {len(self.anchor)} and {len(other.anchor)} features, or with and "
                "without extremes, cannot be combined"
            )

    def _index(self) -> dict[Any, int]:
        return {label: k for k, label in enumerate(self.labels.tolist())}

    def _slots(self, labels: Labels) -> NDArray[np.intp]:
        """Slot of each label, all of which have one."""
        if labels is self.labels:
            return np.arange(len(labels))
        index = self._index()
        return np.array([index[label] for label in labels.tolist()], dtype=np.intp)

    def _reserve(self, c: int, d: int) -> None:
        """Room for c classes and d features; copied only at geometrically spaced sizes."""
        c_room, d_room = self._store.shape[:2]
        if c > c_room or d > d_room:
            c_room = c if c <= c_room else max(c, c_room + c_room // 2)
            d_room = d if d <= d_room else max(d, d_room + d_room // 2)
            store = np.zeros((c_room, d_room, d_room))
            c_old, d_old = self.C.shape[:2]
            store[:c_old, :d_old, :d_old] = self.C
            self._store = store
        self.C = self._store[:c, :d, :d]


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


def _extremes(X: Rows, rows: NDArray[np.intp], result: Moments) -> None:
    if len(rows):
        X = X if len(rows) == X.shape[0] else X[rows]
        low, high = X.min(axis=0), X.max(axis=0)
        if sp.issparse(X):
            low, high = low.toarray().ravel(), high.toarray().ravel()
        result.low[:], result.high[:] = low, high


def _faded(
    rows: NDArray[np.intp], weight: Vector, half_life: float
) -> tuple[NDArray[np.intp], Vector]:
    """Rows of one class that still weigh something, and the weights of all rows after fading.

    With γ = 2^(−1/half_life) a row enters with (1 − γ^ω)/(1 − γ) and then fades by γ for each
    unit of weight that its class receives after it.
    """
    later = np.cumsum(weight[rows][::-1])[::-1]
    age = np.append(later[1:], 0.0) / half_life
    rows, age = rows[age <= OLDEST], age[age <= OLDEST]
    rate = -np.log(2.0) / half_life
    faded = np.zeros_like(weight)
    faded[rows] = np.expm1(rate * weight[rows]) / np.expm1(rate) * 2.0**-age
    return rows, faded


def _own_clocks(
    rows_of: list[NDArray[np.intp]], weight: Vector, half_life: float, result: Moments
) -> None:
    """Weight of the stream of each class: rows of all classes, faded by its own rows after them."""
    everything = np.zeros(len(weight))
    for rows in rows_of:
        everything[rows] = weight[rows]
    so_far = np.append(0.0, np.cumsum(everything))
    for k, rows in enumerate(rows_of):
        if not len(rows):
            continue
        own = weight[rows]
        later = np.cumsum(own[::-1])[::-1]  # of this class, from each of its rows on
        others = so_far[rows] - np.append(0.0, so_far[rows[:-1] + 1])  # since the one before
        faded = np.maximum(others, 0.0) @ 2.0 ** (-later / half_life)
        result.stream[k] = faded + result.n[k] + (so_far[-1] - so_far[rows[-1] + 1])


def joined(one: Labels, two: Labels) -> Labels:
    """Labels of one, then those of two, as what they are: no two become the same by rounding.

    NumPy makes fractions of whole numbers with and without a sign, and some of them then collide.

    Parameters
    ----------
    one, two : ndarray
        Labels.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> joined(np.array([2**62]), np.array([2**62 + 1], dtype=np.uint64)).tolist()
    [4611686018427387904, 4611686018427387905]
    """
    if not len(one) or not len(two):
        return two if len(two) else one
    kinds = {one.dtype.kind, two.dtype.kind}
    if kinds == {"i", "u"}:
        signed = all(int(a.max()) < 2**63 for a in (one, two))
        if signed or min(int(one.min()), int(two.min())) >= 0:
            kind = np.int64 if signed else np.uint64
            return np.concatenate([one.astype(kind), two.astype(kind)])
    result: Labels = np.concatenate([one, two])
    if result.dtype.kind == "f" and kinds != {"f"}:
        values = one.tolist() + two.tolist()
        lost = [value for value, now in zip(values, result.tolist(), strict=True) if value != now]
        if lost:
            raise ValueError(
                f"label {lost[0]} cannot stand beside the others, {result.dtype} numbers: it would "
                "be rounded; use text for labels"
            )
    return result


def groups(codes: NDArray[np.intp], c: int) -> list[NDArray[np.intp]]:
    """Rows of each code from 0 to c − 1, in order.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        A number below c for each row.
    c : int
        How many groups.

    Returns
    -------
    list of c ndarrays
    """
    if c <= 16:
        return [np.flatnonzero(codes == k) for k in range(c)]
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes, minlength=c))[:-1])
