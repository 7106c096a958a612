# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Exact scores at every step of a stream: the loops behind ``progressive.py``.

``plain`` solves each problem anew for each row, by elimination; ``block`` solves a block of steps
at once by conjugate gradients against the true moments.
"""

from libc.math cimport fabs
from libc.string cimport memset
from scipy.linalg.cython_blas cimport dgemm, dtrsm
from scipy.linalg.cython_lapack cimport dpotrf, dpotri

from counterpoise._moments cimport Learnt, learn_row

cdef extern from "rows.h" nogil:
    int eliminate(
        double* U, Py_ssize_t d, Py_ssize_t width, Py_ssize_t stride, const double* tiny
    )
    void add_class(
        const double* C, Py_ssize_t d, Py_ssize_t stride_C, double alpha, double a,
        const double* delta, double* U, Py_ssize_t stride
    )


cdef class Recipe:
    """What is solved: the options of the classifier, by number."""

    cdef double b, gamma
    cdef double[::1] factor     # of each slot: its cost or class weight
    cdef Py_ssize_t[::1] order  # slots in the order of their labels
    cdef bint balanced, standard, minmax, penalized, constant

    def __init__(self, b, half_life, factor, order, balanced, scale, intercept):
        self.b = b
        self.gamma = 1.0 if half_life is None else 2.0 ** (-1.0 / half_life)
        self.factor = factor
        self.order = order
        self.balanced = balanced
        self.standard = scale == "standard"
        self.minmax = scale == "minmax"
        self.penalized = intercept == "penalized"
        self.constant = intercept != "none"


cdef class Scorer:
    """Moments that learn row by row, and workspace to solve with."""

    cdef Recipe recipe
    cdef Learnt s
    cdef Py_ssize_t c, problems
    cdef double[::1] anchor, n, N, low, high, delta
    cdef double[:, ::1] mean, peak, a
    cdef double[:, :, ::1] C, away
    cdef double[::1] m, v, centre, h, tiny
    cdef double[:, ::1] U
    cdef Py_ssize_t width

    def __init__(self, Recipe recipe, moments):
        import numpy as np

        self.recipe = recipe
        self.anchor, self.n, self.N = moments.anchor, moments.n, moments.N
        self.mean, self.peak, self.C, self.away = moments.mean, moments.peak, moments.C, moments.away
        self.low, self.high = moments.low, moments.high
        cdef Py_ssize_t d = self.anchor.shape[0]
        self.c = self.n.shape[0]
        self.problems = 1 if self.c <= 2 else self.c
        self.delta, self.m, self.v, self.centre, self.h, self.tiny = np.zeros((6, d))
        self.width = d + 3
        self.U = np.zeros((d, d + 3))
        self.a = np.zeros((self.problems, self.c))
        self.s.d = self.s.stride = d
        self.s.size = d * d
        self.s.anchor = &self.anchor[0]
        self.s.delta = &self.delta[0]
        self.s.n = &self.n[0]
        self.s.N = &self.N[0]
        self.s.mean = &self.mean[0, 0]
        self.s.C = &self.C[0, 0, 0]
        self.s.peak = &self.peak[0, 0]
        self.s.away = &self.away[0, 0, 0]
        self.s.low = &self.low[0] if self.low.shape[0] else NULL
        self.s.high = &self.high[0] if self.low.shape[0] else NULL

    cdef void learn(self, const double* x, Py_ssize_t k) noexcept nogil:
        learn_row(&self.s, k, x, 1.0, 1.0, self.recipe.gamma)

    cdef void weigh(self) noexcept nogil:
        """a[q, k], the total weight of class k in problem q."""
        cdef Py_ssize_t q, k, j
        cdef double side, other = 0.0
        for k in range(self.c):
            other += self.N[k]
        for q in range(self.problems):
            j = self.recipe.order[self.c - 1] if self.problems == 1 else self.recipe.order[q]
            for k in range(self.c):
                self.a[q, k] = 0.0
                if self.N[k] > 0.0:
                    side = self.N[j] if k == j else other - self.N[j]
                    self.a[q, k] = self.recipe.factor[k] * self.N[k]
                    if self.recipe.balanced:
                        self.a[q, k] /= side

    cdef void scale(self) noexcept nogil:
        """Shift m, relative to the anchor, and squared divisor v of each feature."""
        cdef Py_ssize_t j, k, d = self.s.d
        cdef double total = 0.0, off, size
        if self.recipe.minmax:
            for j in range(d):
                self.m[j] = self.low[j] - self.anchor[j]
                size = self.high[j] - self.low[j]
                self.v[j] = size * size if size > 0.0 else 1.0
            return
        if not self.recipe.standard:
            for j in range(d):
                self.m[j] = -self.anchor[j]
                self.v[j] = 1.0
            return
        for k in range(self.c):
            total += self.N[k]
        for j in range(d):
            self.m[j] = 0.0
            self.v[j] = 0.0
        for k in range(self.c):
            if self.N[k] > 0.0:
                for j in range(d):
                    self.m[j] += self.N[k] / total * self.mean[k, j]
        for k in range(self.c):
            if self.N[k] > 0.0:
                for j in range(d):
                    off = self.mean[k, j] - self.m[j]
                    self.v[j] += self.N[k] / total * (self.C[k, j, j] / self.n[k] + off * off)
        for j in range(d):
            size = 8.0 * 2.220446049250313e-16 * fabs(self.anchor[j] + self.m[j])
            if self.v[j] <= size * size:
                self.v[j] = 1.0

    cdef int score(self, const double* x, double* f) noexcept nogil:
        """Scores of x by the model as it is; returns whether a problem was singular."""
        cdef Py_ssize_t q, j
        self.weigh()
        self.scale()
        for q in range(self.problems):
            j = self.recipe.order[q]
            if self.problems > 1 and self.N[j] == 0.0:
                f[q] = -1.0
            elif self.solve(q, x, &f[q]):
                return 1
        return 0

    cdef int solve(self, Py_ssize_t q, const double* x, double* f) noexcept nogil:
        cdef Py_ssize_t d = self.s.d, i, k, j, width = self.width
        cdef double a = 0.0, t = 0.0, y, b = self.recipe.b, p, step
        cdef double zx = 0.0, hx = 0.0, hz = 0.0, hh = 0.0
        cdef double* U = &self.U[0, 0]
        cdef double* row
        j = self.recipe.order[self.c - 1] if self.problems == 1 else self.recipe.order[q]
        memset(U, 0, d * width * sizeof(double))
        for i in range(d):
            self.centre[i] = 0.0
        for k in range(self.c):
            a += self.a[q, k]
        for k in range(self.c):
            if self.a[q, k] > 0.0:
                t += self.a[q, k] / a * (1.0 if k == j else -1.0)
                for i in range(d):
                    self.centre[i] += self.a[q, k] / a * self.mean[k, i]
        # K = sum a_k (C_k / n_k + delta delta') + b s^2, and on its right z, h, x, about the centre
        for k in range(self.c):
            if self.a[q, k] > 0.0:
                y = 1.0 if k == j else -1.0
                for i in range(d):
                    self.delta[i] = self.mean[k, i] - self.centre[i]
                    U[i * width + d] += self.a[q, k] * y * self.delta[i]
                add_class(
                    &self.C[k, 0, 0], d, d, self.a[q, k] / self.n[k], self.a[q, k],
                    &self.delta[0], U, width,
                )
        for i in range(d):
            row = U + i * width
            row[i] += b * self.v[i]
            row[d + 1] = self.centre[i] - self.m[i]
            row[d + 2] = (x[i] - self.anchor[i]) - self.centre[i]
            self.tiny[i] = d * 2.220446049250313e-16 * row[i]
        if eliminate(U, d, width, width, &self.tiny[0]):
            return 1
        for i in range(d):
            row = U + i * width
            p = 1.0 / row[i]
            zx += row[d] * row[d + 2] * p
            hx += row[d + 1] * row[d + 2] * p
            hz += row[d] * row[d + 1] * p
            hh += row[d + 1] * row[d + 1] * p
        # The penalty of the constant, as in solve.py: [t, w] - R^-1 q (q.[t, w]) p/(1 + p q.R^-1 q)
        step = t - hz
        if self.recipe.penalized:
            step *= b / (1.0 + b * (1.0 / a + hh))
        elif self.recipe.constant:
            step = 0.0
        else:
            step /= 1.0 / a + hh
        f[0] = t - step / a + zx + step * hx
        return 0

    def plain(
        self,
        const double[:, ::1] X,
        const Py_ssize_t[::1] codes,
        Py_ssize_t delay,
        Py_ssize_t start,
        Py_ssize_t stop,
        double[:, ::1] scores,
    ):
        """Steps ``start`` to ``stop``: score row t, then learn row t - delay.

        Returns the step before which a problem was singular, with nothing of that step done, or
        ``stop``.
        """
        cdef Py_ssize_t t, q, rows = X.shape[0]
        cdef bint nothing = True
        with nogil:
            for t in range(start, stop):
                if t < rows:
                    nothing = True
                    for q in range(self.c):
                        if self.N[q] > 0.0:
                            nothing = False
                    if nothing:
                        for q in range(self.problems):
                            scores[t, q] = 0.0
                    elif self.score(&X[t, 0], &scores[t, 0]):
                        with gil:
                            return t
                if t >= delay:
                    self.learn(&X[t - delay, 0], codes[t - delay])
        return stop
