# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""The link from linear scores to probabilities, for single events: ``link.py``, compiled.

All is in the units of the input. A link after a learned row costs the inverse of a covariance, d^3;
without a new row it costs a few exponentials.
"""

from libc.math cimport INFINITY, exp, fabs, log, nextafter, sqrt
from libc.string cimport memset

from counterpoise.stepwise._refine cimport inner, invert_scaled, symmetric_more, symmetric_times
from counterpoise.stepwise._step_solver cimport StepSolver

cdef extern from "link.h" nogil:
    void doubts(const double* prior, const double* g, double b, Py_ssize_t m, double* r)
    void lay_points(
        double odds, double count, double middle, double deviation, const double* at,
        const double* mass, Py_ssize_t m, double* prior, double* g, double* wg, double* wgg
    )
    void sum_doubts(
        const double* wg, const double* wgg, const double* r, Py_ssize_t m, double* falls,
        double* bends
    )
    double trace_of_product(
        const double* P, Py_ssize_t stride, const double* C, Py_ssize_t stride_C, Py_ssize_t d
    )
    int sweep(
        double* A, Py_ssize_t d, Py_ssize_t stride, double* tiny, double* W, double* K
    )

cdef double EPS = 2.220446049250313e-16
cdef Py_ssize_t MAX_FEATURES_TO_SWEEP = 400  # more are faster by LAPACK


cdef class EventLink:
    """A link, and the workspace to compute it; classes are in the order of the scores.

    ``at`` and ``mass`` are the points of the Student t.
    """

    def __init__(self, StepSolver scorer, double[::1] at, double[::1] mass):
        import numpy as np

        cdef Py_ssize_t c = scorer.c, d = scorer.s.d, pairs = max(c * (c - 1), 1)
        self.scorer, self.c, self.d, self.nodes = scorer, c, d, at.shape[0]
        self.at, self.mass = at, mass
        self.V = np.zeros((d, (d + 3) // 4 * 4))
        self.W, self.K = np.zeros((2, 4, self.V.shape[1]))
        self.A, self.delta = np.zeros((2, c, d))
        self.shared, self.D2, self.v, self.G, self.M = np.zeros((5, c, c))
        self.p, self.q, self.h, self.n, self.pi, self.evidence = np.zeros((6, c))
        self.shift, self.frequency = np.zeros((2, c))
        self.tiny, self.centre, self.y = np.zeros((3, d))
        self.effect = np.zeros(c)
        self.penalty = 0.0
        self.prior, self.g, self.wg, self.wgg, self.r = np.zeros((5, pairs * self.nodes))
        self.sums[0] = np.sum(mass)
        self.sums[1] = np.dot(mass, at)
        self.sums[2] = np.dot(mass, np.square(at))

    cdef int update(self, double[:, ::1] coef, double[::1] offset) noexcept:
        """Compute the link of these scores; return whether only ``link.py`` can."""
        cdef StepSolver s = self.scorer
        cdef Py_ssize_t c = self.c, d = self.d, i, j, k
        cdef double total = 0.0, rate = 0.0, rows = 0.0, worth = 0.0, middle, unit, square
        cdef double product
        if c < 2:
            return 0
        for i in range(c):
            k = s.spec.order[i]
            self.p[i] = 1.0 if s.spec.balanced else s.N[k]
            total += self.p[i]
            self.n[i] = max(s.n[k], 1.0)
            self.evidence[i] = s.n[k] / (s.n[k] + 10.0)
            self.frequency[i] = s.n[k] / s.stream[k] if s.spec.decays else s.N[k]
            rate += self.frequency[i]
            rows += s.n[k]
        for i in range(c):
            self.p[i] /= total
            self.frequency[i] /= rate
        # Scores in units of the input: of two classes half for the one, half against the other.
        for i in range(c):
            for j in range(d):
                self.A[i, j] = coef[i, j] if s.problems > 1 else (i - 0.5) * coef[0, j]
        memset(&self.centre[0], 0, d * sizeof(double))
        for i in range(c):
            for j in range(d):
                self.centre[j] += self.p[i] * s.mean[s.spec.order[i], j]
        for i in range(c):
            for j in range(d):
                self.delta[i, j] = s.mean[s.spec.order[i], j] - self.centre[j]
        self.offset = offset[0]
        if self.leverages():
            return 1
        self.products()
        # The multiple of discriminants that scores are.
        unit = 1.0
        square = product = 0.0
        for i in range(c):
            for j in range(c):
                self.G[i, j] = inner(&self.delta[i, 0], &self.A[j, 0], d)
                self.G[i, j] += self.effect[i] * (j - 0.5)
        for i in range(c):
            square += self.shared[i, i]
            product += self.G[i, i]
            for j in range(c):
                square -= self.shared[i, j] / c
                product -= self.G[i, j] / c
        # b / a of the ridge: its weight over that of all classes, which is 2 if they are balanced.
        rate = s.b / (2.0 if s.spec.balanced else total)
        for j in range(d):
            middle = 0.0
            for i in range(c):
                middle += self.A[i, j] / c
            for i in range(c):
                square += rate * s.v[j] * (self.A[i, j] - middle) * (self.A[i, j] - middle)
        square += self.penalty
        if product > 0.0 and square > 0.0:
            unit = square / product
        for i in range(c):
            for j in range(c):
                self.D2[i, j] = max(
                    self.G[i, i] + self.G[j, j] - self.G[i, j] - self.G[j, i], 0.0
                )
        for i in range(c):
            self.h[i] = min(self.p[i] * self.q[i] / self.n[i], 1.0 - 1.0 / (self.n[i] + 1.0))
            for j in range(c):
                self.M[i, j] = (
                    0.5 * (
                        self.D2[i, j]
                        + self.p[i] / self.n[i] / (1.0 - self.h[i]) * self.v[i, j] / unit
                    )
                    - unit * (self.q[i] / self.n[i] / (1.0 - self.h[i]))
                )
        for i in range(c):
            for j in range(c):
                self.G[i, j] = max(self.M[i, j] + self.M[j, i], 0.02 * self.D2[i, j])
                self.v[i, j] /= (1.0 - self.h[i]) * (1.0 - self.h[i])
        self.has_slope[0] = self.has_slope[1] = False
        self.silent = min(0.25 / sqrt(max(rows, 1.0)), 0.5)
        if s.problems > 1:
            for i in range(c):
                k = s.spec.order[i]
                self.h[i] = s.spec.factor[k] * (1.0 if s.spec.balanced else s.N[k])
                worth += self.h[i] / c
            for i in range(c):
                self.shift[i] = log(self.frequency[i]) - log(self.h[i] / worth)
            return 0
        # One score for two classes: odds are even half-way between their means.
        self.middle = offset[0]
        for i in range(c):
            self.middle += 0.5 * (inner(&s.mean[i, 0], &coef[0, 0], d) + self.effect[i])
        return 0

    cdef int leverages(self) noexcept:
        """Compute q_k = tr(V^-1 S_k) + tr(V^-1 W) / n_k; return whether V is nearly singular."""
        cdef StepSolver s = self.scorer
        cdef int d = <int> self.d, stride = <int> self.V.shape[1]
        cdef Py_ssize_t i, j, k
        cdef double trace = 0.0, total = 0.0, sign = 1.0  # of the inverse
        cdef double* V = &self.V[0, 0]
        memset(V, 0, d * stride * sizeof(double))
        for i in range(self.c):
            k = s.spec.order[i]
            total += 1.0 if s.spec.balanced else s.N[k]
            symmetric_more(s.s.C + k * s.s.size, s.s.stride, self.p[i] / s.n[k], d, V, stride)
        if s.spec.balanced:
            total = 2.0
        for j in range(d):
            V[j * stride + j] += s.b / total * s.v[j]
            self.tiny[j] = d * EPS
        if d <= MAX_FEATURES_TO_SWEEP:
            if sweep(V, d, stride, &self.tiny[0], &self.W[0, 0], &self.K[0, 0]):
                return 1
            sign = -1.0
        elif invert_scaled(V, d, stride, &self.y[0], d * EPS):
            return 1
        for i in range(self.c):
            k = s.spec.order[i]
            self.q[i] = trace_of_product(V, stride, s.s.C + k * s.s.size, s.s.stride, d)
            self.q[i] *= sign / s.n[k]
            trace += self.p[i] * self.q[i]
        for i in range(self.c):
            self.q[i] += trace / self.n[i]
        return 0

    cdef void products(self) noexcept:
        """Compute A W A', and v_kj = (A_k - A_j).(S_k + W / n_k)(A_k - A_j)."""
        cdef StepSolver s = self.scorer
        cdef Py_ssize_t c = self.c, d = self.d, i, j, k, l
        cdef double own
        memset(&self.shared[0, 0], 0, c * c * sizeof(double))
        for i in range(c):
            k = s.spec.order[i]
            if s.problems == 1:  # A_1 = -A_0
                own = self.variance(k)
                for j in range(c):
                    for l in range(c):
                        self.M[j, l] = own if j == l else -own
            else:
                for j in range(c):
                    symmetric_times(s.s.C + k * s.s.size, d, s.s.stride, &self.A[j, 0], &self.y[0])
                    for l in range(c):
                        self.M[l, j] = inner(&self.A[l, 0], &self.y[0], d) / s.n[k]
            for j in range(c):
                self.v[i, j] = self.M[j, j] + self.M[i, i] - 2.0 * self.M[j, i]
                for l in range(c):
                    self.shared[j, l] += self.p[i] * self.M[j, l]
        for i in range(c):
            for j in range(c):
                own = self.shared[j, j] + self.shared[i, i] - 2.0 * self.shared[i, j]
                self.v[i, j] = max(self.v[i, j] + own / self.n[i], 0.0)

    cdef double variance(self, Py_ssize_t k) noexcept:
        """Return the variance within class k of half the only score."""
        cdef StepSolver s = self.scorer
        symmetric_times(s.s.C + k * s.s.size, self.d, s.s.stride, &self.A[0, 0], &self.y[0])
        return inner(&self.A[0, 0], &self.y[0], self.d) / s.n[k]

    cdef void compute_slope(self, bint stream) noexcept:
        """Compute the slope of balanced or of stream probabilities."""
        cdef Py_ssize_t i
        self.has_slope[stream] = True
        for i in range(self.c):
            self.pi[i] = self.frequency[i] if stream else 1.0 / self.c
        self.slopes[stream] = self.slope()
        if stream and self.scorer.problems == 1:
            for i in range(self.c):
                self.shift[i] = log(self.frequency[i])
                self.shift[i] -= self.slopes[1] * self.middle * (i - 0.5)

    cdef double slope(self) noexcept:
        """Return the slope of least expected log loss, in the steps of ``link.slope``.

        The first needs no exponential of each point, and a short one is the last, because Newton's
        steps double their digits.
        """
        cdef Py_ssize_t c = self.c, i, j, m = 0, turn
        cdef double count, weight = 0.0, unit = 0.0, deviation, middle, b, low, high, size, step
        cdef double falls = 0.0, bends = 0.0, doubt, square
        for i in range(c):
            for j in range(c):
                if i != j:
                    count = self.count(i, j)
                    deviation, middle = sqrt(self.v[i, j]), 0.5 * self.G[i, j]
                    doubt = self.pi[j] / (self.pi[i] + self.pi[j])
                    square = count * (
                        middle * middle * self.sums[0] + 2.0 * middle * deviation * self.sums[1]
                        + self.v[i, j] * self.sums[2]
                    )
                    weight += count * self.sums[0]
                    unit += square
                    falls += count * (middle * self.sums[0] + deviation * self.sums[1]) * doubt
                    bends += square * (doubt * (1.0 - doubt))
        unit = sqrt(unit / weight)
        if not 0.0 < unit < INFINITY:
            return 0.0
        for i in range(c):
            for j in range(c):
                if i != j:
                    lay_points(
                        log(self.pi[i] / self.pi[j]), self.count(i, j), 0.5 * self.G[i, j] / unit,
                        sqrt(self.v[i, j]) / unit, &self.at[0], &self.mass[0], self.nodes,
                        &self.prior[m], &self.g[m], &self.wg[m], &self.wgg[m],
                    )
                    m += self.nodes
        falls /= unit
        bends /= unit * unit
        b, low, high = 0.0, -INFINITY, INFINITY
        for turn in range(50):
            if turn:
                doubts(&self.prior[0], &self.g[0], b, m, &self.r[0])
                sum_doubts(&self.wg[0], &self.wgg[0], &self.r[0], m, &falls, &bends)
            if falls > 0.0:
                low = b
            else:
                high = b
            size = 1.0 + fabs(b)
            step = falls / (bends + 1e-300)
            step = min(max(step, -8.0 * size), 8.0 * size)
            if fabs(step) <= 1e-13 * size:
                break
            if not low < b + step < high:
                b = 0.5 * (low + high)
                continue
            b += step
            if fabs(step) <= 1e-8 * size:
                break
        return max(b / unit, 0.0)

    cdef double count(self, Py_ssize_t i, Py_ssize_t j) noexcept:
        """Return the weight of a pair of classes in the slope."""
        return (
            self.pi[i] * self.pi[j] / (1.0 - self.pi[i]) * self.evidence[i] * self.evidence[j]
        )

    cdef void probabilities(self, const double* f, bint stream, double* p) noexcept:
        """Compute the probability of each class, given scores: ``Link.probabilities``."""
        cdef Py_ssize_t c = self.c, i, best = 0, most = 0
        cdef double z, one, total = 0.0, largest = -INFINITY
        if c == 1:
            p[0] = 1.0
            return
        if not self.has_slope[stream]:
            self.compute_slope(stream)
        if self.scorer.problems == 1:
            z = min(max(f[0], -1e300), 1e300)
            best = z > 0.0
            z *= self.slopes[stream]
            if stream:
                z += self.shift[1] - self.shift[0]
            one = 1.0 / (1.0 + exp(-fabs(z)))
            p[1] = one if z >= 0.0 else 1.0 - one
            p[0] = 1.0 - p[1]
        else:
            for i in range(c):
                z = min(max(f[i], -1e300), 1e300)
                if z > min(max(f[best], -1e300), 1e300):
                    best = i
                p[i] = self.slopes[stream] * z + (self.shift[i] if stream else 0.0)
                largest = max(largest, p[i])
            for i in range(c):
                p[i] = exp(p[i] - largest)
                total += p[i]
            for i in range(c):
                p[i] /= total
        for i in range(c):
            p[i] = p[i] * (1.0 - self.silent) + self.silent * (
                self.frequency[i] if stream else 1.0 / c
            )
            if p[i] > p[most]:
                most = i
        # Scores that differ in the last bit may round to one probability: keep their order.
        if not stream and most != best:
            p[best] = nextafter(p[most], 2.0)
