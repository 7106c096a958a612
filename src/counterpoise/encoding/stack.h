/* Columns to rows: a transposition in blocks that stay in the nearest cache. */

#ifndef COUNTERPOISE_STACK_H
#define COUNTERPOISE_STACK_H

#include "kernels.h"

#if defined(__GNUC__) && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HAS_SHUFFLES 1
typedef int64_t four_bits __attribute__((vector_size(32), may_alias));

/* a where the bits of the mask are set, else b. */
INLINE four select_four(four_bits mask, four a, four b)
{
    return (four)((mask & (four_bits)a) | (~mask & (four_bits)b));
}
#endif
#endif

enum { ROWS_PER_BLOCK = 64 };

/* X[i][j] = columns[j][i] for n rows of d columns; low and high become the least and the greatest
   value of each column. Returns 0, with X incomplete, if a value is NaN or beyond the limit. */
ONE_PER_CPU static int stack_rows(
    const double *const *columns, ptrdiff_t n, ptrdiff_t d, double limit, double *restrict X,
    double *restrict low, double *restrict high)
{
    for (ptrdiff_t j = 0; j < d; j++) {
        low[j] = INFINITY;
        high[j] = -INFINITY;
    }
    for (ptrdiff_t start = 0; start < n; start += ROWS_PER_BLOCK) {
        const ptrdiff_t stop = n - start < ROWS_PER_BLOCK ? n : start + ROWS_PER_BLOCK;
        ptrdiff_t j = 0;
        int is_valid = 1;
#ifdef HAS_SHUFFLES
        for (; j + 4 <= d && stop - start == ROWS_PER_BLOCK; j += 4) {
            const double *const x[4] = {columns[j], columns[j + 1], columns[j + 2], columns[j + 3]};
            four least[4], greatest[4];
            four sums = {0.0, 0.0, 0.0, 0.0}; /* NaN, if a value is NaN or infinite */
            for (int k = 0; k < 4; k++)
                least[k] = greatest[k] = *(const four *)(x[k] + start);
            for (ptrdiff_t i = start; i < stop; i += 4) {
                four v[4];
                for (int k = 0; k < 4; k++) {
                    v[k] = *(const four *)(x[k] + i);
                    least[k] = select_four(v[k] < least[k], v[k], least[k]);
                    greatest[k] = select_four(v[k] > greatest[k], v[k], greatest[k]);
                    sums += v[k] * 0.0;
                }
                const four a = __builtin_shufflevector(v[0], v[1], 0, 4, 2, 6);
                const four b = __builtin_shufflevector(v[0], v[1], 1, 5, 3, 7);
                const four c = __builtin_shufflevector(v[2], v[3], 0, 4, 2, 6);
                const four e = __builtin_shufflevector(v[2], v[3], 1, 5, 3, 7);
                double *to = X + i * d + j;
                *(four *)to = __builtin_shufflevector(a, c, 0, 1, 4, 5);
                *(four *)(to + d) = __builtin_shufflevector(b, e, 0, 1, 4, 5);
                *(four *)(to + 2 * d) = __builtin_shufflevector(a, c, 2, 3, 6, 7);
                *(four *)(to + 3 * d) = __builtin_shufflevector(b, e, 2, 3, 6, 7);
            }
            is_valid &= (sums[0] + sums[1]) + (sums[2] + sums[3]) == 0.0;
            for (int k = 0; k < 4; k++)
                for (int i = 0; i < 4; i++) {
                    low[j + k] = least[k][i] < low[j + k] ? least[k][i] : low[j + k];
                    high[j + k] = greatest[k][i] > high[j + k] ? greatest[k][i] : high[j + k];
                }
        }
#endif
        for (; j < d; j++) {
            const double *restrict x = columns[j];
            double least = low[j], greatest = high[j];
            for (ptrdiff_t i = start; i < stop; i++) {
                const double v = x[i];
                is_valid &= v == v;
                least = v < least ? v : least;
                greatest = v > greatest ? v : greatest;
                X[i * d + j] = v;
            }
            low[j] = least;
            high[j] = greatest;
        }
        for (j = 0; j < d; j++)
            is_valid &= low[j] >= -limit && high[j] <= limit;
        if (!is_valid)
            return 0;
    }
    return 1;
}

/* The different texts of n cells get codes in the order of their first appearance. Returns how many
   there are, and the row of the first of each; or -1 if there are more than `most`. */
static ptrdiff_t code_texts(
    const int32_t *restrict ends, const unsigned char *restrict text, ptrdiff_t n, ptrdiff_t most,
    ptrdiff_t *restrict first, ptrdiff_t *restrict codes)
{
    ptrdiff_t found = 0, k = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const int32_t at = ends[i], size = ends[i + 1] - at;
        for (k = 0; k < found; k++) {
            const int32_t other = ends[first[k]];
            if (ends[first[k] + 1] - other == size && !memcmp(text + at, text + other, size))
                break;
        }
        if (k == found) {
            if (found == most)
                return -1;
            first[found++] = i;
        }
        codes[i] = k;
    }
    return found;
}

#endif
