# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Conjugate gradients for a block of steps at once.

Model i of a block solves R_i w_i = z_i, one column of a matrix each, with

    R_i = alpha_0 M_0 + alpha_1 M_1 + Phi_i' W_i Phi_i + b (rho_i + q_i q_i')

so that all products are of matrices. ``StepSolver.lay_out`` fills a block in.
"""

from scipy.linalg.cython_blas cimport ddot, dgemm, dtrsm
from scipy.linalg.cython_lapack cimport dpotrf, dpotri

cdef extern from "small_gemm.h" nogil:
    int FEWEST_ROWS, MOST_ROWS
    void multiply(
        Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t inner, const double* A, Py_ssize_t lda,
        const double* B, Py_ssize_t ldb, int more, double* C, Py_ssize_t ldc
    )

cdef double ZERO = 0.0


cdef void carve(Block* k, double* at) noexcept:
    """Cut the workspace up; ``workspace(d, m)`` is how long it must be."""
    cdef int m = k.m, d = k.d, D = k.D
    k.rows = 2 * D + m
    k.c = at; at += d
    k.s = at; at += d
    k.nu = at; at += 2 * D
    k.n = at; at += 2
    k.N = at; at += 2
    k.past = at; at += 2
    k.row_alpha = at; at += 2
    k.mean = at; at += 2 * d
    k.Cjj = at; at += 2 * d
    k.low = at; at += d
    k.high = at; at += d
    k.faded = at; at += m
    k.weight = at; at += m
    k.alpha = at; at += 2 * (m + 1)
    k.Z = at; at += 2 * D
    k.S = at; at += k.rows * D
    k.P = at; at += (D + m) * D
    k.L = at; at += m * m
    k.PPhi = at; at += D * m
    k.Phi = at; at += D * m
    k.Psi = at; at += D * m
    k.W = at; at += m * m
    k.q = at; at += D * m
    k.rho = at; at += D * m
    k.z = at; at += D * m
    k.w = at; at += D * m
    k.r = at; at += D * m
    k.p = at; at += D * m
    k.u = at; at += D * m
    k.Au = at; at += D * m
    k.T = at; at += k.rows * m
    k.rp = at; at += m
    k.done = at


def workspace(Py_ssize_t d, Py_ssize_t m):
    """Numbers that a block of m steps of d features works with."""
    cdef Py_ssize_t D = d + 1, rows = 2 * D + m
    return 14 * D + 12 + 6 * m + rows * (D + m) + (D + m) * D + 2 * m * m + 11 * D * m


cdef double dot(int n, const double* a, const double* b) noexcept nogil:
    cdef int one = 1
    return ddot(&n, <double*> a, &one, <double*> b, &one)


cdef void product(
    int rows, int columns, int inner, double alpha, const double* A, int lda,
    const double* B, int ldb, double beta, double* C, int ldc
) noexcept nogil:
    """C = alpha A B + beta C, by columns."""
    if FEWEST_ROWS <= rows < MOST_ROWS and alpha == 1.0 and (beta == 0.0 or beta == 1.0):
        multiply(rows, columns, inner, A, lda, B, ldb, beta == 1.0, C, ldc)
    else:
        dgemm(
            b"N", b"N", &rows, &columns, &inner, &alpha, <double*> A, &lda, <double*> B, &ldb,
            &beta, C, &ldc,
        )


cdef int factorise(Block* k) noexcept nogil:
    """P = R_0^-1, and the factor that takes the rows of the block in; 1 if R_0 is singular."""
    cdef int D = k.D, m = k.m, over = k.D + k.m, i, j, info
    cdef double one = 1.0
    cdef double* P = k.P
    for j in range(D):
        for i in range(D):
            P[i + j * over] = (
                k.alpha[0] * k.S[i + j * k.rows] + k.alpha[1] * k.S[D + i + j * k.rows]
                + k.b * k.q[i] * k.q[j]
            )
        P[j + j * over] += k.b * k.rho[j]
    dpotrf(b"L", &D, P, &over, &info)
    if info:
        return 1
    dpotri(b"L", &D, P, &over, &info)
    for j in range(D):
        for i in range(j):
            P[i + j * over] = P[j + i * over]
    product(D, m, D, 1.0, P, over, k.Phi, D, 0.0, k.PPhi, D)
    for i in range(m):
        for j in range(D):
            P[D + i + j * over] = k.PPhi[j + i * D]
    dgemm(b"T", b"N", &m, &m, &D, &one, k.Phi, &D, k.PPhi, &D, &ZERO, k.L, &m)
    for i in range(m):
        k.L[i + i * m] += 1.0 / k.weight[i]
    dpotrf(b"L", &m, k.L, &m, &info)
    return info != 0


cdef void precondition(Block* k, const double* r, double* p) noexcept nogil:
    """p_i = (R_0 + Phi_i' W Phi_i)^-1 r_i, by the formula of Woodbury, for all i at once."""
    cdef int D = k.D, m = k.m, over = k.D + k.m, i, j
    cdef double one = 1.0
    product(over, m, D, 1.0, k.P, over, r, D, 0.0, k.T, over)
    for i in range(m):
        for j in range(i, m):
            k.T[D + j + i * over] = 0.0
    dtrsm(b"L", b"L", b"N", b"N", &m, &m, &one, k.L, &m, k.T + D, &over)
    for i in range(m):
        for j in range(i, m):
            k.T[D + j + i * over] = 0.0
    dtrsm(b"L", b"L", b"T", b"N", &m, &m, &one, k.L, &m, k.T + D, &over)
    for i in range(m):
        for j in range(D):
            p[j + i * D] = k.T[j + i * over]
    product(D, m, m, -1.0, k.PPhi, D, k.T + D, over, 1.0, p, D)


cdef void image(Block* k, const double* u, double* Au) noexcept nogil:
    """Au_i = R_i u_i for all i at once."""
    cdef int D = k.D, m = k.m, rows = k.rows, i, j
    cdef double qu, alpha_0, alpha_1
    cdef double* t
    cdef double* q
    cdef double* rho
    cdef double* out
    cdef const double* v
    product(rows, m, D, 1.0, k.S, rows, u, D, 0.0, k.T, rows)
    for i in range(m):
        t = k.T + i * rows + 2 * D
        for j in range(m):
            t[j] *= k.W[i * m + j]
    product(D, m, m, 1.0, k.Phi, D, k.T + 2 * D, rows, 0.0, Au, D)
    for i in range(m):
        t = k.T + i * rows
        q = k.q + i * D
        rho = k.rho + i * D
        v = u + i * D
        out = Au + i * D
        alpha_0, alpha_1 = k.alpha[2 * i], k.alpha[2 * i + 1]
        qu = k.b * dot(D, q, v)
        for j in range(D):
            out[j] += alpha_0 * t[j] + alpha_1 * t[D + j] + k.b * rho[j] * v[j] + qu * q[j]


cdef int gradients(Block* k, double tolerance) noexcept nogil:
    """Preconditioned conjugate gradients, one column a step, until r'p <= tolerance z'Pz.

    Returns how many columns did not get there.
    """
    cdef int D = k.D, m = k.m, i, j, iteration, open_columns = m
    cdef double step, new
    precondition(k, k.z, k.w)
    image(k, k.w, k.Au)
    for i in range(m):
        k.done[i] = tolerance * dot(D, k.z + i * D, k.w + i * D)
    for j in range(D * m):
        k.r[j] = k.z[j] - k.Au[j]
    precondition(k, k.r, k.p)
    for i in range(m):
        k.rp[i] = dot(D, k.r + i * D, k.p + i * D)
    for j in range(D * m):
        k.u[j] = k.p[j]
    for iteration in range(60):
        open_columns = 0
        for i in range(m):
            if k.rp[i] > k.done[i]:
                open_columns += 1
        if open_columns == 0:
            break
        image(k, k.u, k.Au)
        for i in range(m):
            new = dot(D, k.u + i * D, k.Au + i * D)
            step = k.rp[i] / new if k.rp[i] > k.done[i] and new > 0.0 else 0.0
            for j in range(i * D, (i + 1) * D):
                k.w[j] += step * k.u[j]
                k.r[j] -= step * k.Au[j]
        precondition(k, k.r, k.p)
        for i in range(m):
            new = dot(D, k.r + i * D, k.p + i * D)
            step = new / k.rp[i] if k.rp[i] > 0.0 else 0.0
            k.rp[i] = new
            for j in range(i * D, (i + 1) * D):
                k.u[j] = k.p[j] + step * k.u[j]
    return open_columns
