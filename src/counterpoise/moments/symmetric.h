/* Symmetric matrices of which the upper triangle stands in the rows: half of the reading. */

#ifndef COUNTERPOISE_SYMMETRIC_H
#define COUNTERPOISE_SYMMETRIC_H

#include "kernels.h"

/* Sums may be taken in any order, and a product and a sum rounded together. */
#if defined(__GNUC__) && !defined(__clang__)
#define ANY_ORDER                                                                                  \
    __attribute__((optimize("associative-math", "no-signed-zeros", "no-trapping-math",            \
                            "fp-contract=fast")))
#else
#define ANY_ORDER
#endif

ANY_ORDER ONE_PER_CPU static double inner(
    const double *restrict a, const double *restrict b, ptrdiff_t d)
{
    double sum = 0.0;
    for (ptrdiff_t j = 0; j < d; j++)
        sum += a[j] * b[j];
    return sum;
}

/* y = A x. Four rows at a time, so that y is loaded and stored once for four of them. */
ANY_ORDER ONE_PER_CPU static void symmetric_times(
    const double *restrict A, ptrdiff_t d, ptrdiff_t stride, const double *restrict x,
    double *restrict y)
{
    ptrdiff_t i = 0;
    for (ptrdiff_t j = 0; j < d; j++)
        y[j] = 0.0;
    for (; i + 4 <= d; i += 4) {
        const double *restrict a0 = A + i * stride, *restrict a1 = a0 + stride;
        const double *restrict a2 = a1 + stride, *restrict a3 = a2 + stride;
        const double x0 = x[i], x1 = x[i + 1], x2 = x[i + 2], x3 = x[i + 3];
        double s0 = a0[i] * x0 + a0[i + 1] * x1 + a0[i + 2] * x2 + a0[i + 3] * x3;
        double s1 = a0[i + 1] * x0 + a1[i + 1] * x1 + a1[i + 2] * x2 + a1[i + 3] * x3;
        double s2 = a0[i + 2] * x0 + a1[i + 2] * x1 + a2[i + 2] * x2 + a2[i + 3] * x3;
        double s3 = a0[i + 3] * x0 + a1[i + 3] * x1 + a2[i + 3] * x2 + a3[i + 3] * x3;
        for (ptrdiff_t j = i + 4; j < d; j++) {
            const double b0 = a0[j], b1 = a1[j], b2 = a2[j], b3 = a3[j], v = x[j];
            s0 += b0 * v;
            s1 += b1 * v;
            s2 += b2 * v;
            s3 += b3 * v;
            y[j] += (b0 * x0 + b1 * x1) + (b2 * x2 + b3 * x3);
        }
        y[i] += s0;
        y[i + 1] += s1;
        y[i + 2] += s2;
        y[i + 3] += s3;
    }
    for (; i < d; i++) {
        const double *restrict a = A + i * stride;
        double sum = a[i] * x[i];
        for (ptrdiff_t j = i + 1; j < d; j++) {
            sum += a[j] * x[j];
            y[j] += a[j] * x[i];
        }
        y[i] += sum;
    }
}

/* y = A x and z = A v, in one pass. */
ANY_ORDER ONE_PER_CPU static void symmetric_times_two(
    const double *restrict A, ptrdiff_t d, ptrdiff_t stride, const double *restrict x,
    const double *restrict v, double *restrict y, double *restrict z)
{
    ptrdiff_t i = 0;
    for (ptrdiff_t j = 0; j < d; j++)
        y[j] = z[j] = 0.0;
    for (; i + 2 <= d; i += 2) {
        const double *restrict a0 = A + i * stride, *restrict a1 = a0 + stride;
        const double x0 = x[i], x1 = x[i + 1], v0 = v[i], v1 = v[i + 1];
        double s0 = a0[i] * x0 + a0[i + 1] * x1, s1 = a0[i + 1] * x0 + a1[i + 1] * x1;
        double t0 = a0[i] * v0 + a0[i + 1] * v1, t1 = a0[i + 1] * v0 + a1[i + 1] * v1;
        for (ptrdiff_t j = i + 2; j < d; j++) {
            const double b0 = a0[j], b1 = a1[j];
            s0 += b0 * x[j];
            s1 += b1 * x[j];
            t0 += b0 * v[j];
            t1 += b1 * v[j];
            y[j] += b0 * x0 + b1 * x1;
            z[j] += b0 * v0 + b1 * v1;
        }
        y[i] += s0;
        y[i + 1] += s1;
        z[i] += t0;
        z[i + 1] += t1;
    }
    for (; i < d; i++) {
        y[i] += A[i * stride + i] * x[i];
        z[i] += A[i * stride + i] * v[i];
    }
}

/* A += factor g g'. */
ANY_ORDER ONE_PER_CPU static void symmetric_add(
    double factor, const double *restrict g, ptrdiff_t d, double *restrict A, ptrdiff_t stride)
{
    for (ptrdiff_t i = 0; i < d; i++) {
        const double scaled = factor * g[i];
        double *restrict row = A + i * stride;
        for (ptrdiff_t j = i; j < d; j++)
            row[j] += scaled * g[j];
    }
}

/* A = alpha_0 C_0 + alpha_1 C_1 + factor g g' + kappa h h' of two classes, and y = A w with it: one
   pass over the scatters. */
ANY_ORDER ONE_PER_CPU static void symmetric_of_two(
    const double *restrict C0, const double *restrict C1, ptrdiff_t stride_C, double alpha0,
    double alpha1, double factor, const double *restrict g, double kappa,
    const double *restrict h, const double *restrict w, ptrdiff_t d, double *restrict A,
    ptrdiff_t stride, double *restrict y)
{
    ptrdiff_t i = 0;
    for (ptrdiff_t j = 0; j < d; j++)
        y[j] = 0.0;
    for (; i + 2 <= d; i += 2) {
        const double *restrict c0 = C0 + i * stride_C, *restrict c1 = C1 + i * stride_C;
        const double *restrict e0 = c0 + stride_C, *restrict e1 = c1 + stride_C;
        double *restrict row = A + i * stride, *restrict next = row + stride;
        const double f0 = factor * g[i], k0 = kappa * h[i], w0 = w[i];
        const double f1 = factor * g[i + 1], k1 = kappa * h[i + 1], w1 = w[i + 1];
        double s0 = 0.0, s1 = 0.0;
        row[i] = (alpha0 * c0[i] + alpha1 * c1[i]) + (f0 * g[i] + k0 * h[i]);
        for (ptrdiff_t j = i + 1; j < d; j++) {
            const double a = (alpha0 * c0[j] + alpha1 * c1[j]) + (f0 * g[j] + k0 * h[j]);
            const double b = (alpha0 * e0[j] + alpha1 * e1[j]) + (f1 * g[j] + k1 * h[j]);
            row[j] = a;
            next[j] = b;
            s0 += a * w[j];
            s1 += b * w[j];
            y[j] += a * w0 + b * w1;
        }
        y[i] += row[i] * w0 + s0;
        y[i + 1] += s1 - next[i + 1] * w1;
    }
    for (; i < d; i++) {
        const double a = (alpha0 * C0[i * stride_C + i] + alpha1 * C1[i * stride_C + i])
                         + (factor * g[i] * g[i] + kappa * h[i] * h[i]);
        A[i * stride + i] = a;
        y[i] += a * w[i];
    }
}

/* A += alpha C. */
ANY_ORDER ONE_PER_CPU static void symmetric_more(
    const double *restrict C, ptrdiff_t stride_C, double alpha, ptrdiff_t d, double *restrict A,
    ptrdiff_t stride)
{
    for (ptrdiff_t i = 0; i < d; i++) {
        const double *restrict c = C + i * stride_C;
        double *restrict row = A + i * stride;
        for (ptrdiff_t j = i; j < d; j++)
            row[j] += alpha * c[j];
    }
}

/* Products of features: S += R'R, up to widths at which BLAS has got going. */

#if defined(__GNUC__)
#define MAX_FEATURES_FOR_LOOPS 512    /* more are faster by dsyrk (benchmarks/speed/bulk.py) */
#define MAX_FEATURES_WITHOUT_PANELS 96 /* more are faster in panels of eight */

/* S += R'R of m rows of d values, blocks of 4 by 8 on and above the diagonal. Panel p, eight
   columns of R, begins at R + p * step, and its rows follow each other at `stride`: rows as they
   are have stride d and step 8. S has rows of `width`, a multiple of 8; values beyond d have no
   meaning. Eight values after the last row must be readable. */
ANY_ORDER ONE_PER_CPU static void add_products(
    const double *restrict R, ptrdiff_t m, ptrdiff_t d, ptrdiff_t stride, ptrdiff_t step,
    double *restrict S, ptrdiff_t width)
{
    for (ptrdiff_t j = 0; j < d; j += 8)
        for (ptrdiff_t i = 0; i < j + 8 && i < d; i += 4) {
            four a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, b0 = {0}, b1 = {0}, b2 = {0}, b3 = {0};
            const double *restrict left = R + i / 8 * step + i % 8;
            const double *restrict right = R + j / 8 * step;
            for (ptrdiff_t t = 0; t < m; t++, left += stride, right += stride) {
                const four x = *(const four *)right, y = *(const four *)(right + 4);
                a0 += left[0] * x;
                b0 += left[0] * y;
                a1 += left[1] * x;
                b1 += left[1] * y;
                a2 += left[2] * x;
                b2 += left[2] * y;
                a3 += left[3] * x;
                b3 += left[3] * y;
            }
            double *restrict s = S + i * width + j;
            *(four *)s += a0;
            *(four *)(s + 4) += b0;
            *(four *)(s + width) += a1;
            *(four *)(s + width + 4) += b1;
            *(four *)(s + 2 * width) += a2;
            *(four *)(s + 2 * width + 4) += b2;
            *(four *)(s + 3 * width) += a3;
            *(four *)(s + 3 * width + 4) += b3;
        }
}
#else
#define MAX_FEATURES_FOR_LOOPS 0
#define MAX_FEATURES_WITHOUT_PANELS 0
static void add_products(
    const double *R, ptrdiff_t m, ptrdiff_t d, ptrdiff_t stride, ptrdiff_t step, double *S,
    ptrdiff_t width)
{
}
#endif

#endif
