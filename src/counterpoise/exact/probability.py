"""From scores to probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterpoise.arrays import Flags, Matrix, Vector
from counterpoise.exact.classes import winners

SILENT = 0.25  # over the root of the number of rows: the share of rows that tell nothing


@dataclass(frozen=True, eq=False)
class Link:
    """The way from scores to probabilities: :mod:`counterpoise.exact.link` says why.

    Attributes
    ----------
    slopes : tuple of float
        Factors on the scores, under the weights of training and under the stream's frequencies.
    shift : ndarray of shape (c,)
        What leads from the weights of training to the frequencies of the stream, as logarithms.
    frequency : ndarray of shape (c,)
        Of each class in the stream; 0 of one that was never seen.
    silent : float
        Share of the rows that tell nothing.
    """

    slopes: tuple[float, float]
    shift: Vector
    frequency: Vector
    silent: float

    @classmethod
    def of(
        cls, slopes: Sequence[float], shift: Vector, frequency: Vector, seen: Flags, rows: float
    ) -> Link:
        """A link of the classes that were seen, for all of them."""
        by_class, share = np.full(len(seen), -np.inf), np.zeros(len(seen))
        by_class[seen], share[seen] = shift, frequency
        silent = min(SILENT / np.sqrt(max(rows, 1.0)), 0.5)
        return cls((slopes[0], slopes[1]), by_class, share, silent)

    @classmethod
    def none(cls, c: int) -> Link:
        """Where there is nothing to tell apart."""
        return cls((1.0, 1.0), np.zeros(c), np.zeros(c), 0.0)

    def probabilities(self, f: Matrix, seen: Flags, stream: bool) -> Matrix:
        """Probability of each class.

        Parameters
        ----------
        f : ndarray of shape (n, problems)
            Scores; one problem stands for two classes, else one a class.
        seen : ndarray of shape (c,)
            Whether the class was ever seen; if not, its probability is 0.
        stream : bool
            Whether under the frequencies of the stream, or the weights of training.

        Returns
        -------
        ndarray of shape (n, c)
            Rows add up to 1. Under the weights of training the largest is that of the class that
            is predicted.
        """
        if seen.sum() <= 1:
            return np.repeat(seen[None, :].astype(np.float64), len(f), axis=0)
        f = np.clip(f, -1e300, 1e300)
        p = self._of_two(f[:, 0], stream) if len(seen) == 2 else self._of_all(f, seen, stream)
        p *= 1.0 - self.silent
        p += self.silent * (self.frequency if stream else seen / seen.sum())
        if stream:
            return p
        best = winners(f, seen)
        # Scores that differ in the last bit may round to one probability: keep their order.
        tied = np.flatnonzero(p.argmax(axis=1) != best)
        p[tied, best[tied]] = np.nextafter(p[tied].max(axis=1), 2.0)
        return p

    def _of_two(self, f: Vector, stream: bool) -> Matrix:
        z = self.slopes[int(stream)] * f
        if stream:
            z += self.shift[1] - self.shift[0]
        more = 1.0 / (1.0 + np.exp(-np.abs(z)))
        one = np.where(z >= 0.0, more, 1.0 - more)  # rises with z to the last bit
        return np.stack([1.0 - one, one], axis=1)

    def _of_all(self, f: Matrix, seen: Flags, stream: bool) -> Matrix:
        log_p = self.slopes[int(stream)] * f + (self.shift if stream else 0.0)
        log_p = np.where(seen, log_p, -np.inf)
        p: Matrix = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return p
