"""Fitted maps: rows are scaled by fixed numbers, then mapped.

A fitted map is a function of the row alone, so every guarantee for features also holds for mapped
features: order, chunks, merging, unlearning. Until enough rows for the fit have arrived, they are
kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoise.arrays import Flags, Labels, Matrix, Value, Vector
from counterpoise.feature_maps.base import Map, MapUnion
from counterpoise.feature_maps.kernel_maps import Landmarks, RandomFourier
from counterpoise.feature_maps.piecewise import Hinges, Ranks, Steps
from counterpoise.feature_maps.polynomial import Interactions, Polynomial, ReducedPolynomial

Kinds = Mapping[str, Callable[..., Map]]  # maps by the names of their families
KINDS: Kinds = {
    "poly": Polynomial,
    "rm": ReducedPolynomial,
    "interactions": Interactions,
    "rff": RandomFourier,
    "hinges": Hinges,
    "ranks": Ranks,
    "landmarks": Landmarks,
    "steps": Steps,
    "+": MapUnion,
}
MAP_NAMES = (
    "poly2 (or another order), interactions, rm3, hinges, ranks, steps:300, landmarks:256, "
    "rff:400, rff:400,width=0.5, several joined by a plus"
)
PYTHON_MAPS = "a map of counterpoise.feature_maps"


def map_of(given: Any, kinds: Kinds = KINDS) -> Map:
    """Return a map by its name, of these kinds, or the map itself, checked."""
    if isinstance(given, Map):
        given.check()
        again = _find_map(given.text, KINDS)
        ours = type(given).__module__.rpartition(".")[0] == __package__
        if not (again and ours and isinstance(given, type(again)) and again.text == given.text):
            raise ValueError(
                f"feature_map={given!r} has no name for a model file: orders have at most 3 "
                "digits, seeds at most 18, and only maps of counterpoise.feature_maps have names; "
                "use it as a step of a pipeline instead"
            )
        return given
    found = _find_map(given, kinds) if isinstance(given, str) else None
    if found is None:
        raise ValueError(
            f"feature_map={given!r} is not a feature map; use {MAP_NAMES}, or {PYTHON_MAPS}"
        )
    found.check()
    return found


def is_map_name(text: str) -> bool:
    """Return whether a text is the name of a map."""
    return _find_map(text, KINDS) is not None


def _find_map(text: str, kinds: Kinds) -> Map | None:
    """Return the map of this name, one or several joined by a plus; None if there is none."""
    parts = [found for part in text.split("+") if (found := _read(part, kinds)) is not None]
    if len(parts) <= text.count("+"):
        return None
    return parts[0] if len(parts) == 1 else kinds["+"](parts)


def _read(text: str, kinds: Kinds) -> Map | None:
    if text == "ranks":
        return kinds[text]()
    counted = re.fullmatch(r"(poly(?=\d)|rm(?=\d)|interactions|hinges)(\d{0,3})", text)
    if counted:
        usual = 3 if counted[1] == "hinges" else 2
        return kinds[counted[1]](int(counted[2] or usual))
    number = r"\d+(?:\.\d*)?(?:e-?\d+)?"
    width = rf"(?:,width=({number}(?:/{number})*))?"
    marks = re.fullmatch(rf"landmarks(?::(\d{{1,9}}))?{width}", text)
    if marks:
        return kinds["landmarks"](int(marks[1] or 256), width=_widths(marks[2]))
    steps = re.fullmatch(r"steps(?::(\d{1,9}))?", text)
    if steps:
        return kinds["steps"](int(steps[1] or 300))
    fourier = re.fullmatch(rf"rff(?::(\d{{1,9}}))?{width}(?:,seed=(\d{{1,18}}))?", text)
    if not fourier:
        return None
    terms, seed = int(fourier[1] or 400), int(fourier[3] or 0)
    return kinds["rff"](terms, width=_widths(fourier[2]), seed=seed)


def _widths(text: str | None) -> float | tuple[float, ...]:
    widths = tuple(map(float, (text or "1").split("/")))
    return widths if len(widths) > 1 else widths[0]


CLIP_DEVIATIONS = 10.0  # standard deviations at which values are clipped
SLICE = 2048  # rows mapped at a time
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class FittedMap(Value):
    """Scaling and map, as a function of the row.

    A feature is replaced by (x − mean)/deviation, clipped at ±10, and then the row is mapped. A
    feature that appears later was 0 in all earlier rows. It gets mean 0 and deviation 1, so the
    images of those rows do not change.

    Attributes
    ----------
    map : Map
        The map.
    mean, deviation : ndarray of shape (l,)
        Of the features when the map was fitted.
    drawn : ndarray of shape (q, l)
        Random numbers of the map, or values from the rows that fitted it.
    first : int
        Number of features when the map was fitted.
    missing : tuple of (int, int, bool)
        Features that may be missing and are then mapped as their mean: feature, indicator, and
        whether the indicator is 1 where the feature is present.

    Examples
    --------
    >>> from counterpoise.feature_maps import Polynomial, make_fitted_map
    >>> half = make_fitted_map(Polynomial(2), mean=[10.0], deviation=[2.0])
    >>> half.transform([[14.0]]).tolist()
    [[2.0, 4.0]]
    """

    map: Map
    mean: Vector
    deviation: Vector
    drawn: Matrix
    first: int
    missing: tuple[tuple[int, int, bool], ...] = ()

    def transform(self, X: ArrayLike) -> Matrix:
        """Map rows.

        Parameters
        ----------
        X : array-like of shape (n, l)
            The rows, finite.

        Returns
        -------
        ndarray of shape (n, d)
        """
        return self.map.apply(self.scale(X), self.drawn)

    def scale(self, X: ArrayLike) -> Matrix:
        """Return rows as the map takes them, standardized and clipped; a new array."""
        rows = np.asarray(X, dtype=np.float64)
        Z: Matrix = np.subtract(rows, self.mean, order="C")  # rows of frames may be columns
        for at, by, present in self.missing:
            Z[(rows[:, by] != 0.0) != present, at] = 0.0
        with np.errstate(over="ignore"):  # infinite values are clipped like the others
            Z /= self.deviation
        np.maximum(Z, -CLIP_DEVIATIONS, out=Z)  # as np.clip would, without its calls
        np.minimum(Z, CLIP_DEVIATIONS, out=Z)
        return Z

    def is_clipped(self, X: ArrayLike) -> Flags:
        """Return whether each row (n, l) has a clipped value: 10 deviations from the mean."""
        rows = np.asarray(X, dtype=np.float64)
        low, high = self._limits
        far: Flags = (rows <= low) | (rows >= high)
        for at, by, present in self.missing:
            far[(rows[:, by] != 0.0) != present, at] = False
        some: Flags = np.logical_or.reduce(far, axis=1)  # as any would, without its calls
        return some

    @cached_property
    def _limits(self) -> tuple[Vector, Vector]:
        reach = CLIP_DEVIATIONS * self.deviation
        return self.mean - reach, self.mean + reach

    @property
    def size(self) -> int:
        """Number of terms, d."""
        return self.map.count(len(self.mean))

    def with_features(
        self, at: NDArray[np.intp], names: Sequence[str]
    ) -> tuple[FittedMap, NDArray[np.intp]]:
        """Return the map for more features, named ``names``, and the new indices of its d terms.

        Feature j becomes feature ``at[j]``. The others are new.
        """
        inputs = len(names)
        mean, deviation = np.zeros(inputs), np.ones(inputs)
        drawn = np.empty((len(self.drawn), inputs))
        mean[at], deviation[at], drawn[:, at] = self.mean, self.deviation, self.drawn
        for j in np.setdiff1d(np.arange(inputs), at):
            drawn[:, [j]] = self.map.params_for_new_feature(names[j], self.first)
        wider = replace(self, mean=mean, deviation=deviation, drawn=drawn, missing=())
        return wider, self.map.places(at, inputs)

    def with_missing(self, at: ArrayLike, by: ArrayLike, present: ArrayLike) -> FittedMap:
        """Return the map for rows in which features ``at`` may be missing, as ``by`` indicates."""
        places = np.asarray(at, dtype=int).tolist(), np.asarray(by, dtype=int).tolist()
        seen = np.asarray(present, dtype=bool).tolist()
        return replace(self, missing=tuple(zip(*places, seen, strict=True)))

    @property
    def late(self) -> Flags:
        """Features (l,) that appeared after the map was fitted and can be removed again."""
        came = np.arange(len(self.mean)) >= self.first
        late: Flags = came & (self.mean == 0.0) & (self.deviation == 1.0)
        return late

    def select_features(self, at: NDArray[np.intp]) -> tuple[FittedMap, NDArray[np.intp]]:
        """Return the map for the features ``at``, and the former indices of its d terms.

        Only late features can be left out.
        """
        mean, deviation, drawn = self.mean[at], self.deviation[at], self.drawn[:, at].copy()
        narrower = replace(self, mean=mean, deviation=deviation, drawn=drawn, missing=())
        return narrower, self.map.places(at, len(self.mean))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FittedMap) or self.map.text != other.map.text:
            return False
        arrays = [(self.mean, other.mean), (self.deviation, other.deviation)]
        arrays.append((self.drawn, other.drawn))
        return self.first == other.first and all(np.array_equal(*pair) for pair in arrays)

    def __hash__(self) -> int:
        return hash((self.map.text, self.mean.tobytes(), self.deviation.tobytes()))

    def __repr__(self) -> str:
        return f"<{self.map.text} of {len(self.mean)} features, scaled>"


def scale_row(
    row: Vector, maps: Sequence[FittedMap], mean: Matrix, deviation: Matrix
) -> NDArray[np.float64]:
    """Return a row (l,) as each of m maps takes it, of shape (m, 1, l), as :meth:`scale` does.

    ``mean`` and ``deviation`` (m, l) are those of the maps.
    """
    Z = row - mean
    for i, fixed in enumerate(maps):
        for at, by, present in fixed.missing:
            if (row[by] != 0.0) != present:
                Z[i, at] = 0.0
    with np.errstate(over="ignore"):
        Z /= deviation
    np.maximum(Z, -CLIP_DEVIATIONS, out=Z)
    np.minimum(Z, CLIP_DEVIATIONS, out=Z)
    return Z[:, None]


@dataclass(frozen=True, eq=False)
class Warmup:
    """The rows by which a map will be fitted."""

    X: Matrix  # (n, l) the rows
    y: Labels  # (n,) their labels
    weight: Vector  # (n,) their weights, positive
    t: Vector | None = None  # (n,) their times, where rows decay by time

    def append(self, X: Matrix, y: Labels, weight: Vector, t: Vector | None = None) -> Warmup:
        """Return these rows and more; features that are new in the later ones were 0 before."""
        before = np.zeros((len(self.X), X.shape[1]))
        before[:, : self.X.shape[1]] = self.X
        return Warmup(
            np.concatenate([before, X]),
            np.concatenate([self.y, y]),
            np.concatenate([self.weight, weight]),
            None if self.t is None or t is None else np.concatenate([self.t, t]),
        )

    def fit_map(self, map: Map) -> FittedMap:  # noqa: A002
        """Return the map fitted by the first of these rows, as many as it needs."""
        n = map.rows
        return fit_map(map, self.X[:n], self.weight[:n], self.y[:n])


def make_fitted_map(map: Map | str, mean: ArrayLike, deviation: ArrayLike) -> FittedMap:  # noqa: A002
    """Fix a map with a given scaling.

    Parameters
    ----------
    map : Map or str
        The map.
    mean, deviation : array-like of shape (l,)
        Subtracted from each feature, and its divisor.

    Returns
    -------
    FittedMap

    Examples
    --------
    >>> from counterpoise.feature_maps import make_fitted_map
    >>> half = make_fitted_map("poly2", mean=[10.0], deviation=[2.0])
    >>> half
    <poly2 of 1 features, scaled>
    >>> half.transform([[14.0], [8.0]]).tolist()
    [[2.0, 4.0], [-1.0, 1.0]]
    """
    text = map_of(map).text
    m, s = (np.array(v, dtype=np.float64, ndmin=1) for v in (mean, deviation))
    if m.ndim != 1 or m.shape != s.shape or not len(m):
        raise ValueError(f"mean and deviation must have shape (l,), got {m.shape} and {s.shape}")
    if not (np.isfinite(m).all() and np.isfinite(s).all() and (s > 0).all()):
        raise ValueError("mean and deviation must be finite, and the deviation positive")
    return FittedMap(map_of(text), m, s, _draw_numbers(text, len(m)), len(m))


@lru_cache(maxsize=8)
def _draw_numbers(text: str, inputs: int) -> Matrix:
    """Return the random numbers of a map, cached because a warm-up needs them many times."""
    drawn = map_of(text).draw(inputs)
    drawn.flags.writeable = False
    return drawn


def fit_map(
    map: Map | str,  # noqa: A002
    X: ArrayLike,
    weight: ArrayLike | None = None,
    y: ArrayLike | None = None,
) -> FittedMap:
    """Fix a map with the mean and the standard deviation of sample rows, and what it finds there.

    Parameters
    ----------
    map : Map or str
        The map.
    X : array-like of shape (n, l)
        The rows, finite. A feature that does not vary is divided by 1.
    weight : array-like of shape (n,), optional
        Their weights.
    y : array-like of shape (n,), optional
        Their labels: landmarks take turns among the classes.

    Returns
    -------
    FittedMap

    Examples
    --------
    >>> from counterpoise.feature_maps import fit_map
    >>> fit_map("poly2", [[1.0], [3.0]]).mean.tolist()
    [2.0]
    """
    rows = np.array(X, dtype=np.float64, ndmin=2)
    w = np.ones(len(rows)) if weight is None else np.asarray(weight, dtype=np.float64)
    w = w / w.sum()
    about = rows - rows[0]  # far from zero nothing large is squared
    m = w @ about
    variance = w @ (about - m) ** 2
    constant = variance <= (8.0 * EPS * np.abs(rows[0] + m)) ** 2
    one = make_fitted_map(map, rows[0] + m, np.sqrt(np.where(constant, 1.0, variance)))
    labels = None if y is None else np.asarray(y)
    drawn = one.map.draw_from(one.drawn, one.scale(rows), labels, w)
    return one if drawn is one.drawn else replace(one, drawn=drawn)


def parse_feature_map(feature_map: Any) -> Map | None:
    """Return the map of ``feature_map``, None for none; raise if it has no meaning."""
    if feature_map is None:
        return None
    return feature_map.map if isinstance(feature_map, FittedMap) else map_of(feature_map)


def feature_map_name(feature_map: Any) -> str | None:
    """Return the name of ``feature_map`` in a file; None for none."""
    found = parse_feature_map(feature_map)
    return None if found is None else found.text
