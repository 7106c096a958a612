# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Coefficients updated after a row in O(d^2), by an inverse that is a few rows old.

About the weighted mean of the classes a linear problem is, with f = t_0 + w.zeta,

    A w = z + kappa t h,     A = K + b s^2 + kappa h h',     t_0 = (a t + p h.w) / (a + p)

in the letters of ``solver/ridge.py``: kappa = a p / (a + p), and p is b, 0 or infinite for a
constant that is penalized, free or absent. Every solve computes A from the true moments, and uses
conjugate gradients from the last w. They are preconditioned by a kept inverse P, which is updated
by each learned row with the formula of Sherman and Morrison. An error of P costs steps, not digits.

Rows only add to second moments, so A >= theta P^-1, where theta is the least factor by which a
class's weight, its decay or a ridge has changed since P was made, times 1 - kappa h'Ph. Hence
|x.w - x.A^-1 z| <= (x'A^-1 x r'Pr / theta)^(1/2), and the steps end when r'Pr is at most theta
times TOLERANCE of z'A^-1 z.
"""

from libc.math cimport INFINITY, exp, sqrt
from libc.string cimport memcpy, memset

from scipy.linalg.cython_blas cimport dtrmm
from scipy.linalg.cython_lapack cimport dlauum, dpotrf, dtrtri

from counterpoise.stepwise._step_solver cimport StepSolver

cdef double TOLERANCE = 1e-20       # squared relative error, in the norm of the problem
cdef double MIN_PIVOT = 1e-7        # of a matrix of unit diagonal: below, use elimination
cdef double MIN_THETA = 0.1         # of an inverse that is still used
cdef Py_ssize_t MAX_REFINEMENT_STEPS = 16  # after which an inverse is too old
cdef Py_ssize_t MIN_REFINEMENT_STEPS = 2   # that every solve takes
cdef Py_ssize_t MIN_REUSES = 4             # solves that an inverse must serve
cdef Py_ssize_t SOLVES_AFTER_FAILURE = 32  # by elimination, after an inverse that did not


cdef void invert(double* L, int d, int stride) noexcept nogil:
    """Invert a lower triangle, by columns, in its place: in halves, because LAPACK's is slow."""
    cdef int info, half = (d // 2 + 7) // 8 * 8, rest = d - half
    cdef double one = 1.0, minus = -1.0
    cdef double* corner = L + half * (stride + 1)
    if d <= 16:
        dtrtri(b"L", b"N", &d, L, &stride, &info)
        return
    invert(L, half, stride)
    invert(corner, rest, stride)
    dtrmm(b"L", b"L", b"N", b"N", &rest, &half, &minus, corner, &stride, L + half, &stride)
    dtrmm(b"R", b"L", b"N", b"N", &rest, &half, &one, L, &stride, L + half, &stride)


cdef int invert_scaled(
    double* A, int d, int stride, double* e, double min_pivot
) noexcept nogil:
    """Invert a symmetric matrix, the upper triangle by rows, scaled to a unit diagonal by ``e``.

    Return 1 if a diagonal entry is not positive, 2 if a squared pivot is at most ``min_pivot``.
    """
    cdef Py_ssize_t i, j
    cdef int info
    for i in range(d):
        if not A[i * stride + i] > 0.0:
            return 1
        e[i] = 1.0 / sqrt(A[i * stride + i])
    for i in range(d):
        for j in range(i, d):
            A[i * stride + j] *= e[i] * e[j]
    dpotrf(b"L", &d, A, &stride, &info)
    if info:
        return 2
    for i in range(d):
        if not A[i * stride + i] * A[i * stride + i] > min_pivot:
            return 2
    invert(A, d, stride)
    dlauum(b"L", &d, A, &stride, &info)
    for i in range(d):
        for j in range(i, d):
            A[i * stride + j] *= e[i] * e[j]
    return 0


cdef class RefinedSolver:
    """Last solutions of a solver's linear problems, and inverses to refine them.

    ``steps`` and ``factors`` count steps of conjugate gradients, and inverses.
    """

    def __init__(self, StepSolver scorer):
        import numpy as np

        cdef Py_ssize_t d = scorer.s.d, c = scorer.c
        self.scorer, self.d, self.c = scorer, d, c
        self.systems = 1 if scorer.spec.together else scorer.problems
        self.columns = c if scorer.spec.together else scorer.problems
        self.A = np.zeros((d, d))
        self.P = np.zeros((self.systems, d, d))
        self.W = np.zeros((self.columns, d))
        self.alpha, self.N = np.zeros((2, self.systems, c))
        self.ridge = np.zeros((self.systems, d))
        self.constant = np.zeros(self.systems)
        self.spent, self.solves = np.zeros((2, self.systems), dtype=np.intp)
        self.row, self.centre, self.h, self.z, self.r, self.p, self.u, self.Au, self.e = np.zeros(
            (9, d)
        )
        self.pending = self.skips = self.steps = self.factors = 0

    cdef void learned(self, Py_ssize_t k, bint first) noexcept:
        """Note a learned row of class k: what it added to the scatter is in the solver's delta."""
        self.pending += 1
        if first:  # added nothing
            self.pending += 1
        elif self.pending == 1:
            self.slot = k
            memcpy(&self.row[0], self.scorer.s.delta, self.d * sizeof(double))

    cdef void discard(self) noexcept:
        """Discard all inverses, after another change of the moments."""
        memset(&self.constant[0], 0, self.systems * sizeof(double))
        self.pending = self.skips = 0

    cdef int weights(self, Py_ssize_t q, double* coef, double* offset) noexcept:
        """Compute coefficients of problem q in units of the input, and its score at the anchor.

        The solver has weighed and scaled. Return whether only elimination can.
        """
        cdef Py_ssize_t d = self.d
        cdef double theta, p, hw
        cdef double* w = &self.W[q, 0]
        self.lay_out(q)
        if self.ready(q, &theta) or self.refine(q, q, &theta):
            return 1
        hw = inner(&self.h[0], w, d)
        if self.scorer.spec.penalized:
            p = self.scorer.b
            offset[0] = (self.a * self.t + p * hw) / (self.a + p)
        else:
            offset[0] = self.t if self.scorer.spec.constant else hw
        offset[0] -= inner(w, &self.centre[0], d)
        memcpy(coef, w, d * sizeof(double))
        return 0

    cdef int all_weights(self, double[:, ::1] coef, double[::1] offset) noexcept:
        """Compute the same for all classes together."""
        cdef StepSolver s = self.scorer
        cdef Py_ssize_t d = self.d, q, k, j
        cdef double theta
        cdef double* w
        self.lay_out_all()
        if self.ready(0, &theta):
            return 1
        for q in range(self.c):
            k = s.spec.order[q]
            memset(&coef[q, 0], 0, d * sizeof(double))
            offset[q] = -INFINITY
            if s.N[k] == 0.0:
                continue
            w = &self.W[q, 0]
            for j in range(d):
                self.z[j] = s.mean[k, j] - self.centre[j]
            symmetric_times(&self.A[0, 0], d, d, w, &self.Au[0])
            for j in range(d):
                self.r[j] = self.z[j] - self.Au[j]
            if self.refine(0, q, &theta):
                return 1
            self.pending = 0  # the inverse has it now
            offset[q] = 0.0
            if s.spec.constant:
                offset[q] = s.prior(k) - 0.5 * self.a * inner(&self.z[0], w, d)
            for j in range(d):
                coef[q, j] = self.a * w[j]
            offset[q] -= inner(&coef[q, 0], &self.centre[0], d)
        return 0

    cdef void lay_out(self, Py_ssize_t q) noexcept:
        """Compute A of problem q, its right-hand side, and what the constant needs."""
        cdef StepSolver s = self.scorer
        cdef Py_ssize_t d = self.d, j, k, one = -1, two = -1, positive
        cdef double a = 0.0, t = 0.0, share, y
        positive = s.spec.order[self.c - 1] if s.problems == 1 else s.spec.order[q]
        memset(&self.centre[0], 0, d * sizeof(double))
        memset(&self.z[0], 0, d * sizeof(double))
        for k in range(self.c):
            a += s.a[q, k]
        for k in range(self.c):
            if s.a[q, k] > 0.0:
                one, two = (k, two) if one < 0 else (one, k)
                share = s.a[q, k] / a
                t += share * (1.0 if k == positive else -1.0)
                for j in range(d):
                    self.centre[j] += share * s.mean[k, j]
        self.a, self.t = a, t
        for j in range(d):
            self.h[j] = self.centre[j] - s.m[j]
        self.kappa = 0.0
        if s.spec.penalized:
            self.kappa = a * s.b / (a + s.b)
        elif not s.spec.constant:
            self.kappa = a
        if self.c == 2 and two >= 0:
            # sum a_k delta delta' = a_0 a_1 / a (mu_1 - mu_0)(mu_1 - mu_0)'
            for j in range(d):
                self.u[j] = s.mean[two, j] - s.mean[one, j]
            y = 1.0 if two == positive else -1.0
            share = s.a[q, one] * (s.a[q, two] / a)
            for j in range(d):
                self.z[j] = 2.0 * y * share * self.u[j]
            symmetric_of_two(
                s.s.C + one * s.s.size, s.s.C + two * s.s.size, s.s.stride,
                s.a[q, one] / s.n[one], s.a[q, two] / s.n[two], share, &self.u[0],
                self.kappa, &self.h[0], &self.W[q, 0], d, &self.A[0, 0], d, &self.Au[0],
            )
            self.add_ridge()
            for j in range(d):
                self.Au[j] += s.b * s.v[j] * self.W[q, j]
        else:
            memset(&self.A[0, 0], 0, d * d * sizeof(double))
            for k in range(self.c):
                if s.a[q, k] > 0.0:
                    y = 1.0 if k == positive else -1.0
                    for j in range(d):
                        self.u[j] = s.mean[k, j] - self.centre[j]
                        self.z[j] += s.a[q, k] * y * self.u[j]
                    symmetric_more(
                        s.s.C + k * s.s.size, s.s.stride, s.a[q, k] / s.n[k], d, &self.A[0, 0], d
                    )
                    symmetric_add(s.a[q, k], &self.u[0], d, &self.A[0, 0], d)
            self.add_ridge()
            if self.kappa > 0.0:
                symmetric_add(self.kappa, &self.h[0], d, &self.A[0, 0], d)
            symmetric_times(&self.A[0, 0], d, d, &self.W[q, 0], &self.Au[0])
        for j in range(d):
            self.z[j] += self.kappa * t * self.h[j]
            self.r[j] = self.z[j] - self.Au[j]

    cdef void lay_out_all(self) noexcept:
        """Compute A of all classes together, and their centre."""
        cdef StepSolver s = self.scorer
        cdef Py_ssize_t d = self.d, k
        self.a = s.total()
        self.kappa = 0.0
        memcpy(&self.centre[0], &s.centre[0], d * sizeof(double))
        memset(&self.A[0, 0], 0, d * d * sizeof(double))
        for k in range(self.c):
            if s.a[0, k] > 0.0:
                symmetric_more(
                    s.s.C + k * s.s.size, s.s.stride, s.a[0, k] / s.n[k], d, &self.A[0, 0], d
                )
        self.add_ridge()

    cdef void add_ridge(self) noexcept:
        cdef Py_ssize_t j
        for j in range(self.d):
            self.A[j, j] += self.scorer.b * self.scorer.v[j]

    cdef int ready(self, Py_ssize_t q, double* theta) noexcept:
        """Provide an inverse for problem q; return whether there is none."""
        if self.skips > 0:
            self.skips -= 1
            self.constant[q] = 0.0
            return 1
        theta[0] = self.kept(q)
        if theta[0] < MIN_THETA or self.spent[q] > self.d // 3 * (self.columns // self.systems):
            if self.factorise(q):
                return 1
            theta[0] = self.constant[q]
            return 0
        theta[0] *= self.constant[q]
        self.solves[q] += 1
        return 0

    cdef double kept(self, Py_ssize_t q) noexcept:
        """Return theta, the least factor of a weight since P was made; 0 without a P."""
        cdef StepSolver s = self.scorer
        cdef Py_ssize_t j, k
        cdef double theta = 1.0, ratio
        if self.constant[q] <= 0.0:
            return 0.0
        for k in range(self.c):
            if self.alpha[q, k] > 0.0:
                ratio = s.a[q, k] / s.n[k] / self.alpha[q, k] if s.n[k] > 0.0 else 0.0
                if s.spec.decays:
                    ratio *= exp(s.spec.rate[k] * (s.N[k] - self.N[q, k]))
                theta = min(theta, ratio)
        for j in range(self.d):
            if not s.b * s.v[j] >= theta * self.ridge[q, j]:
                theta = s.b * s.v[j] / self.ridge[q, j]
        return theta

    cdef void precondition(self, Py_ssize_t q) noexcept:
        """Compute p = P r, after P was updated by the learned row, if there is one.

        P - P x x'P alpha / (1 + alpha x'Px)
        """
        cdef StepSolver s = self.scorer
        cdef Py_ssize_t d = self.d, j
        cdef double alpha = 0.0, square, factor
        cdef double* P = &self.P[q, 0, 0]
        if self.pending == 1 and self.solves[q]:
            alpha = s.a[q, self.slot] / s.n[self.slot]
        if alpha <= 0.0:
            symmetric_times(P, d, d, &self.r[0], &self.p[0])
            return
        symmetric_times_two(P, d, d, &self.row[0], &self.r[0], &self.u[0], &self.p[0])
        square = inner(&self.row[0], &self.u[0], d)
        if square > 0.0:
            factor = -alpha / (1.0 + alpha * square)
            symmetric_add(factor, &self.u[0], d, P, d)
            factor *= inner(&self.u[0], &self.r[0], d)
            for j in range(d):
                self.p[j] += factor * self.u[j]

    cdef int factorise(self, Py_ssize_t q) noexcept:
        """Compute P = A^-1; return whether A is too near to a singular matrix."""
        cdef StepSolver s = self.scorer
        cdef int d = <int> self.d, failed
        cdef Py_ssize_t j, k
        cdef double* P = &self.P[q, 0, 0]
        if 0 < self.solves[q] < MIN_REUSES and self.constant[q] > 0.0:
            self.skips = SOLVES_AFTER_FAILURE  # inverses do not last here
        self.factors += 1
        self.constant[q] = 0.0
        self.spent[q] = self.solves[q] = 0
        memcpy(P, &self.A[0, 0], self.d * self.d * sizeof(double))
        failed = invert_scaled(P, d, d, &self.e[0], MIN_PIVOT)
        if failed:
            if failed > 1:
                self.skips = SOLVES_AFTER_FAILURE
            return 1
        for k in range(self.c):
            self.alpha[q, k] = s.a[q, k] / s.n[k] if s.a[q, k] > 0.0 else 0.0
            self.N[q, k] = s.N[k]
        for j in range(d):
            self.ridge[q, j] = s.b * s.v[j]
        self.constant[q] = 1.0
        if self.kappa > 0.0:
            symmetric_times(P, d, d, &self.h[0], &self.p[0])
            self.constant[q] = max(1.0 - self.kappa * inner(&self.h[0], &self.p[0], d), MIN_PIVOT)
        return 0

    cdef int refine(self, Py_ssize_t q, Py_ssize_t column, double* theta) noexcept:
        """Solve A w = z for one column, given r, with a new inverse if the old one is too old."""
        cdef Py_ssize_t steps
        self.precondition(q)
        steps = self.gradients(q, column, theta[0])
        if steps < 0:
            if self.solves[q] == 0 or self.factorise(q):  # no inverse helps
                self.constant[q] = 0.0
                return 1
            theta[0] = self.constant[q]
            memset(&self.W[column, 0], 0, self.d * sizeof(double))
            memcpy(&self.r[0], &self.z[0], self.d * sizeof(double))
            self.precondition(q)
            steps = self.gradients(q, column, theta[0])
            if steps < 0:
                self.constant[q] = 0.0
                memset(&self.W[column, 0], 0, self.d * sizeof(double))
                return 1
        self.steps += steps
        self.spent[q] += max(steps - MIN_REFINEMENT_STEPS, 0)
        return 0

    cdef Py_ssize_t gradients(self, Py_ssize_t q, Py_ssize_t column, double theta) noexcept:
        """Run conjugate gradients, given r and p; return their number, -1 if there are too many."""
        cdef Py_ssize_t d = self.d, step, j
        cdef double rp, new, uAu, size
        cdef double* w = &self.W[column, 0]
        cdef double* P = &self.P[q, 0, 0]
        cdef double* A = &self.A[0, 0]
        cdef double* z = &self.z[0]
        cdef double* r = &self.r[0]
        cdef double* p = &self.p[0]
        cdef double* u = &self.u[0]
        cdef double* Au = &self.Au[0]
        theta *= TOLERANCE
        if inner(z, z, d) == 0.0:
            memset(w, 0, d * sizeof(double))
            return 0
        rp = inner(r, p, d)
        memcpy(u, p, d * sizeof(double))
        for step in range(MAX_REFINEMENT_STEPS):
            if not rp >= 0.0:  # not positive definite, or not finite
                return -1
            if rp <= theta * inner(z, w, d):
                return step
            symmetric_times(A, d, d, u, Au)
            uAu = inner(u, Au, d)
            if not uAu > 0.0:
                return -1
            size = rp / uAu
            for j in range(d):
                w[j] += size * u[j]
                r[j] -= size * Au[j]
            symmetric_times(P, d, d, r, p)
            new = inner(r, p, d)
            size = new / rp
            rp = new
            for j in range(d):
                u[j] = p[j] + size * u[j]
        return -1
