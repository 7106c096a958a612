"""Random Fourier features: a finite map whose inner products approach the Gaussian kernel.

    k(x, x') = exp(−‖x − x'‖² / (2 l σ²)) ≈ φ(x)·φ(x'),   φ = √(2/D) [cos ωᵢ·x, sin ωᵢ·x]

with D/2 frequencies ω of the normal distribution N(0, I/(l σ²)). Within each block of l they are
orthogonal, which brings the inner products nearer to the kernel at no cost. Several widths σ share
the frequencies among them: then k is the mean of their kernels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from numbers import Real

import numpy as np
import scipy.special as special
from numpy.typing import NDArray

from counterpoise.arrays import Matrix
from counterpoise.features._tiles import products
from counterpoise.features.maps import Map, whole


class RandomFourier(Map):
    """Random Fourier features of the Gaussian kernel."""

    def __init__(
        self, terms: int = 400, *, width: float | Sequence[float] = 1.0, seed: int = 0
    ) -> None:
        self.terms = terms
        self.width = width
        self.seed = seed

    @property
    def text(self) -> str:
        """The name of the map on the command line and in model files."""
        widths = self._widths()
        width = "" if widths == (1.0,) else ",width=" + "/".join(map(repr, widths))
        return f"rff:{self.terms}{width}" + (f",seed={self.seed}" if self.seed else "")

    def check(self) -> None:
        """Raise if a parameter has no meaning."""
        whole("terms", self.terms, 2)
        whole("seed", self.seed, 0)
        if self.terms % 2:
            raise ValueError(f"terms must be even (half cosines, half sines), not {self.terms}")
        given = self.width if isinstance(self.width, Sequence | np.ndarray) else [self.width]
        fine = [isinstance(w, Real) and not isinstance(w, bool) for w in given]
        if not (all(fine) and len(fine) and all(1e-6 <= float(w) <= 1e6 for w in given)):
            raise ValueError(f"width must be one or more numbers from 1e-6 to 1e6, not {given!r}")
        if len(fine) > self.terms // 2:
            raise ValueError(f"{self.terms} terms are too few for {len(fine)} widths")

    def count(self, inputs: int) -> int:
        """Number of terms of a row of l features."""
        return int(self.terms)

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Terms of rows, given the frequencies."""
        half = len(drawn)
        result = np.empty((len(X), 2 * half))
        angle = products(X, drawn)
        np.cos(angle, out=result[:, :half])
        np.sin(angle, out=result[:, half:])
        result *= 1.0 / np.sqrt(half)
        return result

    @property
    def degree(self) -> int:
        """Waves are no polynomials."""
        return 0

    def pulled(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Gradient of Σ_t G_t term_t."""
        half, angle = len(drawn), X @ drawn.T
        rate = G[:, half:] * np.cos(angle) - G[:, :half] * np.sin(angle)
        result: Matrix = (rate / np.sqrt(half)) @ drawn
        return result

    def along(self, start: Matrix, way: Matrix, W: Matrix, drawn: Matrix) -> NDArray[np.float64]:
        """Contributions of each feature: ∫ cos(θ + t u) dt = cos(θ + u/2) sin(u/2)/(u/2)."""
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

    def turns(self, way: Matrix, drawn: Matrix) -> float:
        """Most radians that a wave turns through."""
        return float(np.abs(way @ drawn.T).max(initial=0.0))

    def features_at(self, inputs: int) -> NDArray[np.intp] | None:
        """The features themselves are not among the waves."""
        return None

    def names(self, names: Sequence[str]) -> list[str]:
        """Names of the terms, which do not depend on the features."""
        return [f"{wave} {i}" for wave in ("cos", "sin") for i in range(self.terms // 2)]

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        """New place of each term: unchanged."""
        return np.arange(self.terms, dtype=np.intp)

    @property
    def draws(self) -> int:
        """Frequencies."""
        return int(self.terms) // 2

    def draw(self, inputs: int) -> Matrix:
        """Frequencies, of shape (D/2, l)."""
        blocks, half = [], self.terms // 2
        size = min(inputs, half)  # of a block: no more rows than are wanted, nor than can be
        for i in range(-(-half // size)):
            square = normal(self.seed, f"block {i}", inputs * size).reshape(inputs, size)
            Q, R = np.linalg.qr(square)
            rows = normal(self.seed, f"lengths {i}", size * inputs).reshape(size, inputs)
            lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
            blocks.append(lengths[:, None] * (Q * np.sign(np.diagonal(R))).T)
        return self._scaled(np.concatenate(blocks)[:half], inputs)

    def draw_late(self, name: str, inputs: int) -> Matrix:
        """Frequencies, as one column, of a feature that appears after l others were drawn.

        They depend only on seed and name, so models on several machines draw the same numbers.
        """
        return self._scaled(normal(self.seed, f"feature {name}", self.terms // 2)[:, None], inputs)

    def _widths(self) -> tuple[float, ...]:
        if isinstance(self.width, Sequence | np.ndarray):
            return tuple(float(w) for w in self.width)
        return (float(self.width),)

    def _scaled(self, omega: Matrix, inputs: int) -> Matrix:
        """Standard normal frequencies as those of the kernels, which take turns."""
        width = np.resize(np.array(self._widths()), len(omega))
        return np.ascontiguousarray(omega / (width[:, None] * np.sqrt(inputs)))


def normal(seed: int, name: str, count: int) -> NDArray[np.float64]:
    """Normal numbers that depend only on seed and name, not on the version of NumPy."""
    entropy = int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:16], "little")
    raw = np.random.PCG64(entropy).random_raw(count)
    uniform = ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return np.asarray(special.ndtri(uniform))
