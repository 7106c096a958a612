/* The loops of a link from scores to probabilities. */

#ifndef COUNTERPOISE_LINKED_H
#define COUNTERPOISE_LINKED_H

#include "symmetric.h"

/* A product and a sum may be rounded at once; sums keep their order. */
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
    const double shift = 6755399441055744.0; /* 1.5 2^52: the last bits hold a whole number */
    for (ptrdiff_t i = 0; i < m; i++) {
        double z = prior[i] + b * g[i];
        z = z < -700.0 ? -700.0 : z;
        z = z > 700.0 ? 700.0 : z;
        const double t = z * 1.4426950408889634 + shift, k = t - shift;
        const double x = (z - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
        double p = 1.0 / 6227020800.0, scale;
        uint64_t bits;
        p = p * x + 1.0 / 479001600.0;
        p = p * x + 1.0 / 39916800.0;
        p = p * x + 1.0 / 3628800.0;
        p = p * x + 1.0 / 362880.0;
        p = p * x + 1.0 / 40320.0;
        p = p * x + 1.0 / 5040.0;
        p = p * x + 1.0 / 720.0;
        p = p * x + 1.0 / 120.0;
        p = p * x + 1.0 / 24.0;
        p = p * x + 1.0 / 6.0;
        p = p * x + 0.5;
        p = p * x + 1.0;
        p = p * x + 1.0;
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

/* The inverse of a symmetric positive definite matrix of few rows, all of it, in its place, by
   sweeping (Gauss and Jordan), four pivots at a time. Rows are `stride` long, a multiple of 4.
   Returns whether a pivot was at most `tiny` of what it was. */
ANY_ORDER ONE_PER_CPU static int sweep(
    double *restrict A, ptrdiff_t d, ptrdiff_t stride, double *restrict tiny)
{
    for (ptrdiff_t k = 0; k < d; k++)
        tiny[k] *= A[k * stride + k];
    for (ptrdiff_t first = 0; first < d; first += 4) {
        const ptrdiff_t last = first + 4 < d ? first + 4 : d;
        double *restrict p[4];
        for (ptrdiff_t k = first; k < last; k++) { /* among the pivots themselves */
            double *restrict pivot = p[k - first] = A + k * stride;
            if (!(pivot[k] > tiny[k]))
                return 1;
            const double inverse = 1.0 / pivot[k];
            pivot[k] = 1.0;
            for (ptrdiff_t j = 0; j < stride; j++)
                pivot[j] *= inverse;
            for (ptrdiff_t i = first; i < last; i++) {
                double *restrict row = A + i * stride;
                const double factor = row[k];
                if (i == k)
                    continue;
                row[k] = 0.0;
                for (ptrdiff_t j = 0; j < stride; j++)
                    row[j] -= factor * pivot[j];
            }
        }
        for (ptrdiff_t k = last; k < first + 4; k++)
            p[k - first] = p[0]; /* counts for nothing */
        const double *restrict p0 = p[0], *restrict p1 = p[1];
        const double *restrict p2 = p[2], *restrict p3 = p[3];
        for (ptrdiff_t i = 0; i < d; i++) {
            double *restrict row = A + i * stride;
            double f[4] = {0.0, 0.0, 0.0, 0.0};
            if (i >= first && i < last)
                continue;
            for (ptrdiff_t k = first; k < last; k++) {
                f[k - first] = row[k];
                row[k] = 0.0;
            }
            const double f0 = f[0], f1 = f[1], f2 = f[2], f3 = f[3];
            for (ptrdiff_t j = 0; j < stride; j++)
                row[j] -= (f0 * p0[j] + f1 * p1[j]) + (f2 * p2[j] + f3 * p3[j]);
        }
    }
    return 0;
}

#endif
