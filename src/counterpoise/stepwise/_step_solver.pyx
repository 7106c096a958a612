# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Exact scores at every step of a stream, where each row's problems are solved by elimination."""

from libc.math cimport INFINITY, exp, expm1, fabs, log
from libc.string cimport memset

from counterpoise.moments._moments cimport MomentsView, learn_row, view

cdef extern from "kernels.h" nogil:
    int eliminate(
        double* U, Py_ssize_t d, Py_ssize_t width, Py_ssize_t stride, const double* tiny
    )
    void add_two_classes(
        Py_ssize_t d, Py_ssize_t stride_C, const double* C_0, double alpha_0, double a_0,
        const double* delta_0, const double* C_1, double alpha_1, double a_1,
        const double* delta_1, int keep, double* U, Py_ssize_t stride
    )
    void add_class(
        const double* C, Py_ssize_t d, Py_ssize_t stride_C, double alpha, double a,
        const double* delta, double* U, Py_ssize_t stride
    )


cdef extern from "symmetric.h" nogil:
    double inner(const double* a, const double* b, Py_ssize_t d)


cdef double EPS = 2.220446049250313e-16


cdef class SolverSpec:
    """The problem that is solved: the options of the classifier, by number.

    ``rows`` is the number of rows of a decaying ridge, 0 if b is a number; ``pooled_rows`` is
    negative where there is none.
    """

    def __init__(
        self, b, rows, lives, factor, order, balanced, scale, intercept, together, pooled_rows
    ):
        self.b = b
        self.rows = rows
        self.together = together
        self.pooled_rows = pooled_rows
        self.decays = lives is not None
        self.gamma = 2.0 ** (-1.0 / lives) if self.decays else 0.0 * factor + 1.0
        self.rate = -0.6931471805599453 / lives if self.decays else 0.0 * factor
        self.factor = factor
        self.order = order
        self.balanced = balanced
        self.standard = scale == "standard"
        self.penalized = intercept == "penalized"
        self.constant = intercept != "none"


cdef class StepSolver:
    """Moments that learn row by row, and workspace to solve with."""

    def __init__(self, SolverSpec spec, moments):
        self.spec = spec
        self.bind(moments)

    cpdef bind(self, moments):
        """Work on these moments, in place; call it again when their arrays are replaced."""
        import numpy as np

        self.anchor, self.n, self.N = moments.anchor, moments.n, moments.N
        self.mean, self.max_scatter, self.C = moments.mean, moments.max_scatter, moments.C
        self.stream, self.weight_remainder = moments.stream, moments.weight_remainder
        self.min_row_weight, self.row_hashes = moments.min_row_weight, moments.row_hashes
        self.nonconstant_weight, self.removed = moments.nonconstant_weight, moments.removed
        cdef Py_ssize_t d = self.anchor.shape[0]
        self.c = self.n.shape[0]
        self.problems = 1 if self.c <= 2 else self.c
        self.delta, self.other, self.m, self.v, self.centre, self.tiny = np.zeros((6, d))
        self.width = (d + (self.c + 1 if self.spec.together else 3) + 3) // 4 * 4
        U = np.zeros(d * self.width + 8)  # aligned to lines of the cache
        U = U[-(U.ctypes.data // 8) % 8 :][: d * self.width]
        self.U = U.reshape(d, self.width)
        cdef Py_ssize_t pooled = d if self.spec.pooled_rows > 0.0 else 1
        self.pooled = np.zeros((pooled, pooled))
        self.a = np.zeros((self.problems, self.c))
        self.s = view(moments)
        self.s.delta = &self.delta[0]

    cdef void learn(self, const double* x, Py_ssize_t k) noexcept nogil:
        learn_row(&self.s, k, x, 1.0, 1.0, self.spec.gamma[k])

    cdef void learn_weighted(self, const double* x, Py_ssize_t k, double omega) noexcept nogil:
        """Learn a row of weight (1 - gamma^omega) / (1 - gamma); the past decays by gamma^omega."""
        cdef double rate = self.spec.rate[k]
        if omega == 1.0 or rate == 0.0:
            learn_row(&self.s, k, x, omega, omega, self.spec.gamma[k])
        else:
            learn_row(&self.s, k, x, omega, expm1(rate * omega) / expm1(rate), exp(rate * omega))

    cdef void weigh(self) noexcept nogil:
        """Compute a[q, k], the total weight of class k in problem q, and the ridge b."""
        cdef Py_ssize_t q, k, j, seen = 0, count = 0
        cdef double total, squares
        for k in range(self.c):
            seen += self.N[k] > 0.0
        self.b = self.spec.b
        for q in range(1 if self.spec.together else self.problems):
            j = self.spec.order[self.c - 1] if self.problems == 1 else self.spec.order[q]
            total = squares = 0.0
            for k in range(self.c):
                self.a[q, k] = 0.0
                if self.N[k] > 0.0:
                    self.a[q, k] = 1.0 if self.spec.together else self.spec.factor[k]
                    if not self.spec.balanced:
                        self.a[q, k] *= self.N[k]
                    elif self.spec.together:
                        self.a[q, k] *= 2.0 / seen
                    elif k != j:
                        self.a[q, k] /= seen - (self.N[j] > 0.0)
                    total += self.a[q, k]
                    squares += self.a[q, k] * self.a[q, k] / max(self.n[k], 1.0)
            if self.spec.rows > 0.0 and total > 0.0 and (
                self.problems == 1 or self.spec.together or self.N[j] > 0.0
            ):
                count += 1
                self.b += (self.spec.rows * squares / total - self.b) / count

    cdef void scale(self) noexcept nogil:
        """Compute shift m, relative to the anchor, and squared divisor v of each feature."""
        cdef Py_ssize_t j, k, d = self.s.d
        cdef double total = 0.0, off, size, share
        if not self.spec.standard:
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
                share = self.N[k] / total
                for j in range(d):
                    self.m[j] += share * self.mean[k, j]
        for k in range(self.c):
            if self.N[k] > 0.0:
                share, size = self.N[k] / total, self.n[k]
                for j in range(d):
                    off = self.mean[k, j] - self.m[j]
                    self.v[j] += share * (
                        self.s.C[k * self.s.size + j * (self.s.stride + 1)] / size + off * off
                    )
        for j in range(d):
            size = 8.0 * EPS * fabs(self.anchor[j] + self.m[j])
            if self.v[j] <= size * size:
                self.v[j] = 1.0

    cdef int score(self, const double* x, double* f) noexcept nogil:
        """Compute the scores of x by the model as it is; return whether a problem was singular."""
        cdef Py_ssize_t q, i, d = self.s.d
        cdef double t, share, step, p, zx, hx
        cdef double* row
        self.weigh()
        self.scale()
        if self.spec.pooled_rows >= 0.0:
            return self.densities(x, f)
        if self.spec.together:
            return self.discriminate(x, f)
        for q in range(self.problems):
            if self.problems > 1 and self.N[self.spec.order[q]] == 0.0:
                f[q] = -1.0
                continue
            if self.reduce(q, x, &t, &share, &step):
                return 1
            zx = hx = 0.0
            for i in range(d):
                row = &self.U[i, 0]
                p = row[d + 2] / row[i]
                zx += row[d] * p
                hx += row[d + 1] * p
            f[q] = t - step * share + zx + step * hx
        return 0

    cdef int weights(self, Py_ssize_t q, double* coef, double* offset) noexcept nogil:
        """Compute coefficients of problem q in units of the input, and its score at the anchor."""
        cdef Py_ssize_t d = self.s.d, i
        cdef double t, share, step, sum
        cdef double* row
        if self.reduce(q, &self.anchor[0], &t, &share, &step):
            return 1
        offset[0] = t - step * share
        for i in range(d - 1, -1, -1):
            row = &self.U[i, 0]
            sum = row[d] + step * row[d + 1]
            sum -= inner(row + i + 1, coef + i + 1, d - i - 1)
            coef[i] = sum / row[i]
            offset[0] -= coef[i] * self.centre[i]
        return 0

    cdef int reduce(
        self, Py_ssize_t q, const double* x, double* t, double* share, double* step
    ) noexcept nogil:
        """Eliminate K with z, h and x on its right; compute t, 1/a and the step of the constant."""
        cdef Py_ssize_t d = self.s.d, i, k, j, width = self.width
        cdef Py_ssize_t pair[2]
        cdef int waiting = 0, keep = 0
        cdef double a = 0.0, y, b = self.b, hz = 0.0, hh = 0.0
        cdef double* deltas[2]
        cdef double* U = &self.U[0, 0]
        cdef double* row
        j = self.spec.order[self.c - 1] if self.problems == 1 else self.spec.order[q]
        t[0] = 0.0
        for i in range(d):
            self.centre[i] = 0.0
            for k in range(d, width):
                U[i * width + k] = 0.0
        for k in range(self.c):
            a += self.a[q, k]
        for k in range(self.c):
            if self.a[q, k] > 0.0:
                t[0] += self.a[q, k] / a * (1.0 if k == j else -1.0)
                for i in range(d):
                    self.centre[i] += self.a[q, k] / a * self.mean[k, i]
        # K = sum a_k (C_k / n_k + delta delta') + b s^2, about the centre, two classes at a time
        for k in range(self.c):
            if self.a[q, k] > 0.0:
                y = 1.0 if k == j else -1.0
                deltas[waiting] = &self.delta[0] if waiting == 0 else &self.other[0]
                for i in range(d):
                    deltas[waiting][i] = self.mean[k, i] - self.centre[i]
                    U[i * width + d] += self.a[q, k] * y * deltas[waiting][i]
                pair[waiting] = k
                waiting += 1
                if waiting == 2:
                    add_two_classes(
                        d, self.s.stride,
                        self.s.C + pair[0] * self.s.size, self.a[q, pair[0]] / self.n[pair[0]],
                        self.a[q, pair[0]], deltas[0],
                        self.s.C + pair[1] * self.s.size, self.a[q, pair[1]] / self.n[pair[1]],
                        self.a[q, pair[1]], deltas[1], keep, U, width,
                    )
                    keep, waiting = 1, 0
        if waiting:
            if not keep:
                for i in range(d):
                    memset(U + i * width + i, 0, (d - i) * sizeof(double))
            add_class(
                self.s.C + pair[0] * self.s.size, d, self.s.stride,
                self.a[q, pair[0]] / self.n[pair[0]], self.a[q, pair[0]], deltas[0], U, width,
            )
        for i in range(d):
            self.tiny[i] = d * EPS * (U[i * width + i] + b * self.v[i])
        if self.eliminate_categories(&a, t):
            return 1
        for i in range(d):
            row = U + i * width
            row[i] += b * self.v[i]
            row[d + 1] = self.centre[i] - self.m[i]
            row[d + 2] = (x[i] - self.anchor[i]) - self.centre[i]
        if eliminate(U, d, width, width, &self.tiny[0]):
            return 1
        for i in range(d):
            row = U + i * width
            hz += row[d] * row[d + 1] / row[i]
            hh += row[d + 1] * row[d + 1] / row[i]
        # The penalty of the constant, as in solver/ridge.py:
        # [t, w] - R^-1 q (q.[t, w]) p/(1 + p q.R^-1 q)
        share[0] = 1.0 / a
        step[0] = t[0] - hz
        if self.spec.penalized:
            step[0] *= b / (1.0 + b * (share[0] + hh))
        elif self.spec.constant:
            step[0] = 0.0
        else:
            step[0] /= share[0] + hh
        return 0

    cdef int eliminate_categories(self, double* a, double* t) noexcept nogil:
        """Change the problem to what is left of it without the categories, of which it has none."""
        return 0

    cdef double total(self) noexcept nogil:
        """Return the weight of all classes of one problem, and compute their centre."""
        cdef Py_ssize_t d = self.s.d, i, k
        cdef double total = 0.0
        for k in range(self.c):
            total += self.a[0, k]
        for i in range(d):
            self.centre[i] = 0.0 if self.spec.constant else self.m[i]
        if self.spec.constant:
            for k in range(self.c):
                if self.a[0, k] > 0.0:
                    for i in range(d):
                        self.centre[i] += self.a[0, k] / total * self.mean[k, i]
        return total

    cdef double prior(self, Py_ssize_t k) noexcept nogil:
        """Return the logarithm of the weight of class k, over the mean of those seen."""
        cdef Py_ssize_t j, seen = 0
        cdef double worth = 0.0
        for j in range(self.c):
            seen += self.N[j] > 0.0
            worth += self.spec.factor[j] * self.a[0, j]
        return log(self.spec.factor[k] * self.a[0, k] * seen / worth)

    cdef void pool(self, double* U, Py_ssize_t stride) noexcept nogil:
        """Add sum a_k C_k / n_k to the upper triangle of U."""
        cdef Py_ssize_t k
        memset(&self.delta[0], 0, self.s.d * sizeof(double))
        for k in range(self.c):
            if self.a[0, k] > 0.0:
                add_class(
                    self.s.C + k * self.s.size, self.s.d, self.s.stride,
                    self.a[0, k] / self.n[k], 0.0, &self.delta[0], U, stride,
                )

    cdef int pivots(self) noexcept nogil:
        """Add the ridge and eliminate; return whether the problem is singular."""
        cdef Py_ssize_t d = self.s.d, i, width = self.width
        cdef double* U = &self.U[0, 0]
        for i in range(d):
            U[i * width + i] += self.b * self.v[i]
            self.tiny[i] = d * EPS * U[i * width + i]
        return eliminate(U, d, width, width, &self.tiny[0])

    cdef int gather(self, const double* x) noexcept nogil:
        """Eliminate aW + b with the mean of each class and x on its right, about the centre."""
        cdef Py_ssize_t d = self.s.d, i, q, k, width = self.width
        cdef double* row
        memset(&self.U[0, 0], 0, d * width * sizeof(double))
        self.pool(&self.U[0, 0], width)
        for i in range(d):
            row = &self.U[i, 0]
            for q in range(self.c):
                k = self.spec.order[q]
                if self.N[k] > 0.0:
                    row[d + q] = self.mean[k, i] - self.centre[i]
            row[d + self.c] = (x[i] - self.anchor[i]) - self.centre[i]
        return self.pivots()

    cdef double constant(self, Py_ssize_t q, double total) noexcept nogil:
        """Return the score of class q at the centre, after :meth:`gather`."""
        cdef Py_ssize_t d = self.s.d, i
        cdef double square = 0.0
        if not self.spec.constant:
            return 0.0
        for i in range(d):
            square += self.U[i, d + q] * self.U[i, d + q] / self.U[i, i]
        return self.prior(self.spec.order[q]) - 0.5 * total * square

    cdef int discriminate(self, const double* x, double* f) noexcept nogil:
        """Compute linear scores of x for all classes together; return whether that is singular."""
        cdef Py_ssize_t d = self.s.d, i, q
        cdef double total = self.total(), sum
        if self.gather(x):
            return 1
        for q in range(self.c):
            if self.N[self.spec.order[q]] == 0.0:
                f[q] = -INFINITY
                continue
            sum = 0.0
            for i in range(d):
                sum += self.U[i, d + q] * self.U[i, d + self.c] / self.U[i, i]
            f[q] = total * sum + self.constant(q, total)
        return 0

    cdef int all_weights(self, double[:, ::1] coef, double[::1] offset) noexcept nogil:
        """Compute coefficients of all classes together, and their scores at the anchor."""
        cdef Py_ssize_t d = self.s.d, i, q
        cdef double total = self.total(), sum
        if self.gather(&self.anchor[0]):
            return 1
        for q in range(self.c):
            for i in range(d):
                coef[q, i] = 0.0
            offset[q] = -INFINITY
            if self.N[self.spec.order[q]] == 0.0:
                continue
            for i in range(d - 1, -1, -1):
                sum = self.U[i, d + q]
                sum -= inner(&self.U[i, 0] + i + 1, &coef[q, 0] + i + 1, d - i - 1)
                coef[q, i] = sum / self.U[i, i]
            offset[q] = self.constant(q, total)
            for i in range(d):
                coef[q, i] *= total
                offset[q] -= coef[q, i] * self.centre[i]
        return 0

    cdef int densities(self, const double* x, double* f) noexcept nogil:
        """Compute quadratic scores of x; return whether a covariance was singular."""
        cdef Py_ssize_t d = self.s.d, i, j, k, q, width = self.width
        cdef double total = self.total(), nu = self.spec.pooled_rows, square, half, share, score
        cdef double other = -INFINITY
        cdef double* row
        if nu > 0.0:
            memset(&self.pooled[0, 0], 0, d * d * sizeof(double))
            self.pool(&self.pooled[0, 0], d)
        for q in range(self.c):
            k = self.spec.order[q]
            score = -INFINITY
            if self.N[k] > 0.0:
                share = 1.0 / (self.n[k] + nu)
                for i in range(d):
                    row = &self.U[i, 0]
                    for j in range(i, d):
                        row[j] = share * total * self.s.C[k * self.s.size + i * self.s.stride + j]
                        if nu > 0.0:
                            row[j] += (share * nu) * self.pooled[i, j]
                    for j in range(d, width):
                        row[j] = 0.0
                    row[d] = (x[i] - self.anchor[i]) - self.mean[k, i]
                if self.pivots():
                    return 1
                square = 0.0
                half = -log(total) * d
                for i in range(d):
                    square += self.U[i, d] * self.U[i, d] / self.U[i, i]
                    half += log(self.U[i, i] / self.v[i])
                score = self.prior(k) - 0.5 * (half + total * square)
            if self.problems > 1:
                f[q] = score
            elif q == 0:
                other = score
            if self.problems == 1 and q == self.c - 1:
                f[0] = score - other if self.c == 2 else INFINITY
        return 0

    def run_steps(
        self, const double[:, ::1] X, const Py_ssize_t[::1] codes, Py_ssize_t delay,
        Py_ssize_t start, Py_ssize_t stop, double[:, ::1] scores
    ):
        """Take steps ``start`` to ``stop``: score row t, then learn row t - delay.

        Return the step of a singular problem, with nothing of that step done, or ``stop``.
        """
        cdef Py_ssize_t t, q, rows = X.shape[0]
        cdef bint is_empty
        with nogil:
            for t in range(start, stop):
                if t < rows:
                    is_empty = True
                    for q in range(self.c):
                        is_empty = is_empty and self.N[q] == 0.0
                    if is_empty:
                        for q in range(self.problems):
                            scores[t, q] = 0.0
                    elif self.score(&X[t, 0], &scores[t, 0]):
                        with gil:
                            return t
                if t >= delay:
                    self.learn(&X[t - delay, 0], codes[t - delay])
        return stop

    def learn_rows(
        self, const double[:, ::1] X, const Py_ssize_t[::1] codes, Py_ssize_t start, Py_ssize_t stop
    ):
        """Learn these rows without scoring any."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(start, stop):
                self.learn(&X[i, 0], codes[i])
