# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Exact scores of a block of steps from one inverse, with a bound on their error.

Model i of a block solves R_i w_i = z_i for two classes, with

    R_i = alpha_0i M_0 + alpha_1i M_1 + Phi_i W_i Phi_i' + b_i (V_i + q_i q_i')

where M_k are the second moments of class k before the block and Phi_i the rows of the block that
were learned so far. The scorer keeps P = A^-1 of one A = a_0 M_0 + a_1 M_1 + b (I + q q'), in the
units of its own beginning, and N = a_1 M_1 - a_0 M_0 + b_n (I + q q'). Then

    R_i = B_i + F_i,   B_i = c_i A + Phi_i W_i Phi_i',   F_i = e_i N + E_i + small rank,

where c_i + e_i and c_i - e_i are alpha_ki / a_k and E_i is diagonal: b_i V_i - c_i b - e_i b_n. The
inverse of B_i follows from the formula of Woodbury. With w~ = B_i^-1 z_i, x~ = B_i^-1 x_i and their
residuals rho_z = -F_i w~, rho_x = -F_i x~ the score is

    x'R_i^-1 z = x'w~ + x~'rho_0 + rho_x'(y_0 + y_1 + ...)

with rho_0 = rho_z, y_k = B_i^-1 rho_k and rho_k+1 = -F_i y_k. What is left out after y_k is at
most |rho_x| |rho_k+1|, in the norm of R_i^-1. Both lengths are bounded by known numbers:
-A <= N <= A and P <= 1/b, so that |N u|_P <= |u|_A and
|E u|_P <= |E u| / b^1/2. Whether P still is the inverse of A is measured in every block.

When a block is learned, P takes its rows in. It is computed again when
this is faster than the additional y_k that the steps need.
"""

from libc.math cimport fabs, sqrt
from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

from scipy.linalg.cython_blas cimport dgemm, dgemv, dsyrk, dtrsm
from scipy.linalg.cython_lapack cimport dpotrf, dpotri

from counterpoise.stepwise._step_solver cimport StepSolver

cdef extern from "block_scorer.h" nogil:
    enum: LANES
    void combine(
        Py_ssize_t d, const double* C_0, const double* C_1, Py_ssize_t stride, double w_0,
        double w_1, const double* s, double t_0, const double* nu_0, double t_1,
        const double* nu_1, double p, const double* q, double ridge, double* out
    )
    void variances(
        Py_ssize_t d, const double* mean, const double* C_jj, const double* pi, const double* n,
        const double* anchor, double* m, double* v
    )
    void join(
        Py_ssize_t d, const double* x, const double* anchor, double keep, double share,
        double grow, double* mean, double* C_jj
    )
    double ridge_of_step(
        Py_ssize_t d, const double* v, const double* m, const double* s, const double* c,
        const double* q, double b, double beta, double penalty, double* E, double* dq,
        double* least
    )
    double perturb(
        Py_ssize_t D, const double* u, const double* E, const double* dq, const double* q,
        double p, double beta, double most, double moved, double inverse_b, double* out
    )
    double reorigin(
        Py_ssize_t D, const double* u, const double* dq, const double* g, double a,
        double moved, double length, double* out
    )
    void eliminate_lanes(
        Py_ssize_t size, Py_ssize_t m, const double* T, Py_ssize_t ldt, const double* w,
        double* U, double* inverse
    )
    void solve_lanes(
        Py_ssize_t size, Py_ssize_t m, const double* U, const double* inverse, const double* w,
        double* t
    )
    void approach(
        Py_ssize_t d, const double* x, const double* anchor, double share, double root,
        double* mean, double* delta, double* nonconstant_weight
    )
    void add_mirrored(Py_ssize_t d, const double* B, double* C, Py_ssize_t stride)
    void add_weight(double w, double* n, double* weight_remainder)
    void hash_rows(
        const double* X, Py_ssize_t d, const Py_ssize_t* rows, Py_ssize_t m,
        const double* weight, uint64_t* plain, uint64_t* mixed
    )
    int MIN_GEMM_ROWS, MAX_GEMM_ROWS
    void multiply(
        Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t inner, const double* A, Py_ssize_t lda,
        const double* B, Py_ssize_t ldb, int more, double* C, Py_ssize_t ldc
    )

cdef extern from "symmetric.h" nogil:
    double inner(const double* a, const double* b, Py_ssize_t d)

cdef int MAX_ITERATIONS = 24  # y_k at most
cdef double MAX_CONDITION = 5e7  # of A: above, elimination is more exact than an inverse
cdef double ONE = 1.0, ZERO = 0.0


cdef void product(
    int rows, int columns, int inner, double alpha, const double* A, int lda,
    const double* B, int ldb, double beta, double* C, int ldc
) noexcept nogil:
    """C = alpha A B + beta C, by columns."""
    if MIN_GEMM_ROWS <= rows < MAX_GEMM_ROWS and alpha == 1.0 and (beta == 0.0 or beta == 1.0):
        multiply(rows, columns, inner, A, lda, B, ldb, beta == 1.0, C, ldc)
    else:
        dgemm(
            b"N", b"N", &rows, &columns, &inner, &alpha, <double*> A, &lda, <double*> B, &ldb,
            &beta, C, &ldc,
        )


cdef class BlockScorer(StepSolver):
    """A solver of blocks of up to ``room`` steps, which keeps an inverse between them."""

    cdef readonly list counts
    cdef Py_ssize_t room
    cdef bint begun, held, late
    cdef int m_
    cdef double least, extra, b_c, b_n, most
    cdef double a_[2]
    cdef double past[2]
    cdef double faded[256]
    cdef int open_[256]
    cdef const double* X
    cdef const double* scored
    cdef const Py_ssize_t* codes
    cdef double[:, ::1] own         # anchor, centre, 1 / s, q, nu_0, nu_1, and workspace
    cdef double[:, ::1] simulated   # means (2), diagonals (2), m, v
    cdef double[:, ::1] P, A, N_, B, V, G, E, dq, rho, y, next, w, Nw, T, g, z, t
    cdef double[:, ::1] lanes, inverse, root, side, steps, weight, K, deltas, sums, first
    cdef double[::1] ones
    cdef Py_ssize_t[::1] rows

    def __init__(self, spec, moments, Py_ssize_t room):
        StepSolver.__init__(self, spec, moments)
        self.room = room
        self.counts = [0, 0, 0, 0]  # blocks, rounds, inverses, failed blocks

    def prepare(self):
        """Allocate the workspace, when a stream first needs it."""
        import numpy as np

        cdef Py_ssize_t d = self.s.d, D = d + 1, m = self.room, basis = 2 * m + 2
        self.begun = 1
        self.own = np.zeros((10, D))
        self.simulated = np.zeros((6, d))
        self.P, self.A, self.N_ = np.zeros((3, D, D))
        self.B, self.V, self.G = np.zeros((3, basis, D))
        self.E, self.dq, self.rho, self.y, self.next = np.zeros((5, m, D))
        self.w, self.Nw = np.zeros((2, 2 * m, D))
        self.T = np.zeros((basis, m + 2))
        self.g, self.z = np.zeros((2 * m, basis)), np.zeros((m, basis))
        self.t = np.zeros((2 * m, m + 2))
        lanes = (m + LANES - 1) // LANES
        self.lanes = np.zeros((lanes, m * m * LANES))
        self.inverse, self.root, self.side = np.zeros((3, lanes, m * LANES))
        self.steps = np.zeros((16, m + 1))
        self.weight, self.sums = np.zeros((m, m)), np.zeros((2, m))
        self.first = np.zeros((0 if self.spec.constant else m, D))
        self.K = np.zeros((m, m))
        self.deltas = np.zeros((m, d))
        self.ones = np.ones(m)
        self.rows = np.zeros(m, dtype=np.intp)

    # The numbers of a step, by their row in ``steps``.
    # 0 c, 1 e, 2 b, 3 beta, 4 alpha_0, 5 alpha_1, 6 length of dq, 7 what is left of c, 8 |rho_x|,
    # 9 bound, 10 score, 11 length of x~, 12 weight of rows of class 0, 13 of class 1, 14 done

    def run_blocks(
        self, const double[:, ::1] X, const Py_ssize_t[::1] codes, Py_ssize_t delay,
        Py_ssize_t start, Py_ssize_t stop, Py_ssize_t size, double tolerance,
        double[:, ::1] scores
    ):
        """Take steps ``start`` to ``stop`` in blocks: score and learn, within the tolerance.

        Blocks end at multiples of ``size``. Return the start of the first block that fails, of
        which nothing was learned, or ``stop``.
        """
        cdef int m, rounds = 0
        cdef Py_ssize_t i, blocks = 0, taken = 0, inverses = 0, given_up = 0
        cdef bint fresh
        if not self.begun:
            self.prepare()
        self.late = delay > 0
        with nogil:
            while start < stop and not given_up:
                m = <int> min(size - start % size, stop - start)
                self.X = &X[start - delay, 0]
                self.scored = &X[start, 0]
                self.codes = &codes[start - delay]
                self.m_ = m
                fresh = self.outdated()
                if fresh and self.invert():
                    rounds = -1
                else:
                    rounds = self.solve_all(tolerance)
                if rounds < 0 and not fresh:
                    fresh = True
                    rounds = -1 if self.invert() else self.solve_all(tolerance)
                blocks += 1
                inverses += fresh
                if rounds < 0:
                    self.held = 0
                    given_up = 1
                else:
                    for i in range(m):
                        scores[start + i, 0] = self.steps[10, i]
                    if fresh:
                        self.least, self.extra = rounds, 0.0
                    else:  # rounds that a newer inverse would have saved
                        self.extra += max(rounds - self.least, 0)
                    if self.keep_inverse():
                        self.held = 0
                    self.learn_block()
                    taken += rounds
                    start += m
        self.counts = [
            one + more
            for one, more in zip(self.counts, (blocks, taken, inverses, given_up), strict=True)
        ]
        return start

    cdef bint outdated(self) noexcept nogil:
        """Return whether P must be computed again: it is lost, or costs more than it saves."""
        cdef Py_ssize_t j, d = self.s.d
        if not self.held or self.extra * 4.0 * self.m_ > 2.0 * (d + 1):
            return True
        for j in range(d):
            if self.own[0, j] != self.anchor[j]:
                return True
        return False

    # -- the steps ---------------------------------------------------------------------------

    cdef void weigh_steps(self) noexcept nogil:
        """Compute alpha_k, b and the weights of rows of every step of the block."""
        cdef int m = self.m_, i, k, l
        cdef double n[2]
        cdef double N[2]
        cdef double past[2]
        cdef double faded
        cdef double size, total, squares
        for k in range(2):
            n[k], N[k], past[k] = self.n[k], self.N[k], 1.0
        for i in range(m + 1):
            total = squares = 0.0
            for k in range(2):
                size = self.spec.factor[k] * (1.0 if self.spec.balanced else N[k])
                total += size
                squares += size * size / max(n[k], 1.0)
                size /= n[k]
                self.steps[4 + k, i] = size * past[k]
                self.steps[12 + k, i] = size
            self.steps[15, i] = total
            self.steps[2, i] = (
                self.spec.rows * squares / total if self.spec.rows > 0.0 else self.spec.b
            )
            if i < m:
                k = <int> self.codes[i]
                n[k] = self.spec.gamma[k] * n[k] + 1.0
                N[k] += 1.0
                past[k] *= self.spec.gamma[k]
        self.past[0], self.past[1] = past[0], past[1]
        for i in range(m):  # weight of row l in model i: decay of its class since then
            n[0] = n[1] = 1.0
            for l in range(i - 1, -1, -1):
                k = <int> self.codes[l]
                self.weight[i, l] = self.steps[12 + k, i] * n[k]
                n[k] *= self.spec.gamma[k]
        n[0] = n[1] = 1.0
        for l in range(m - 1, -1, -1):
            k = <int> self.codes[l]
            self.faded[l] = n[k]
            n[k] *= self.spec.gamma[k]

    cdef void simulate(self, int until, bint ridges) noexcept nogil:
        """Compute the scaling of every step up to ``until``, and with ``ridges`` its difference."""
        cdef Py_ssize_t d = self.s.d, D = d + 1, j, k
        cdef int i
        cdef double n[2]
        cdef double N[2]
        cdef double pi[2]
        cdef double n_a, share, low, length, penalty, b
        cdef double* mean = &self.simulated[0, 0]
        cdef double* C_jj = &self.simulated[2, 0]
        cdef double* m = &self.simulated[4, 0]
        cdef double* v = &self.simulated[5, 0]
        cdef const double* x
        for k in range(2):
            n[k], N[k] = self.n[k], self.N[k]
            for j in range(d):
                mean[k * d + j] = self.mean[k, j]
                C_jj[k * d + j] = self.s.C[k * self.s.size + j * (self.s.stride + 1)]
        for i in range(until + 1):
            if self.spec.standard:
                pi[0] = N[0] / (N[0] + N[1])
                pi[1] = 1.0 - pi[0]
                variances(d, mean, C_jj, pi, n, &self.anchor[0], m, v)
            else:
                for j in range(d):
                    m[j] = -self.anchor[j]
                    v[j] = 1.0
            if ridges:
                b = self.steps[2, i]
                penalty = 0.0 if self.spec.constant and not self.spec.penalized else 1.0
                length = ridge_of_step(
                    d, v, m, &self.own[2, 0], &self.own[1, 0], &self.own[3, 0], b,
                    self.steps[3, i], penalty, &self.E[i, 0], &self.dq[i, 0], &low
                )
                length = sqrt(length)
                self.steps[6, i] = length
                if not self.spec.constant:
                    # X'aX <= (1 + s) X_i'a X_i + (1 + 1 / s) a dq dq' about the other origin
                    share = sqrt(self.steps[15, i] * self.most) * length
                    self.steps[7, i] = (
                        min(
                            self.steps[0, i] - fabs(self.steps[1, i]),
                            (low + self.steps[3, i]) / self.b_c
                        ) - share - share * share
                    ) / (1.0 + share)
                else:
                    # R_i >= left A: of the classes at least c - |e|, and of the ridge what V_i and
                    # q_i leave, for q q' <= (1 + length) q_i q_i' + (1 + 1 / length) dq dq'
                    low = (low + self.steps[3, i]) / (1.0 + length + length * length)
                    self.steps[7, i] = min(
                        self.steps[0, i] - fabs(self.steps[1, i]),
                        min(b / (1.0 + length), low) / self.b_c
                    )
            if i == until:
                break
            k = self.codes[i]
            x = self.X + i * d
            n_a = self.spec.gamma[k] * n[k]
            n[k] = n_a + 1.0
            N[k] += 1.0
            share = 1.0 / n[k]
            if self.spec.standard:
                join(
                    d, x, &self.anchor[0], self.spec.gamma[k], share, n_a * share, mean + k * d,
                    C_jj + k * d
                )

    cdef void place(self) noexcept nogil:
        """Compute the means of the classes in the units of A: [1, nu_k]."""
        cdef Py_ssize_t j, k, d = self.s.d
        for k in range(2):
            self.own[4 + k, 0] = 1.0 if self.spec.constant else 0.0
            for j in range(d):
                self.own[4 + k, j + 1] = (self.mean[k, j] - self.own[1, j]) * self.own[2, j]

    cdef int invert(self) noexcept nogil:
        """Compute units, A and P for the steps of this block; return 1 if A is singular."""
        cdef Py_ssize_t d = self.s.d, j, i
        cdef int D = <int> d + 1, middle = self.m_ // 2, info, k
        cdef double total, sum, trace
        cdef double* P = &self.P[0, 0]
        self.held = 0
        self.weigh_steps()
        self.simulate(middle, False)
        self.a_[0], self.a_[1] = self.steps[4, middle], self.steps[5, middle]
        for k in range(self.m_):  # steps must not be so far apart
            if fabs(self.steps[4, k] / self.a_[0] - self.steps[5, k] / self.a_[1]) > 1.0:
                return 1
        total = self.a_[0] * self.n[0] + self.a_[1] * self.n[1]
        self.b_c = self.steps[2, middle]
        self.b_n = 0.0
        if self.spec.rows > 0.0 and self.spec.balanced and not self.spec.decays:
            # The ridge is a sum over classes: each has its share in M_k.
            self.b_n = self.b_c * (
                self.spec.factor[1] * self.a_[1] - self.spec.factor[0] * self.a_[0]
            ) / (self.spec.factor[1] * self.a_[1] + self.spec.factor[0] * self.a_[0])
        self.own[3, 0] = 1.0 if self.spec.penalized else 0.0
        for j in range(d):
            self.own[0, j] = self.anchor[j]
            self.own[1, j] = (
                self.a_[0] * self.n[0] * self.mean[0, j] + self.a_[1] * self.n[1] * self.mean[1, j]
            ) / total
            if not self.spec.constant:
                self.own[1, j] = self.simulated[4, j]
            self.own[2, j] = 1.0 / sqrt(self.simulated[5, j])
            self.own[3, j + 1] = (
                self.own[3, 0] * (self.simulated[4, j] - self.own[1, j]) * self.own[2, j]
            )
        self.place()
        combine(
            d, self.s.C, self.s.C + self.s.size, self.s.stride, self.a_[0], self.a_[1],
            &self.own[2, 0], self.a_[0] * self.n[0], &self.own[4, 0], self.a_[1] * self.n[1],
            &self.own[5, 0], self.b_c, &self.own[3, 0], self.b_c, P
        )
        if not self.spec.constant:
            P[0] = 1.0
        trace = 0.0
        for j in range(1, D):
            trace += P[j + j * D]
        dpotrf(b"L", &D, P, &D, &info)
        if info:
            return 1
        dpotri(b"L", &D, P, &D, &info)
        if info:
            return 1
        for j in range(D):
            for i in range(j):
                P[i + j * D] = P[j + i * D]
        # |P|, of all features but the constant
        self.most = 0.0
        for j in range(1, D):
            sum = 0.0
            for i in range(1, D):
                sum += fabs(P[i + j * D])
            self.most = max(self.most, sum)
        self.most = min(1.05 * self.most, 1.0 / self.b_c)
        if self.most * trace > MAX_CONDITION:
            return 1
        self.held = 1
        return 0

    # -- the scores --------------------------------------------------------------------------

    cdef int solve_all(self, double tolerance) noexcept nogil:
        """Compute the scores of all steps; return their rounds, or -1 if they are not exact."""
        cdef Py_ssize_t d = self.s.d, j
        cdef int D = <int> d + 1, m = self.m_, k, i, l, basis, size, lane, rounds, place, both
        cdef int count = m + 2, ldb = <int> self.B.shape[0], ldt = <int> self.T.shape[1], open_
        cdef double ratio[2]
        cdef double y, off, norm, length, bound
        cdef double* root
        self.weigh_steps()
        self.place()
        for i in range(m):
            ratio[0], ratio[1] = self.steps[4, i] / self.a_[0], self.steps[5, i] / self.a_[1]
            self.steps[0, i] = 0.5 * (ratio[0] + ratio[1])
            self.steps[1, i] = 0.5 * (ratio[1] - ratio[0])
            self.steps[3, i] = self.steps[0, i] * self.b_c + self.steps[1, i] * self.b_n
        self.simulate(m - 1, True)
        for i in range(m):
            if not self.steps[7, i] > 0.1:
                return -1
        # The basis: rows learned, n_k [1, nu_k], and rows scored if they are others.
        self.scale_rows(self.X, 0)
        for k in range(2):
            for j in range(D):
                self.B[m + k, j] = self.n[k] * self.own[4 + k, j]
        basis = count
        if self.late:
            basis += m
            self.scale_rows(self.scored, count)
        product(D, basis, D, 1.0, &self.P[0, 0], D, &self.B[0, 0], D, 0.0, &self.V[0, 0], D)
        dgemm(b"T", b"N", &count, &basis, &D, &ONE, &self.B[0, 0], &D, &self.V[0, 0], &D, &ZERO,
              &self.T[0, 0], &ldt)
        # z_i = sum_k alpha_k y_k Z_k + Phi_i W_i y by its coordinates in the basis; so is x_i
        place = count if self.late else 0
        both = 2 * m
        memset(&self.g[0, 0], 0, both * ldb * sizeof(double))
        memset(&self.root[0, 0], 0, self.root.shape[0] * self.root.shape[1] * sizeof(double))
        for i in range(m):
            for k in range(2):
                y = 1.0 if k == self.spec.order[1] else -1.0
                self.g[i, m + k] = self.steps[4 + k, i] * y
            root = &self.root[i // LANES, i % LANES]
            for l in range(i):
                y = 1.0 if self.codes[l] == self.spec.order[1] else -1.0
                self.g[i, l] = self.weight[i, l] * y
                root[l * LANES] = sqrt(self.weight[i, l] / self.steps[0, i])
            self.g[m + i, place + i] = 1.0
        memcpy(&self.z[0, 0], &self.g[0, 0], m * ldb * sizeof(double))
        if not self.spec.constant:
            self.sum_up(count)
        # T g: what the rows see of both; then B_i^-1 = (P - V w K^-1 w V') / c_i
        product(count, both, basis, 1.0, &self.T[0, 0], ldt, &self.g[0, 0], ldb, 0.0,
                &self.t[0, 0], ldt)
        for lane in range((m + LANES - 1) // LANES):
            size = min((lane + 1) * LANES, m)
            eliminate_lanes(
                size, m, &self.T[0, 0], ldt, &self.root[lane, 0], &self.lanes[lane, 0],
                &self.inverse[lane, 0]
            )
        for i in range(m):
            self.open_[i] = i
        self.absorb(0, m)
        self.absorb(m, m)
        for i in range(both):
            for l in range(basis):
                self.g[i, l] /= self.steps[0, i % m]
        product(D, both, basis, 1.0, &self.V[0, 0], D, &self.g[0, 0], ldb, 0.0, &self.w[0, 0], D)
        combine(
            d, self.s.C, self.s.C + self.s.size, self.s.stride, -self.a_[0], self.a_[1],
            &self.own[2, 0], -self.a_[0] * self.n[0], &self.own[4, 0], self.a_[1] * self.n[1],
            &self.own[5, 0], self.b_n, &self.own[3, 0], self.b_n, &self.N_[0, 0]
        )
        product(D, basis, D, 1.0, &self.N_[0, 0], D, &self.V[0, 0], D, 0.0, &self.G[0, 0], D)
        product(D, both, basis, 1.0, &self.G[0, 0], D, &self.g[0, 0], ldb, 0.0, &self.Nw[0, 0], D)
        # T g once more, for z'w~
        product(count, m, count, 1.0, &self.T[0, 0], ldt, &self.g[0, 0], ldb, 0.0,
                &self.t[0, 0], ldt)
        off = self.inverse_residual()
        for i in range(m):
            # rho_x and rho_z, with their lengths
            length = inner(&self.B[place + i, 0], &self.w[m + i, 0], D)
            if not length >= 0.0:
                return -1
            self.steps[11, i] = sqrt(length / self.steps[0, i])
            bound = self.residual(i, &self.w[m + i, 0], self.steps[11, i], &self.rho[i, 0])
            if not self.spec.constant:
                bound += sqrt(self.most) * self.steps[6, i]
            self.steps[8, i] = bound
            for j in range(D):
                self.w[m + i, j], self.rho[i, j] = self.rho[i, j], self.w[m + i, j]
                self.w[m + i, j] -= self.steps[1, i] * self.Nw[m + i, j]
                if not self.spec.constant:
                    self.w[m + i, j] -= self.dq[i, j]
            # now x~ is in rho and rho_x in w[m + i]
            norm = inner(&self.z[i, 0], &self.t[i, 0], count)
            if not norm >= 0.0:
                return -1
            norm = sqrt(norm / self.steps[0, i])
            bound = self.residual(i, &self.w[i, 0], norm, &self.next[i, 0])
            for j in range(D):
                self.next[i, j] -= self.steps[1, i] * self.Nw[i, j]
            self.steps[10, i] = inner(&self.B[place + i, 0], &self.w[i, 0], D)
            if not self.spec.constant:
                y = self.sums[1, i]
                bound += sqrt(self.most) * self.steps[6, i] * fabs(y)
                for j in range(D):
                    self.next[i, j] -= y * self.dq[i, j]
                self.steps[10, i] -= inner(&self.dq[i, 0], &self.w[i, 0], D)
            self.steps[10, i] += inner(&self.rho[i, 0], &self.next[i, 0], D)
            # what P itself is off by counts as if it were an error of both
            self.steps[14, i] = 4.0 * off * self.steps[11, i] * norm
            self.steps[9, i] = self.steps[14, i] + self.steps[8, i] * bound / self.steps[7, i]
            if self.steps[14, i] > tolerance * max(1.0, fabs(self.steps[10, i])):
                return -1
        # Rounds for the steps that are still open, which stand side by side.
        rounds, open_ = 0, self.close(m, tolerance)
        while open_:
            if rounds == MAX_ITERATIONS:
                return -1
            if rounds:
                product(D, open_, D, 1.0, &self.N_[0, 0], D, &self.y[0, 0], D, 0.0,
                        &self.rho[0, 0], D)
                for l in range(open_):
                    off = self.steps[1, self.open_[l]]
                    for j in range(D):
                        self.next[l, j] -= off * self.rho[l, j]
            self.apply(open_)
            rounds += 1
            for l in range(open_):
                i = self.open_[l]
                norm = inner(&self.next[l, 0], &self.y[l, 0], D)
                if not norm >= 0.0:
                    return -1
                norm = sqrt(norm / self.steps[0, i])
                self.steps[10, i] += inner(&self.w[m + i, 0], &self.y[l, 0], D)
                bound = self.residual(i, &self.y[l, 0], norm, &self.next[l, 0])
                self.steps[9, i] = self.steps[14, i] + self.steps[8, i] * bound / self.steps[7, i]
            open_ = self.close(open_, tolerance)
        return rounds

    cdef void scale_rows(self, const double* X, int first) noexcept nogil:
        """Write the rows of the block, in the units of A, into the basis from ``first`` on."""
        cdef Py_ssize_t d = self.s.d, i, j
        cdef double* phi
        for i in range(self.m_):
            phi = &self.B[first + i, 0]
            phi[0] = self.own[4, 0]
            for j in range(d):
                phi[j + 1] = ((X[i * d + j] - self.anchor[j]) - self.own[1, j]) * self.own[2, j]

    cdef int close(self, int count, double tolerance) noexcept nogil:
        """Move steps that are not exact enough to the front; return how many there are."""
        cdef int l, i, left = 0, D = <int> self.s.d + 1
        for l in range(count):
            i = self.open_[l]
            if not self.steps[9, i] <= tolerance * max(1.0, fabs(self.steps[10, i])):
                if left < l:
                    self.open_[left] = i
                    memcpy(&self.next[left, 0], &self.next[l, 0], D * sizeof(double))
                    memcpy(&self.y[left, 0], &self.y[l, 0], D * sizeof(double))
                left += 1
        return left

    cdef double residual(
        self, int i, const double* u, double length, double* out
    ) noexcept nogil:
        """Compute the part of -F_i u without N; return a bound of the length of all of it."""
        cdef double bound = fabs(self.steps[1, i]) * length + perturb(
            self.s.d + 1, u, &self.E[i, 0], &self.dq[i, 0], &self.own[3, 0],
            self.steps[2, i] if self.spec.penalized else 0.0, self.steps[3, i], self.most,
            self.steps[6, i], 1.0 / self.b_c, out
        )
        if self.spec.constant:
            return bound
        return bound + reorigin(
            self.s.d + 1, u, &self.dq[i, 0], &self.first[i, 0], self.steps[15, i],
            sqrt(self.most) * self.steps[6, i], self.sums[0, i], out
        )

    cdef void sum_up(self, int count) noexcept nogil:
        """Compute sums of weighted rows and of weighted targets, about the origin of A.

        Without a constant, the origin of step i is m_i, which differs from that of A.
        """
        cdef int D = <int> self.s.d + 1, m = self.m_, ldb = <int> self.B.shape[0], i, l, k
        cdef double y, length
        for i in range(m):
            y = 0.0
            length = (self.steps[0, i] + fabs(self.steps[1, i])) * sqrt(
                self.a_[0] * self.n[0] + self.a_[1] * self.n[1]
            )
            for l in range(i):
                y += self.z[i, l]
                length += self.weight[i, l] * sqrt(max(self.T[l, l], 0.0))
            for k in range(2):
                y += self.n[k] * self.z[i, m + k]
            self.sums[0, i], self.sums[1, i] = length, y
            for l in range(count):
                self.t[i, l] = fabs(self.z[i, l])
        product(D, m, count, 1.0, &self.B[0, 0], D, &self.t[0, 0], <int> self.T.shape[1], 0.0,
                &self.first[0, 0], D)

    cdef void absorb(self, int first, int count) noexcept nogil:
        """Subtract w K^-1 w t from g for the open steps, ``first`` rows further down."""
        cdef int i, l = 0, r, lane, v, size, start
        cdef double* side
        while l < count:  # they are in order: those of a lane are together
            start, lane = l, self.open_[l] // LANES
            size = min((lane + 1) * LANES, self.m_)
            side = &self.side[lane, 0]
            memset(side, 0, size * LANES * sizeof(double))
            while l < count and self.open_[l] // LANES == lane:
                v = self.open_[l] % LANES
                for r in range(size):
                    side[r * LANES + v] = self.t[first + l, r]
                l += 1
            solve_lanes(
                size, self.m_, &self.lanes[lane, 0], &self.inverse[lane, 0], &self.root[lane, 0],
                side
            )
            for i in range(start, l):
                v = self.open_[i] % LANES
                for r in range(size):
                    self.g[first + i, r] -= side[r * LANES + v]

    cdef void apply(self, int count) noexcept nogil:
        """Compute y = B_i^-1 rho for ``count`` open steps."""
        cdef int D = <int> self.s.d + 1, m = self.m_, l, ldt = <int> self.T.shape[1]
        cdef int ldb = <int> self.B.shape[0]
        cdef Py_ssize_t j
        cdef double scale
        product(D, count, D, 1.0, &self.P[0, 0], D, &self.next[0, 0], D, 0.0, &self.y[0, 0], D)
        dgemm(b"T", b"N", &m, &count, &D, &ONE, &self.V[0, 0], &D, &self.next[0, 0], &D, &ZERO,
              &self.t[0, 0], &ldt)
        memset(&self.g[0, 0], 0, count * ldb * sizeof(double))
        self.absorb(0, count)
        product(D, count, m, 1.0, &self.V[0, 0], D, &self.g[0, 0], ldb, 1.0, &self.y[0, 0], D)
        for l in range(count):
            scale = 1.0 / self.steps[0, self.open_[l]]
            for j in range(D):
                self.y[l, j] *= scale

    cdef double inverse_residual(self) noexcept nogil:
        """Return |g - A P g| / |g| in the norm of P, for the alternating sum g of the basis."""
        cdef Py_ssize_t d = self.s.d, j, k
        cdef int D = <int> d + 1, small = <int> d, one = 1, stride = <int> self.s.stride, l
        cdef double sign = 1.0, along, size
        cdef double* g = &self.own[6, 0]
        cdef double* v = &self.own[7, 0]
        cdef double* u = &self.own[8, 0]
        cdef double* out = &self.own[9, 0]
        for j in range(D):
            g[j] = v[j] = 0.0
        for l in range(self.m_ + 2):
            for j in range(D):
                g[j] += sign * self.B[l, j]
                v[j] += sign * self.V[l, j]
            sign = -sign
        size = inner(g, v, D)
        along = self.b_c * inner(&self.own[3, 0], v, D)
        g[0] -= along * self.own[3, 0]
        for j in range(d):
            u[j] = self.own[2, j] * v[j + 1]
            g[j + 1] -= along * self.own[3, j + 1] + self.b_c * v[j + 1]
        for k in range(2):
            along = self.a_[k] * self.n[k] * inner(&self.own[4 + k, 0], v, D)
            dgemv(b"N", &small, &small, &self.a_[k], self.s.C + k * self.s.size, &stride, u, &one,
                  &ZERO, out, &one)
            g[0] -= along * self.own[4 + k, 0]
            for j in range(d):
                g[j + 1] -= self.own[2, j] * out[j] + along * self.own[4 + k, j + 1]
        dgemv(b"N", &D, &D, &ONE, &self.P[0, 0], &D, g, &one, &ZERO, v, &one)
        along = inner(g, v, D)
        return sqrt(max(along, 0.0) / size) if size > 0.0 else 1.0

    # -- learning ----------------------------------------------------------------------------

    cdef int keep_inverse(self) noexcept nogil:
        """Update P by the rows of the block: P -= V w (1 + w T w)^-1 w V'; return 1 if it fails."""
        cdef int D = <int> self.s.d + 1, m = self.m_, i, l, info, ldk = <int> self.K.shape[0]
        cdef Py_ssize_t j
        cdef double root
        cdef double* turned
        self.a_[0] /= self.past[0]
        self.a_[1] /= self.past[1]
        for i in range(m):
            root = sqrt(self.a_[self.codes[i]] * self.faded[i])
            self.faded[i] = root
            for j in range(D):
                self.w[i, j] = root * self.V[i, j]
        for i in range(m):
            for l in range(i, m):
                self.K[i, l] = self.faded[i] * self.faded[l] * self.T[i, l]
            self.K[i, i] += 1.0
        dpotrf(b"L", &m, &self.K[0, 0], &ldk, &info)
        if info:
            return 1
        # w L^-T, of which the square is what P loses
        dtrsm(b"R", b"L", b"T", b"N", &D, &m, &ONE, &self.K[0, 0], &ldk, &self.w[0, 0], &D)
        turned = &self.y[0, 0]
        for i in range(m):
            for j in range(D):
                turned[j * m + i] = -self.w[i, j]
        product(D, D, m, 1.0, &self.w[0, 0], D, turned, m, 1.0, &self.P[0, 0], D)
        return 0

    cdef void learn_block(self) noexcept nogil:
        """Learn the rows of the block: vectors row by row, the matrix in one product."""
        cdef Py_ssize_t d = self.s.d, i, j, k, last = self.m_ - 1
        cdef int count[2]
        cdef int wide = <int> d
        cdef double n_a, share, root
        cdef double* delta
        cdef const double* x
        if self.spec.decays:
            for i in range(self.m_):
                self.learn(self.X + i * d, self.codes[i])
            return
        count[0] = count[1] = 0
        for i in range(last):
            k = self.codes[i]
            x = self.X + i * d
            n_a = self.n[k]
            add_weight(1.0, &self.n[k], &self.weight_remainder[k])
            self.N[k] += 1.0
            self.stream[0] += 1.0
            self.stream[1] += 1.0
            if self.min_row_weight[k] == 0.0 or self.min_row_weight[k] > 1.0:
                self.min_row_weight[k] = 1.0
            share = 1.0 / self.n[k]
            root = sqrt(n_a * share)
            # rows of class 0 from the front, those of class 1 from the back
            j = count[0] if k == 0 else last - 1 - count[1]
            self.rows[j] = i
            count[k] += 1
            approach(
                d, x, &self.anchor[0], share, root, &self.mean[k, 0], &self.deltas[j, 0],
                self.s.nonconstant_weight + k * 2 * d
            )
        for k in range(2):
            if count[k]:
                j = 0 if k == 0 else last - count[1]
                hash_rows(
                    self.X, d, &self.rows[j], count[k], &self.ones[0],
                    self.s.row_hashes + k * 2 * (d + 1), self.s.row_hashes + (k * 2 + 1) * (d + 1)
                )
                dsyrk(b"L", b"N", &wide, &count[k], &ONE, &self.deltas[j, 0], &wide, &ZERO,
                      &self.A[0, 0], &wide)
                add_mirrored(d, &self.A[0, 0], self.s.C + k * self.s.size, self.s.stride)
                for j in range(d):
                    self.max_scatter[k, j] = max(
                        self.max_scatter[k, j], self.s.C[k * self.s.size + j * (self.s.stride + 1)]
                    )
        # The last row updates the anchor.
        self.learn(self.X + last * d, self.codes[last])
