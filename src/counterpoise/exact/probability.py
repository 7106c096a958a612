"""From scores to probabilities.

Within each class scores are taken to be normal, with a variance that all classes share: then the
logarithms of the odds are a multiple of the scores. How large the scores of a class are, and how
much they vary, the moments know.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.arrays import Flags, Matrix, Vector


@dataclass(frozen=True, eq=False)
class Link:
    """The way from scores to logarithms of posterior probabilities.

    Attributes
    ----------
    slope : float
        Factor on the scores.
    stream : ndarray of shape (problems,)
        What is added to lead from the weights of training to the frequencies of the stream.
    """

    slope: float
    stream: Vector

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
        log_odds = self.slope * f + (self.stream if stream else 0.0)
        p = _softmax(np.hstack([-0.5 * log_odds, 0.5 * log_odds]) if len(seen) == 2 else log_odds)
        if stream:
            return p
        best = (f.ravel() > 0).astype(np.intp) if len(seen) == 2 else f.argmax(axis=1)
        # Scores that differ in the last bit may round to one probability: keep their order.
        tied = np.flatnonzero(p.argmax(axis=1) != best)
        p[tied, best[tied]] = np.nextafter(p[tied].max(axis=1), 2.0)
        return p


def _softmax(log_p: Matrix) -> Matrix:
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p
