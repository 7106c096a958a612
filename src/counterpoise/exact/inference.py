"""Standard errors of weights, from the moments of each class.

The weights solve Σ_k a_k E_k[φ (y_k − φ·w)] = b w, with φ = [1, ζ]. Rows of a class are independent
of each other, so that to first order the error of w is R⁻¹ times a mean of independent terms φe,
e = y_k − φ·w, and

    Cov(w) = R⁻¹ (Σ_k a_k²/n_k Cov_k(φe)) R⁻¹,         R = Σ_k a_k E_k[φφᵀ] + b I

(Huber's sandwich, class by class: classes may weigh, vary and be as frequent as they like). The
middle takes fourth moments. Where the features of each class are normal, with whatever mean ν and
covariance Σ, they follow from the second: with ē and τ² the mean and the variance of e in the
class, and c = −Σw its covariance with φ,

    Cov_k(φe) = (τ² + ē²) Σ + ccᵀ + τ² ννᵀ + ē (νcᵀ + cνᵀ)

Targets of ±1 do not vary at random about the score, so that the residual variance and the inverse
of ordinary least squares alone would be wrong.
"""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Matrix, Vector
from counterpoise.exact.moments import Moments
from counterpoise.exact.options import Options
from counterpoise.exact.scores import Scores, problem_of
from counterpoise.exact.solution import Linear
from counterpoise.exact.solve import System

QUANTILE = 1.959963984540054  # of the normal distribution: 95 % are within
ASSUMED = (
    "Standard errors hold for independent rows whose features are normal within each class, with "
    "any means and covariances; for features with heavy tails they are too small. They are about "
    "the weights that the same ridge and class weights would give on the whole population."
)


def refusal(scores: Scores, moments: Moments, options: Options) -> str | None:
    """Why there are no standard errors; None if there are."""
    if not isinstance(scores.solution, Linear):
        return "No standard errors: with pooling scores are quadratic."
    if scores.classes.problems > 1 and options.multi_class == "discriminant":
        return "No standard errors: the weights of several classes are not those of least squares."
    if scores.fixed is not None:
        return "No standard errors: terms of a map are not normal, even where the features are."
    if options.half_life is not None:
        return "No standard errors: with half_life it is not known how many rows are remembered."
    seen = scores.classes.seen
    if seen.sum() < 2 or float(moments.n[scores.classes.slots[seen]].min()) < 3.0:
        return "No standard errors: they take two classes of at least three rows each."
    return None


def standard_errors(scores: Scores, moments: Moments, options: Options) -> Matrix:
    """Standard errors of the coefficients, of shape (problems, d), in the units of the input."""
    classes, solution = scores.classes, scores.solution
    assert isinstance(solution, Linear)
    systems = problem_of(moments, classes, options)
    assert isinstance(systems, list)
    found = np.zeros_like(solution.coef)
    rows = np.flatnonzero(classes.seen) if classes.problems > 1 else np.zeros(1, np.intp)
    for q, system in zip(rows.tolist(), systems, strict=True):
        found[q] = _errors(system, solution.coef[q], float(solution.offset[q]), solution.ridge)
    return found


def _errors(system: System, coef: Vector, offset: float, b: float) -> Vector:
    """Standard errors (d,) of one problem."""
    moments, s, a = system.moments, system.s, system.a
    d, constant = len(s), system.intercept != "none"
    # About the centre a constant is orthogonal to the features; without one they have an origin.
    place = system.centre if constant else system.m
    w = np.append(offset + coef @ place, coef * s)
    R = np.zeros((d + 1, d + 1))
    R.flat[:: d + 2] = b
    R[0, 0] = 0.0
    if system.intercept == "penalized":
        q = np.append(1.0, -system.h)
        R += b * np.outer(q, q)
    middle = np.zeros_like(R)
    for k in np.flatnonzero(a > 0).tolist():
        n = float(moments.n[k])
        S = np.zeros_like(R)
        S[1:, 1:] = moments.C[k] / s / s[:, None] / n
        mean = np.append(1.0, (moments.mean[k] - place) / s)
        R += a[k] * (S + np.outer(mean, mean))
        S *= n / (n - 1.0)
        c = -S @ w
        variance, e = float(-c @ w), float(system.y[k] - mean @ w)
        of_class = (variance + e * e) * S + np.outer(c, c) + variance * np.outer(mean, mean)
        of_class += e * (np.outer(mean, c) + np.outer(c, mean))
        middle += a[k] ** 2 / n * of_class
    if not constant:
        R, middle = R[1:, 1:], middle[1:, 1:]
    scale = np.sqrt(np.maximum(np.diagonal(R), 1e-300))
    inverse = np.linalg.pinv(R / scale / scale[:, None], hermitian=True) / scale / scale[:, None]
    covariance = inverse @ middle @ inverse
    errors: Vector = np.sqrt(np.maximum(np.diagonal(covariance)[-d:], 0.0)) / s
    return errors
