/* The products of small matrices of a block scorer, and the loops between them: see
   _block_scorer.pyx.

   Matrices are stored by columns. LANES steps are solved side by side: entry (r, j) of step v is
   at (r m + j) LANES + v. */

#ifndef COUNTERPOISE_BLOCK_SCORER_H
#define COUNTERPOISE_BLOCK_SCORER_H

#include "symmetric.h"

#define LANES 8

/* out = s s' o (w_0 C_0 + w_1 C_1) + t_0 nu_0 nu_0' + t_1 nu_1 nu_1' + p q q' + ridge, where the
   constant comes first, without a scatter and without a ridge. */
FUSED ONE_PER_CPU static void combine(
    ptrdiff_t d, const double *restrict C_0, const double *restrict C_1, ptrdiff_t stride,
    double w_0, double w_1, const double *restrict s, double t_0, const double *restrict nu_0,
    double t_1, const double *restrict nu_1, double p, const double *restrict q, double ridge,
    double *restrict out)
{
    const ptrdiff_t D = d + 1;
    for (ptrdiff_t j = 0; j < D; j++) {
        const double f_0 = t_0 * nu_0[j], f_1 = t_1 * nu_1[j], g = p * q[j];
        double *restrict column = out + j * D;
        for (ptrdiff_t i = 0; i < D; i++)
            column[i] = f_0 * nu_0[i] + f_1 * nu_1[i] + g * q[i];
    }
    for (ptrdiff_t j = 0; j < d; j++) {
        const double *restrict c_0 = C_0 + j * stride, *restrict c_1 = C_1 + j * stride;
        const double u_0 = w_0 * s[j], u_1 = w_1 * s[j];
        double *restrict column = out + (j + 1) * D + 1;
        for (ptrdiff_t i = 0; i < d; i++)
            column[i] += s[i] * (u_0 * c_0[i] + u_1 * c_1[i]);
        column[j] += ridge;
    }
}

/* The variance of each feature over all rows, by the shares pi_k of the classes, and where it is
   shifted to: v = sum_k pi_k C_k / n_k + pi_0 pi_1 (mu_1 - mu_0)^2. Constant features have 1. */
QUIET ONE_PER_CPU static void variances(
    ptrdiff_t d, const double *restrict mean, const double *restrict C_jj, const double pi[2],
    const double n[2], const double *restrict anchor, double *restrict m, double *restrict v)
{
    const double k_0 = pi[0] / n[0], k_1 = pi[1] / n[1], between = pi[0] * pi[1];
    const double tiny = 8.0 * 2.220446049250313e-16;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double apart = mean[d + j] - mean[j], middle = mean[j] + pi[1] * apart;
        const double size = tiny * (anchor[j] + middle);
        const double all = k_0 * C_jj[j] + k_1 * C_jj[d + j] + between * apart * apart;
        m[j] = middle;
        v[j] = all <= size * size ? 1.0 : all;
    }
}

/* A row joins a class: only its mean and the diagonal of its scatter. */
FUSED ONE_PER_CPU static void join(
    ptrdiff_t d, const double *restrict x, const double *restrict anchor, double keep, double share,
    double grow, double *restrict mean, double *restrict C_jj)
{
    for (ptrdiff_t j = 0; j < d; j++) {
        const double off = (x[j] - anchor[j]) - mean[j];
        mean[j] += off * share;
        C_jj[j] = keep * C_jj[j] + grow * off * off;
    }
}

/* How the ridge of a step differs from that of A, E = b s^2 v - beta, and the shift of its
   origin, dq = s (m - c) - q. Returns the squared length of dq; `least` is the smallest E. */
ANY_ORDER ONE_PER_CPU static double ridge_of_step(
    ptrdiff_t d, const double *restrict v, const double *restrict m, const double *restrict s,
    const double *restrict c, const double *restrict q, double b, double beta, double penalty,
    double *restrict E, double *restrict dq, double *least)
{
    double length = 0.0, low = 0.0;
    E[0] = dq[0] = 0.0;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double off = b * v[j] * s[j] * s[j] - beta;
        const double moved = penalty * ((m[j] - c[j]) * s[j] - q[j + 1]);
        E[j + 1] = off;
        dq[j + 1] = moved;
        length += moved * moved;
        low = off < low ? off : low;
    }
    *least = low;
    return length;
}

/* The part of F u that needs no product, out = -(E u + p q q'u - beta q_c q_c'u), and a bound of
   its length in the norm of P: `most` bounds P itself. */
ANY_ORDER ONE_PER_CPU static double perturb(
    ptrdiff_t D, const double *restrict u, const double *restrict E, const double *restrict dq,
    const double *restrict q, double p, double beta, double most, double moved, double inverse_b,
    double *restrict out)
{
    double along = 0.0, shift = 0.0, length = 0.0;
    for (ptrdiff_t j = 0; j < D; j++) {
        along += q[j] * u[j];
        shift += dq[j] * u[j];
    }
    const double whole = p * (along + shift), change = whole - (p > 0.0 ? beta : 0.0) * along;
    for (ptrdiff_t j = 0; j < D; j++) {
        const double own = E[j] * u[j];
        length += own * own;
        out[j] = -(own + change * q[j] + whole * dq[j]);
    }
    return sqrt(most * length) + fabs(change) * sqrt(inverse_b) + fabs(whole) * sqrt(most) * moved;
}

/* What another origin changes where there is no constant: sum a (x - m_i)(x - m_i)' is
   sum a x x' - dq g' - g dq' + a dq dq', where g is the sum of the a x. Takes that times u from
   `out` and returns a bound of its length, given those of dq and of g. */
ANY_ORDER ONE_PER_CPU static double reorigin(
    ptrdiff_t D, const double *restrict u, const double *restrict dq, const double *restrict g,
    double a, double moved, double length, double *restrict out)
{
    double along = 0.0, shift = 0.0;
    for (ptrdiff_t j = 0; j < D; j++) {
        along += g[j] * u[j];
        shift += dq[j] * u[j];
    }
    const double back = along - a * shift;
    for (ptrdiff_t j = 0; j < D; j++)
        out[j] += back * dq[j] + shift * g[j];
    return fabs(back) * moved + fabs(shift) * length;
}

/* K = I + w w' o T for LANES steps, of which w is 0 beyond their own rows, eliminated. */
FUSED ONE_PER_CPU static void eliminate_lanes(
    ptrdiff_t size, ptrdiff_t m, const double *restrict T, ptrdiff_t ldt, const double *restrict w,
    double *restrict U, double *restrict inverse)
{
    for (ptrdiff_t r = 0; r < size; r++)
        for (ptrdiff_t j = r; j < size; j++) {
            const double t = T[r + j * ldt];
            double *restrict u = U + (r * m + j) * LANES;
            for (int v = 0; v < LANES; v++)
                u[v] = w[r * LANES + v] * w[j * LANES + v] * t + (r == j ? 1.0 : 0.0);
        }
    ptrdiff_t k = 0;
    for (; k < size; k++) {
        const double *restrict pivot = U + k * m * LANES;
        double *restrict g = inverse + k * LANES;
        for (int v = 0; v < LANES; v++)
            g[v] = 1.0 / pivot[k * LANES + v];
        for (ptrdiff_t r = k + 1; r < size; r++) {
            double f[LANES];
            double *restrict row = U + r * m * LANES;
            for (int v = 0; v < LANES; v++)
                f[v] = pivot[r * LANES + v] * g[v];
            for (ptrdiff_t j = r; j < size; j++)
                for (int v = 0; v < LANES; v++)
                    row[j * LANES + v] -= f[v] * pivot[j * LANES + v];
        }
    }
}

/* t = w K^-1 w t. */
FUSED ONE_PER_CPU static void solve_lanes(
    ptrdiff_t size, ptrdiff_t m, const double *restrict U, const double *restrict inverse,
    const double *restrict w, double *restrict t)
{
    for (ptrdiff_t k = 0; k < size * LANES; k++)
        t[k] *= w[k];
    for (ptrdiff_t k = 0; k < size; k++) {
        const double *restrict row = U + k * m * LANES;
        double f[LANES];
        for (int v = 0; v < LANES; v++)
            f[v] = t[k * LANES + v] * inverse[k * LANES + v];
        for (ptrdiff_t j = k + 1; j < size; j++)
            for (int v = 0; v < LANES; v++)
                t[j * LANES + v] -= f[v] * row[j * LANES + v];
    }
    for (ptrdiff_t k = size - 1; k >= 0; k--) {
        const double *restrict row = U + k * m * LANES;
        double sum[LANES];
        for (int v = 0; v < LANES; v++)
            sum[v] = t[k * LANES + v];
        for (ptrdiff_t j = k + 1; j < size; j++)
            for (int v = 0; v < LANES; v++)
                sum[v] -= row[j * LANES + v] * t[j * LANES + v];
        for (int v = 0; v < LANES; v++)
            t[k * LANES + v] = sum[v] * inverse[k * LANES + v];
    }
    for (ptrdiff_t k = 0; k < size * LANES; k++)
        t[k] *= w[k];
}

/* A row of weight 1 joins a class: its distance from the mean, times `root`, is what the scatter
   grows by. */
ONE_PER_CPU static void approach(
    ptrdiff_t d, const double *restrict x, const double *restrict anchor, double share, double root,
    double *restrict mean, double *restrict delta, double *restrict nonconstant_weight)
{
    for (ptrdiff_t j = 0; j < d; j++) {
        const double off = (x[j] - anchor[j]) - mean[j];
        mean[j] += off * share;
        delta[j] = off * root;
    }
    for (ptrdiff_t j = 0; j < d; j++) {
        nonconstant_weight[j] += x[j] != 0.0;
        nonconstant_weight[d + j] += x[j] != 1.0;
    }
}

/* C += B and C' += B' from the upper triangle of B by rows, so that C stays symmetric. */
ONE_PER_CPU static void add_mirrored(
    ptrdiff_t d, const double *restrict B, double *restrict C, ptrdiff_t stride)
{
    const ptrdiff_t tile = 32;
    for (ptrdiff_t i0 = 0; i0 < d; i0 += tile)
        for (ptrdiff_t j0 = i0; j0 < d; j0 += tile) {
            const ptrdiff_t i1 = i0 + tile < d ? i0 + tile : d, j1 = j0 + tile < d ? j0 + tile : d;
            for (ptrdiff_t i = i0; i < i1; i++)
                for (ptrdiff_t j = j0 > i ? j0 : i; j < j1; j++)
                    C[i * stride + j] += B[i * d + j];
            for (ptrdiff_t j = j0; j < j1; j++)
                for (ptrdiff_t i = i0; i < (i1 < j ? i1 : j); i++)
                    C[j * stride + i] = C[i * stride + j];
        }
}

/* Products of small matrices without packing: for sizes at which BLAS spends much of its time on
   copies and at the edges. */
#if defined(__GNUC__)
/* Rows from which, and below which, this is faster than dgemm. */
#define MIN_GEMM_ROWS 12
#define MAX_GEMM_ROWS 240
#define EACH(i, n) _Pragma("GCC unroll 4") for (int i = 0; i < n; i++)

/* C = A B, or C += A B, of 4 V rows and N columns; of C, rows from `first` on are stored. */
INLINE void multiply_tile(
    const int V, const int N, ptrdiff_t inner, const double *restrict A, ptrdiff_t lda,
    const double *restrict B, ptrdiff_t ldb, int more, ptrdiff_t first, double *restrict C,
    ptrdiff_t ldc)
{
    four sum[4][3], a[3];
    EACH(j, N)
        EACH(v, V)
            sum[j][v] = (four){0};
    for (ptrdiff_t l = 0; l < inner; l++) {
        EACH(v, V)
            a[v] = *(const four *)(A + l * lda + 4 * v);
        EACH(j, N) {
            const double b = B[l + j * ldb];
            EACH(v, V)
                sum[j][v] += a[v] * b;
        }
    }
    EACH(j, N) {
        double *restrict c = C + j * ldc;
        EACH(v, V) {
            if (more)
                sum[j][v] += *(four *)(c + 4 * v);
            if (!first)
                *(four *)(c + 4 * v) = sum[j][v];
            else
                for (int i = 0; i < 4; i++)
                    if (4 * v + i >= first)
                        c[4 * v + i] = sum[j][v][i];
        }
    }
}

INLINE void multiply_rows(
    const int V, ptrdiff_t columns, ptrdiff_t inner, const double *restrict A, ptrdiff_t lda,
    const double *restrict B, ptrdiff_t ldb, int more, ptrdiff_t first, double *restrict C,
    ptrdiff_t ldc)
{
    ptrdiff_t j = 0;
    for (; j + 4 <= columns; j += 4)
        multiply_tile(V, 4, inner, A, lda, B + j * ldb, ldb, more, first, C + j * ldc, ldc);
    if (columns - j == 3)
        multiply_tile(V, 3, inner, A, lda, B + j * ldb, ldb, more, first, C + j * ldc, ldc);
    else if (columns - j == 2)
        multiply_tile(V, 2, inner, A, lda, B + j * ldb, ldb, more, first, C + j * ldc, ldc);
    else if (columns - j == 1)
        multiply_tile(V, 1, inner, A, lda, B + j * ldb, ldb, more, first, C + j * ldc, ldc);
}

/* C = A B, or C += A B, of at least MIN_GEMM_ROWS rows. The last ones are found together with some
   before them, which are not stored again. */
ANY_ORDER ONE_PER_CPU static void multiply(
    ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t inner, const double *restrict A, ptrdiff_t lda,
    const double *restrict B, ptrdiff_t ldb, int more, double *restrict C, ptrdiff_t ldc)
{
    ptrdiff_t i = 0;
    for (; i + 12 <= rows; i += 12)
        multiply_rows(3, columns, inner, A + i, lda, B, ldb, more, 0, C + i, ldc);
    const ptrdiff_t left = rows - i;
    if (left > 8)
        multiply_rows(
            3, columns, inner, A + rows - 12, lda, B, ldb, more, 12 - left, C + rows - 12, ldc);
    else if (left > 4)
        multiply_rows(
            2, columns, inner, A + rows - 8, lda, B, ldb, more, 8 - left, C + rows - 8, ldc);
    else if (left > 0)
        multiply_rows(
            1, columns, inner, A + rows - 4, lda, B, ldb, more, 4 - left, C + rows - 4, ldc);
}
#else
#define MIN_GEMM_ROWS 1
#define MAX_GEMM_ROWS 0
static void multiply(
    ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t inner, const double *A, ptrdiff_t lda,
    const double *B, ptrdiff_t ldb, int more, double *C, ptrdiff_t ldc)
{
}
#endif

#endif
