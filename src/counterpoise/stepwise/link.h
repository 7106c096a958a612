/* The loops of a link from scores to probabilities. */

#ifndef COUNTERPOISE_LINKED_H
#define COUNTERPOISE_LINKED_H

#include "symmetric.h"

/* A product and a sum may be rounded together; sums keep their order. */
#if defined(__GNUC__) && !defined(__clang__)
#define AT_ONCE __attribute__((optimize("no-trapping-math", "fp-contract=fast")))
#else
#define AT_ONCE
#endif

/* r = 1 / (1 + e^z) with z = prior + b g, without a branch: of e^z, to the last bit or two, 2^k
   times a series of |x| <= 0.35. */
AT_ONCE ONE_PER_CPU static void doubts(
    const double *restrict prior, const double *restrict g, double b, ptrdiff_t m,
    double *restrict r)
{
    const double shift = 6755399441055744.0; /* 1.5 2^52: the last bits contain an integer */
    for (ptrdiff_t i = 0; i < m; i++) {
        double z = prior[i] + b * g[i];
        z = z < -700.0 ? -700.0 : z;
        z = z > 700.0 ? 700.0 : z;
        const double t = z * 1.4426950408889634 + shift, k = t - shift;
        const double x = (z - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
        double p, scale;
        uint64_t bits;
        EXP_SERIES(p, x)
        memcpy(&bits, &t, sizeof bits);
        bits = (bits + 1023) << 52;
        memcpy(&scale, &bits, sizeof scale);
        r[i] = 1.0 / (1.0 + p * scale);
    }
}

/* The points of one pair of classes: margins g = middle + deviation at, times their weight. */
AT_ONCE ONE_PER_CPU static void lay_points(
    double odds, double count, double middle, double deviation, const double *restrict at,
    const double *restrict mass, ptrdiff_t m, double *restrict prior, double *restrict g,
    double *restrict wg, double *restrict wgg)
{
    for (ptrdiff_t i = 0; i < m; i++) {
        const double margin = middle + deviation * at[i];
        prior[i] = odds;
        g[i] = margin;
        wg[i] = count * mass[i] * margin;
        wgg[i] = wg[i] * margin;
    }
}

/* The sums of wg r and of wgg r (1 - r). */
ANY_ORDER ONE_PER_CPU static void sum_doubts(
    const double *restrict wg, const double *restrict wgg, const double *restrict r, ptrdiff_t m,
    double *falls, double *bends)
{
    double one = 0.0, two = 0.0;
    for (ptrdiff_t i = 0; i < m; i++) {
        one += wg[i] * r[i];
        two += wgg[i] * (r[i] * (1.0 - r[i]));
    }
    *falls = one;
    *bends = two;
}

/* tr(P C), of symmetric P and C. */
ANY_ORDER ONE_PER_CPU static double trace_of_product(
    const double *restrict P, ptrdiff_t stride, const double *restrict C, ptrdiff_t stride_C,
    ptrdiff_t d)
{
    double diagonal = 0.0, beside = 0.0;
    for (ptrdiff_t i = 0; i < d; i++) {
        const double *restrict p = P + i * stride, *restrict c = C + i * stride_C;
        diagonal += p[i] * c[i];
        for (ptrdiff_t j = i + 1; j < d; j++)
            beside += p[j] * c[j];
    }
    return diagonal + 2.0 * beside;
}

/* Minus the inverse of four rows and columns at most, in their place; returns whether a pivot was
   at most `tiny`. */
static int sweep_pivots(double G[4][4], ptrdiff_t m, const double *tiny)
{
    for (ptrdiff_t k = 0; k < m; k++) {
        if (!(G[k][k] > tiny[k]))
            return 1;
        const double inverse = 1.0 / G[k][k];
        for (ptrdiff_t i = 0; i < m; i++)
            for (ptrdiff_t j = 0; j < m; j++)
                if (i != k && j != k)
                    G[i][j] -= G[i][k] * inverse * G[k][j];
        for (ptrdiff_t i = 0; i < m; i++)
            if (i != k)
                G[i][k] = G[k][i] = G[k][i] * inverse;
        G[k][k] = -inverse;
    }
    return 0;
}

/* Minus the inverse of a symmetric positive definite matrix, in its place, by sweeping (Gauss and
   Jordan), four pivots at a time: with G the pivots' own rows, W the rest of them and K = G^-1 W,
   A - W'K takes the place of the others, K that of W and -G^-1 that of G. Only the upper triangle
   counts. Rows are `stride` long, a multiple of 4; `W` and `K` are workspace of 4 such rows each.
   Returns whether a pivot was at most `tiny` of what it was. */
ANY_ORDER ONE_PER_CPU static int sweep(
    double *restrict A, ptrdiff_t d, ptrdiff_t stride, double *restrict tiny, double *restrict W,
    double *restrict K)
{
    for (ptrdiff_t k = 0; k < d; k++)
        tiny[k] *= A[k * stride + k];
    for (ptrdiff_t first = 0; first < d; first += 4) {
        const ptrdiff_t m = first + 4 < d ? 4 : d - first, last = first + m;
        double G[4][4] = {{0}};
        memset(W, 0, 4 * stride * sizeof *W);
        for (ptrdiff_t k = 0; k < m; k++) {
            const double *restrict row = A + (first + k) * stride;
            for (ptrdiff_t i = 0; i < first; i++)
                W[k * stride + i] = A[i * stride + first + k];
            for (ptrdiff_t j = last; j < d; j++)
                W[k * stride + j] = row[j];
            for (ptrdiff_t j = k; j < m; j++)
                G[k][j] = G[j][k] = row[first + j];
        }
        if (sweep_pivots(G, m, tiny + first))
            return 1;
        const double *restrict w0 = W, *restrict w1 = w0 + stride;
        const double *restrict w2 = w1 + stride, *restrict w3 = w2 + stride;
        for (ptrdiff_t k = 0; k < 4; k++)
            for (ptrdiff_t j = 0; j < stride; j++)
                K[k * stride + j] =
                    -((G[k][0] * w0[j] + G[k][1] * w1[j]) + (G[k][2] * w2[j] + G[k][3] * w3[j]));
        const double *restrict k0 = K, *restrict k1 = k0 + stride;
        const double *restrict k2 = k1 + stride, *restrict k3 = k2 + stride;
        for (ptrdiff_t i = 0; i < d; i++) { /* in rows of the pivots W is 0 */
            double *restrict row = A + i * stride;
            const double f0 = w0[i], f1 = w1[i], f2 = w2[i], f3 = w3[i];
            for (ptrdiff_t j = i / 4 * 4; j < stride; j++)
                row[j] -= (f0 * k0[j] + f1 * k1[j]) + (f2 * k2[j] + f3 * k3[j]);
        }
        for (ptrdiff_t k = 0; k < m; k++) {
            double *restrict row = A + (first + k) * stride;
            for (ptrdiff_t i = 0; i < first; i++)
                A[i * stride + first + k] = K[k * stride + i];
            for (ptrdiff_t j = k; j < m; j++)
                row[first + j] = G[k][j];
            for (ptrdiff_t j = last; j < d; j++)
                row[j] = K[k * stride + j];
        }
    }
    return 0;
}

#endif
