/* Products of small matrices, stored by columns, without packing: for sizes at which BLAS spends
   much of its time on copies and at the edges. */

#ifndef COUNTERPOISE_MULTIPLY_H
#define COUNTERPOISE_MULTIPLY_H

#include "symmetric.h"

#if defined(__GNUC__)
/* Rows from which, and below which, this is faster than dgemm. */
#define FEWEST_ROWS 12
#define MOST_ROWS 240
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

/* C = A B, or C += A B, of at least FEWEST_ROWS rows. The last ones are found together with some
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
#define FEWEST_ROWS 1
#define MOST_ROWS 0
static void multiply(
    ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t inner, const double *A, ptrdiff_t lda,
    const double *B, ptrdiff_t ldb, int more, double *C, ptrdiff_t ldc)
{
}
#endif

#endif
