/* The loops between the products of a walk: see _walk.pyx.

   Matrices are stored by columns. LANES steps are solved side by side: entry (r, j) of step v is
   at (r m + j) LANES + v. */

#ifndef COUNTERPOISE_STEPS_H
#define COUNTERPOISE_STEPS_H

#include "kernels.h"

#define LANES 8

/* Sums in whatever order is fastest, the same each time. */
#if defined(__GNUC__) && !defined(__clang__)
#define SUMS \
    __attribute__((optimize( \
        "associative-math", "no-signed-zeros", "no-trapping-math", "fp-contract=fast")))
#else
#define SUMS
#endif

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

/* How the ridge of a step differs from that of the walk, E = b s^2 v - beta, and the shift of its
   origin, dq = s (m - c) - q. Returns the squared length of dq; `least` is the smallest E. */
SUMS ONE_PER_CPU static double ridge_of_step(
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
SUMS ONE_PER_CPU static double perturb(
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
SUMS ONE_PER_CPU static double reorigin(
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

/* a'b. */
SUMS ONE_PER_CPU static double inner(
    ptrdiff_t n, const double *restrict a, const double *restrict b)
{
    double sum = 0.0;
    for (ptrdiff_t j = 0; j < n; j++)
        sum += a[j] * b[j];
    return sum;
}

/* A row of weight 1 joins a class: its distance from the mean, times `root`, is what the scatter
   grows by. */
ONE_PER_CPU static void approach(
    ptrdiff_t d, const double *restrict x, const double *restrict anchor, double share, double root,
    double *restrict mean, double *restrict delta, double *restrict away)
{
    for (ptrdiff_t j = 0; j < d; j++) {
        const double off = (x[j] - anchor[j]) - mean[j];
        mean[j] += off * share;
        delta[j] = off * root;
    }
    for (ptrdiff_t j = 0; j < d; j++) {
        away[j] += x[j] != 0.0;
        away[d + j] += x[j] != 1.0;
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

#endif
