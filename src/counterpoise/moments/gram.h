/* Products of features: S += R'R, up to widths at which BLAS has got going. */

#ifndef COUNTERPOISE_PRODUCTS_H
#define COUNTERPOISE_PRODUCTS_H

#include "symmetric.h"

#if defined(__GNUC__)
/* Features up to which these loops are faster than dsyrk (benchmarks/bulk.py), and up to which rows
   as they are serve as well as panels. */
#define WIDEST 512
#define NARROW 96
typedef double four __attribute__((vector_size(32), aligned(8), may_alias));

/* S += R'R of m rows of d values, blocks of 4 by 8 on and above the diagonal. Panel p, eight columns
   of R, begins at R + p * step, and its rows follow each other at `stride`: rows as they are have
   stride d and step 8. S has rows of `width`, a multiple of 8; what stands in it beyond d is of no
   account. Eight values after the last row must be readable. */
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
#define WIDEST 0
#define NARROW 0
static void add_products(
    const double *R, ptrdiff_t m, ptrdiff_t d, ptrdiff_t stride, ptrdiff_t step, double *S,
    ptrdiff_t width)
{
}
#endif

#endif
