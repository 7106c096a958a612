"""Approximations of the Gaussian kernel: random Fourier features, and landmarks.

    φ_i(x) = exp(−‖x − x_i‖² / (2 l σ²))

The landmarks x_i are the first rows of each class in turn, so that a rare class has as many of them
as a frequent one, as long as it has rows. What they span is Nyström's approximation of the kernel.
They are rows of the stream and stay in the model: unlearning does not remove them. Random Fourier
features store no rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from numbers import Real

import numpy as np
import scipy.special as special
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.feature_maps._pairwise import nearness, products
from counterpoise.feature_maps.base import WARMUP, Map, check_integer, nodes, normal

NODES = 24  # by which short ways are integrated
UNUSED_LANDMARK = 1e6  # value of a landmark without a row, far from all rows


class KernelMap(Map):
    """A map of a fixed number of terms, which share the widths of a kernel."""

    terms: int
    width: float | Sequence[float]

    def _widths(self) -> tuple[float, ...]:
        return tuple(np.asarray(self.width, dtype=np.float64).ravel().tolist())

    def _width_text(self) -> str:
        widths = self._widths()
        return "" if widths == (1.0,) else ",width=" + "/".join(map(repr, widths))

    def _check_widths(self, most: int) -> None:
        """Raise if the widths have no meaning, or there are more than ``most``."""
        given = self.width if isinstance(self.width, Sequence | np.ndarray) else [self.width]
        fine = [isinstance(w, Real) and not isinstance(w, bool) for w in given]
        if not (all(fine) and len(fine) and all(1e-6 <= float(w) <= 1e6 for w in given)):
            raise ValueError(f"width must be one or more numbers from 1e-6 to 1e6, not {given!r}")
        if len(fine) > most:
            raise ValueError(f"{self.terms} terms are too few for {len(fine)} widths")

    def count(self, inputs: int) -> int:
        return int(self.terms)

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        return np.arange(self.terms, dtype=np.intp)


class RandomFourier(KernelMap):
    """Random Fourier features of the Gaussian kernel."""

    def __init__(
        self, terms: int = 400, *, width: float | Sequence[float] = 1.0, seed: int = 0
    ) -> None:
        self.terms = terms
        self.width = width
        self.seed = seed

    @property
    def text(self) -> str:
        return f"rff:{self.terms}{self._width_text()}" + (f",seed={self.seed}" * bool(self.seed))

    def check(self) -> None:
        check_integer("terms", self.terms, 2)
        check_integer("seed", self.seed, 0)
        if self.terms % 2:
            raise ValueError(f"terms must be even (half cosines, half sines), not {self.terms}")
        self._check_widths(self.terms // 2)

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Return the terms of rows, given the frequencies."""
        half = len(drawn)
        result = np.empty((len(X), 2 * half))
        angle = products(X, drawn)
        np.cos(angle, out=result[:, :half])
        np.sin(angle, out=result[:, half:])
        result *= 1.0 / np.sqrt(half)
        return result

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        half, angle = len(drawn), X @ drawn.T
        rate = G[:, half:] * np.cos(angle) - G[:, :half] * np.sin(angle)
        result: Matrix = (rate / np.sqrt(half)) @ drawn
        return result

    def path_contributions(
        self, start: Matrix, way: Matrix, W: Matrix, drawn: Matrix
    ) -> NDArray[np.float64]:
        """Return contributions of each feature: ∫ cos(θ + t u) dt = cos(θ + u/2) sin(u/2)/(u/2)."""
        half = len(drawn)
        u = way @ drawn.T
        middle = start @ drawn.T + 0.5 * u
        shrunk = np.sinc(u / (2.0 * np.pi)) / np.sqrt(half)
        sine, cosine = np.sin(middle) * shrunk, np.cos(middle) * shrunk
        result = np.empty((len(way), len(W), way.shape[1]))
        for q, g in enumerate(W):
            result[:, q] = (g[half:] * cosine - g[:half] * sine) @ drawn
        result *= way[:, None]
        return result

    def max_phase(self, way: Matrix, drawn: Matrix) -> float:
        return float(np.abs(way @ drawn.T).max(initial=0.0))

    def names(self, names: Sequence[str]) -> list[str]:
        return [f"{wave} {i}" for wave in ("cos", "sin") for i in range(self.terms // 2)]

    @property
    def n_params_per_feature(self) -> int:
        """Number of frequencies of a feature."""
        return int(self.terms) // 2

    def draw(self, inputs: int) -> Matrix:
        """Return frequencies (D/2, l)."""
        blocks, half = [], self.terms // 2
        size = min(inputs, half)  # rows of a block: at most D/2, and at most l orthogonal ones
        for i in range(-(-half // size)):
            square = normal(self.seed, f"block {i}", inputs * size).reshape(inputs, size)
            Q, R = np.linalg.qr(square)
            rows = normal(self.seed, f"lengths {i}", size * inputs).reshape(size, inputs)
            lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
            blocks.append(lengths[:, None] * (Q * np.sign(np.diagonal(R))).T)
        return self._scale_frequencies(np.concatenate(blocks)[:half], inputs)

    def params_for_new_feature(self, name: str, inputs: int) -> Matrix:
        """Return frequencies that depend only on seed and name, the same on all machines."""
        return self._scale_frequencies(
            normal(self.seed, f"feature {name}", self.terms // 2)[:, None], inputs
        )

    def _scale_frequencies(self, omega: Matrix, inputs: int) -> Matrix:
        """Return standard normal frequencies as those of the kernels, which take turns."""
        width = np.resize(np.array(self._widths()), len(omega))
        return np.ascontiguousarray(omega / (width[:, None] * np.sqrt(inputs)))


class Landmarks(KernelMap):
    """Nearness to rows of the warm-up."""

    def __init__(self, terms: int = 256, *, width: float | Sequence[float] = 1.0) -> None:
        self.terms = terms
        self.width = width

    @property
    def text(self) -> str:
        return f"landmarks:{self.terms}{self._width_text()}"

    def check(self) -> None:
        check_integer("terms", self.terms)
        self._check_widths(self.terms)

    @property
    def rows(self) -> int:
        """Number of rows that fix the map: two per landmark, or as many as for other maps."""
        return max(WARMUP, 2 * int(self.terms))

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Return the terms, given the landmarks and, below them, the unit of each feature."""
        result = np.empty((len(X), self.terms))
        self.apply_into(result, X, drawn)
        return result

    def apply_into(self, out: Matrix, X: Matrix, drawn: Matrix) -> None:
        unit, marks, sharp = drawn[-1], drawn[:-1], self.sharpness()
        if UNUSED_LANDMARK in marks[-1]:  # landmarks without a row are the last ones
            used = len(marks) - int((marks == UNUSED_LANDMARK).any(axis=1).sum())
            out[:, used:] = 0.0
            marks, sharp, out = marks[:used], sharp[:used], out[:, :used]
        nearness(X * unit, marks * unit, sharp, out)

    def landmarks_at(self, inputs: int) -> slice:
        """Return all terms."""
        return slice(0, int(self.terms))

    def sharpness(self) -> Vector:
        """Return 1/(2σ²) of each landmark: of the widths in turn, each with all classes."""
        return _sharpness(int(self.terms), self._widths())

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        rate = -2.0 * self.sharpness() * G * self.apply(X, drawn)
        result: Matrix = (X * rate.sum(axis=1, keepdims=True) - rate @ drawn[:-1]) * drawn[-1] ** 2
        return result

    def path_contributions(
        self, start: Matrix, way: Matrix, W: Matrix, drawn: Matrix
    ) -> NDArray[np.float64]:
        r"""Return contributions of each feature, in closed form.

        On the way the square of the distance is D(t) = A t² + 2 B t + C, and with s = 1/(2σ²)

            ∂φ/∂x_j way_j = −2 s u_j² way_j (start_j − x_ij + t way_j) exp(−s D(t))

        so that the integrals of exp(−s D) and of t exp(−s D) are all that is needed.
        """
        unit, s = drawn[-1], self.sharpness()
        off = (start - drawn[:-1]) * unit
        step = way * unit
        A = np.einsum("ij,ij->i", step, step)[:, None]
        B, C = step @ off.T, np.einsum("ij,ij->i", off, off)
        flat = _integral(A, B, C, s)
        first, last = self.apply(start, drawn), self.apply(start + way, drawn)
        rise = ((first - last) / (2.0 * s) - B * flat) / np.where(A > 0.0, A, np.inf)
        result = np.empty((len(way), len(W), way.shape[1]))
        for q, g in enumerate(W):
            rate = -2.0 * s * g
            still = (rate * flat) @ (off * unit)
            result[:, q] = still + (rate * rise).sum(axis=1, keepdims=True) * step * unit
        result *= way[:, None]
        return result

    def max_phase(self, way: Matrix, drawn: Matrix) -> float:
        """Return the length of the longest way in widths, as if a width were a radian."""
        step = way * drawn[-1]
        length = np.sqrt(np.einsum("ij,ij->i", step, step).max(initial=0.0))
        return float(length * np.sqrt(2.0 * self.sharpness().max()))

    def names(self, names: Sequence[str]) -> list[str]:
        return [f"landmark {i}" for i in range(self.terms)]

    @property
    def n_params_per_feature(self) -> int:
        """Number of landmarks, and the unit."""
        return int(self.terms) + 1

    def draw(self, inputs: int) -> Matrix:
        """Return normal landmarks."""
        count = self.terms * inputs
        return self._with_unit(normal(0, "landmarks", count).reshape(self.terms, inputs))

    def draw_from(self, drawn: Matrix, X: Matrix, y: Labels | None, weight: Vector) -> Matrix:
        """Return landmarks among rows, the first of each class in turn, and the unit below them."""
        marks = np.full((self.terms, X.shape[1]), UNUSED_LANDMARK)
        some = interleave_classes(np.zeros(len(X)) if y is None else y)[: self.terms]
        marks[: len(some)] = X[some]
        return self._with_unit(marks)

    def params_for_new_feature(self, name: str, inputs: int) -> Matrix:
        """Return 0 for all landmarks, and their unit."""
        column = np.zeros((self.terms + 1, 1))
        column[-1] = 1.0 / np.sqrt(inputs)
        return column

    def _with_unit(self, marks: Matrix) -> Matrix:
        inputs = marks.shape[1]
        return np.concatenate([marks, np.full((1, inputs), 1.0 / np.sqrt(inputs))])


@lru_cache(maxsize=32)
def _sharpness(terms: int, widths: tuple[float, ...]) -> Vector:
    width = np.array(widths)[np.arange(terms) * len(widths) // terms]
    sharp: Vector = 0.5 / width**2
    sharp.flags.writeable = False
    return sharp


def _integral(A: Matrix, B: Matrix, C: Vector, s: Vector) -> Matrix:
    """Return ∫ exp(−s (A t² + 2 B t + C)) dt from 0 to 1, of shape (n, landmarks)."""
    near = np.minimum(A * s, 1.0) < 1.0
    safe = np.where(near, 1.0, A * np.ones_like(s))
    # About the nearest point of the way: exp(−s (C − B²/A)) ∫ exp(−s A (t + B/A)²) dt.
    root, middle = np.sqrt(safe * s), B / safe
    wide = special.erf(root * (1.0 + middle)) - special.erf(root * middle)
    result = np.exp(-s * np.maximum(C - B * middle, 0.0)) * wide * np.sqrt(np.pi) / (2.0 * root)
    # Ways that are short relative to the width: the integrand is almost a polynomial.
    short = np.zeros_like(result)
    for t, weight in zip(*nodes(2 * NODES), strict=True):
        short += weight * np.exp(-s * np.maximum(A * t * t + 2.0 * B * t + C, 0.0))
    both: Matrix = np.where(near, short, result)
    return both


def interleave_classes(y: Labels) -> NDArray[np.intp]:
    """Return the order of rows: the first of each class, then the second of each, and so on."""
    _, codes = np.unique(y, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    turn = np.empty(len(y), dtype=np.intp)
    first = np.searchsorted(codes[order], codes[order])
    turn[order] = np.arange(len(y)) - first
    return np.lexsort((np.arange(len(y)), turn))
