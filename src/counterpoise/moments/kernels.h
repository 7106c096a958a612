/* The innermost loops of learning and solving.

   C and not Cython because `restrict` and one clone per instruction set are what make them as
   fast as a copy. */

#ifndef COUNTERPOISE_ROWS_H
#define COUNTERPOISE_ROWS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && \
    defined(__linux__) && defined(__GLIBC__)
#define ONE_PER_CPU __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define ONE_PER_CPU
#endif

/* Floating-point exception flags are not needed, so choices need no branches. */
#if defined(__GNUC__) && !defined(__clang__)
#define QUIET __attribute__((optimize("no-trapping-math")))
#else
#define QUIET
#endif

/* A product and a sum in one instruction, where there is one: it rounds once. */
#if defined(__GNUC__) && !defined(__clang__)
#define FUSED __attribute__((optimize("fp-contract=fast")))
#else
#define FUSED
#endif

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

/* p = e^x to the last bit or two, for |x| <= 0.35, of numbers or of vectors of them. */
#define EXP_SERIES(p, x)                                                                           \
    p = x * (1.0 / 6227020800.0) + 1.0 / 479001600.0;                                              \
    p = p * x + 1.0 / 39916800.0;                                                                  \
    p = p * x + 1.0 / 3628800.0;                                                                   \
    p = p * x + 1.0 / 362880.0;                                                                    \
    p = p * x + 1.0 / 40320.0;                                                                     \
    p = p * x + 1.0 / 5040.0;                                                                      \
    p = p * x + 1.0 / 720.0;                                                                       \
    p = p * x + 1.0 / 120.0;                                                                       \
    p = p * x + 1.0 / 24.0;                                                                        \
    p = p * x + 1.0 / 6.0;                                                                         \
    p = p * x + 0.5;                                                                               \
    p = p * x + 1.0;                                                                               \
    p = p * x + 1.0;

/* `count` columns of four rows with their weights and the roots of these: see gather_rows. */
INLINE void gather_four(
    const double *const x[4], const double w[4], const double s[4], const double *restrict centre,
    ptrdiff_t count, ptrdiff_t stride, double *restrict r0, double *restrict total,
    double *restrict not_zero, double *restrict not_one)
{
    const double *restrict x0 = x[0], *restrict x1 = x[1];
    const double *restrict x2 = x[2], *restrict x3 = x[3];
    double *restrict r1 = r0 + stride, *restrict r2 = r1 + stride, *restrict r3 = r2 + stride;
    for (ptrdiff_t j = 0; j < count; j++) {
        const double v0 = x0[j] - centre[j], v1 = x1[j] - centre[j];
        const double v2 = x2[j] - centre[j], v3 = x3[j] - centre[j];
        r0[j] = s[0] * v0;
        r1[j] = s[1] * v1;
        r2[j] = s[2] * v2;
        r3[j] = s[3] * v3;
        total[j] += (w[0] * v0 + w[1] * v1) + (w[2] * v2 + w[3] * v3);
        not_zero[j] += ((x0[j] != 0.0 ? w[0] : 0.0) + (x1[j] != 0.0 ? w[1] : 0.0)) +
                       ((x2[j] != 0.0 ? w[2] : 0.0) + (x3[j] != 0.0 ? w[3] : 0.0));
        not_one[j] += ((x0[j] != 1.0 ? w[0] : 0.0) + (x1[j] != 1.0 ? w[1] : 0.0)) +
                      ((x2[j] != 1.0 ? w[2] : 0.0) + (x3[j] != 1.0 ? w[3] : 0.0));
    }
}

/* Rows of one class, centered, weighted and summed up, four at a time so that the sums stay in
   registers: R[i] = sqrt(w_i) (x_i - centre), total += w_i (x_i - centre), and
   not_zero += w_i [x_i != 0], not_one += w_i [x_i != 1], for the m rows of X that are listed.
   R has its columns in panels of `span`, which begin at multiples of `step`, and the
   rows of a panel at multiples of `stride`. Returns n and the sum of the w_i. */
ONE_PER_CPU static double gather_rows(
    double n, const double *restrict X, ptrdiff_t d, const ptrdiff_t *restrict rows, ptrdiff_t m,
    const double *restrict weight, const double *restrict centre, ptrdiff_t span, ptrdiff_t step,
    ptrdiff_t stride, double *restrict R, double *restrict total, double *restrict not_zero,
    double *restrict not_one)
{
    ptrdiff_t i = 0;
    for (; i + 4 <= m; i += 4) {
        double w[4], s[4];
        for (int k = 0; k < 4; k++) {
            w[k] = weight[rows[i + k]];
            s[k] = sqrt(w[k]);
        }
        n += (w[0] + w[1]) + (w[2] + w[3]);
        double *panel = R + i * stride;
        for (ptrdiff_t j = 0; j < d; j += span, panel += step) {
            const double *const x[4] = {X + rows[i] * d + j, X + rows[i + 1] * d + j,
                                        X + rows[i + 2] * d + j, X + rows[i + 3] * d + j};
            if (span == 8 && j + 8 <= d) /* a constant number of columns for the compiler */
                gather_four(x, w, s, centre + j, 8, stride, panel, total + j, not_zero + j,
                            not_one + j);
            else
                gather_four(x, w, s, centre + j, d - j < span ? d - j : span, stride, panel,
                            total + j, not_zero + j, not_one + j);
        }
    }
    for (; i < m; i++) {
        const double *restrict x = X + rows[i] * d;
        const double w = weight[rows[i]], s = sqrt(w);
        n += w;
        double *panel = R + i * stride;
        for (ptrdiff_t from = 0; from < d; from += span, panel += step) {
            const ptrdiff_t to = d - from < span ? d : from + span;
            double *restrict r = panel - from;
            for (ptrdiff_t j = from; j < to; j++) {
                const double v = x[j] - centre[j];
                r[j] = s * v;
                total[j] += w * v;
                not_zero[j] += x[j] != 0.0 ? w : 0.0;
                not_one[j] += x[j] != 1.0 ? w : 0.0;
            }
        }
    }
    return n;
}

/* sum += w_i (x_i - anchor) over every `sample`-th of m rows; returns the sum of their w_i. */
ONE_PER_CPU static double sum_rows(
    const double *restrict X, ptrdiff_t d, const ptrdiff_t *restrict rows, ptrdiff_t m,
    ptrdiff_t sample, const double *restrict weight, const double *restrict anchor,
    double *restrict sum)
{
    double n = 0.0;
    for (ptrdiff_t i = 0; i < m; i += sample) {
        const double *restrict x = X + rows[i] * d;
        const double w = weight[rows[i]];
        n += w;
        for (ptrdiff_t j = 0; j < d; j++)
            sum[j] += w * (x[j] - anchor[j]);
    }
    return n;
}

/* Add a weight to n and its remainder, together twice as precise as n alone: of n + w the
   rounded sum goes into n, and its rounding error into the remainder (Knuth). */
static inline void add_weight(double w, double *n, double *remainder)
{
    const double sum = *n + w, part = sum - *n;
    *remainder += (*n - (sum - part)) + (w - part);
    *n = sum;
}

/* The bits of a value; those of -0 are those of 0. */
static inline uint64_t bits_of(double x)
{
    uint64_t bits;
    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Scramble bits, one to one; 0 stays 0. */
static inline uint64_t scramble(uint64_t bits)
{
    bits ^= bits >> 32;
    bits *= 0xd6e8feb86659fd93u;
    bits ^= bits >> 32;
    bits *= 0xd6e8feb86659fd93u;
    return bits ^ (bits >> 32);
}

/* How often a row of this weight counts in the row hashes: a whole weight is a repetition. */
static inline uint64_t ticket(double w)
{
    return w < 9007199254740992.0 && w == floor(w) ? (uint64_t)w : scramble(bits_of(w));
}

/* The square of the two halves of the bits, folded: with the sum of the bits, the sum of these
   shows whether values vary, as a sum of squares does, for one multiplication of 32 bits. */
static inline uint64_t fold_bits(uint64_t bits)
{
    const uint64_t half = (uint32_t)(bits ^ (bits >> 32));
    return half * half;
}

/* The hashes of one row: plain += t bits(x_j), mixed += t fold_bits(bits(x_j)) modulo 2^64, after
   the sum of the t themselves in front. */
ONE_PER_CPU static void hash_row(
    const double *restrict x, ptrdiff_t d, uint64_t t, uint64_t *restrict plain,
    uint64_t *restrict mixed)
{
    plain[0] += t;
    mixed[0] += t;
    if (t == 1) {
        for (ptrdiff_t j = 0; j < d; j++) {
            const uint64_t bits = bits_of(x[j]);
            plain[1 + j] += bits;
            mixed[1 + j] += fold_bits(bits);
        }
        return;
    }
    for (ptrdiff_t j = 0; j < d; j++) {
        const uint64_t bits = bits_of(x[j]);
        plain[1 + j] += t * bits;
        mixed[1 + j] += t * fold_bits(bits);
    }
}

/* The same for the m rows of X that are listed. */
static void hash_each(
    const double *restrict X, ptrdiff_t d, const ptrdiff_t *restrict rows, ptrdiff_t m,
    const double *restrict weight, uint64_t *restrict plain, uint64_t *restrict mixed)
{
    for (ptrdiff_t i = 0; i < m; i++)
        hash_row(X + rows[i] * d, d, ticket(weight[rows[i]]), plain, mixed);
}

#if defined(__x86_64__) && defined(__GNUC__)
/* Four rows of weight 1 at a time, four values of each: compilers find no product of 32 bits. */
__attribute__((target("avx2"))) static void hash_four(
    const double *const x[4], ptrdiff_t d, uint64_t *restrict plain, uint64_t *restrict mixed)
{
    const __m256d zero = _mm256_setzero_pd();
    ptrdiff_t j = 0;
    plain[0] += 4;
    mixed[0] += 4;
    for (; j + 4 <= d; j += 4) {
        __m256i sum = _mm256_loadu_si256((const __m256i *)(plain + 1 + j));
        __m256i squares = _mm256_loadu_si256((const __m256i *)(mixed + 1 + j));
        for (int i = 0; i < 4; i++) {
            const __m256i bits = _mm256_castpd_si256(
                _mm256_add_pd(_mm256_loadu_pd(x[i] + j), zero));
            const __m256i half = _mm256_xor_si256(bits, _mm256_srli_epi64(bits, 32));
            sum = _mm256_add_epi64(sum, bits);
            squares = _mm256_add_epi64(squares, _mm256_mul_epu32(half, half));
        }
        _mm256_storeu_si256((__m256i *)(plain + 1 + j), sum);
        _mm256_storeu_si256((__m256i *)(mixed + 1 + j), squares);
    }
    for (; j < d; j++)
        for (int i = 0; i < 4; i++) {
            const uint64_t bits = bits_of(x[i][j]);
            plain[1 + j] += bits;
            mixed[1 + j] += fold_bits(bits);
        }
}

static void hash_rows(
    const double *restrict X, ptrdiff_t d, const ptrdiff_t *restrict rows, ptrdiff_t m,
    const double *restrict weight, uint64_t *restrict plain, uint64_t *restrict mixed)
{
    ptrdiff_t i = 0;
    if (__builtin_cpu_supports("avx2"))
        for (; i + 4 <= m; i += 4) {
            const double *const x[4] = {
                X + rows[i] * d, X + rows[i + 1] * d, X + rows[i + 2] * d, X + rows[i + 3] * d};
            if (weight[rows[i]] == 1.0 && weight[rows[i + 1]] == 1.0
                && weight[rows[i + 2]] == 1.0 && weight[rows[i + 3]] == 1.0)
                hash_four(x, d, plain, mixed);
            else
                hash_each(X, d, rows + i, 4, weight, plain, mixed);
        }
    hash_each(X, d, rows + i, m - i, weight, plain, mixed);
}
#else
#define hash_rows hash_each
#endif

/* Sizes r of the entries of a row in the units of their columns, 1 at most; the units learn from
   it. See counterpoise.online.confidence_weighted. Units are powers of two, so that it rounds
   nothing. */
QUIET ONE_PER_CPU static void in_units(
    const double *restrict x, ptrdiff_t d, double *restrict unit, double *restrict r)
{
    double first = 0.0;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double size = fabs(x[j]), old = unit[j], twice = 2.0 * old, half = 0.5 * old;
        const double down = ((size < old) & (size > 0.0)) ? half : 0.0;
        const double now = (old - down) + (size >= twice ? old : 0.0);
        const double ratio = size / (now + (now > 0.0 ? 0.0 : 1.0));
        unit[j] = now;
        r[j] = ratio < 1.0 ? ratio : 1.0;
    }
    for (ptrdiff_t j = 0; j < d; j++) /* units of 0: rows of zeros, or first entries */
        first = unit[j] == 0.0 ? 1.0 : first;
    if (first > 0.0)
        for (ptrdiff_t j = 0; j < d; j++)
            if (unit[j] == 0.0 && x[j] != 0.0) {
                int exponent;
                frexp(x[j], &exponent);
                unit[j] = ldexp(0.5, exponent);
                r[j] = 1.0;
            }
}

/* The largest entry in the units of the columns; of a column of zeros that is 1. */
QUIET ONE_PER_CPU static double largest_in_units(
    const double *restrict w, ptrdiff_t d, const double *restrict unit)
{
    double most = 0.0;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double size = fabs(w[j]) * (unit[j] + (unit[j] > 0.0 ? 0.0 : 1.0));
        most = size > most ? size : most;
    }
    return most;
}

/* C += r r', with the same rounding on both sides of the diagonal. */
ONE_PER_CPU static void rank_one(
    const double *restrict r, ptrdiff_t d, double *restrict C, ptrdiff_t stride)
{
    for (ptrdiff_t i = 0; i < d; i++) {
        const double factor = r[i];
        double *restrict row = C + i * stride;
        for (ptrdiff_t j = 0; j < d; j++)
            row[j] += factor * r[j];
    }
}

/* Gaussian elimination of a symmetric positive definite K, of which the upper triangle stands in
   the first d columns of U, with right-hand sides in the others up to `width`, a multiple of 4.
   Afterwards a'K^-1 b = sum_i U[i][a] U[i][b] / U[i][i]. Four rows at a time, of which the columns
   are taken twelve at a time through all rows above, so that sums stay in registers. What is below
   the diagonal is lost. Returns whether a pivot vanished. */
#if defined(__GNUC__)
typedef double four __attribute__((vector_size(32), aligned(8), may_alias));

/* C -= F'U for `rows` rows and 4 `wide` columns, where F has four columns and k rows. */
FUSED INLINE void subtract_tile(
    const double *restrict F, const double *restrict U, ptrdiff_t stride, ptrdiff_t k,
    double *restrict C, ptrdiff_t rows, const int wide)
{
    four sum[4][3];
    for (int r = 0; r < 4; r++)
        for (int v = 0; v < wide; v++)
            sum[r][v] = (four){0.0, 0.0, 0.0, 0.0};
    for (ptrdiff_t i = 0; i < k; i++) {
        four u[3];
        for (int v = 0; v < wide; v++)
            u[v] = *(const four *)(U + i * stride + 4 * v);
        for (int r = 0; r < 4; r++)
            for (int v = 0; v < wide; v++)
                sum[r][v] += F[4 * i + r] * u[v];
    }
    for (ptrdiff_t r = 0; r < rows; r++)
        for (int v = 0; v < wide; v++)
            *(four *)(C + r * stride + 4 * v) -= r == 0   ? sum[0][v]
                                                 : r == 1 ? sum[1][v]
                                                 : r == 2 ? sum[2][v]
                                                          : sum[3][v];
}

FUSED ONE_PER_CPU static int eliminate_rows(
    double *restrict U, ptrdiff_t d, ptrdiff_t width, ptrdiff_t stride,
    const double *restrict tiny, double *restrict F, double *restrict inverse)
{
    for (ptrdiff_t i = 0; i < d; i += 4) {
        const ptrdiff_t rows = d - i < 4 ? d - i : 4;
        double *restrict p = U + i * stride;
        if (i > 0) {
            for (ptrdiff_t k = 0; k < i; k++)
                for (int r = 0; r < 4; r++)
                    F[4 * k + r] = U[k * stride + i + r] * inverse[k];
            ptrdiff_t j = i;
            for (; j + 12 <= width; j += 12)
                subtract_tile(F, U + j, stride, i, p + j, rows, 3);
            if (j + 8 <= width) {
                subtract_tile(F, U + j, stride, i, p + j, rows, 2);
                j += 8;
            }
            if (j + 4 <= width)
                subtract_tile(F, U + j, stride, i, p + j, rows, 1);
        }
        /* The four among themselves: first their square, then all columns on its right. */
        double f[4][4] = {{0.0}};
        for (ptrdiff_t k = 0; k < rows; k++) {
            const double *restrict pivot = p + k * stride;
            if (!(pivot[i + k] > tiny[i + k]))
                return 1;
            inverse[i + k] = 1.0 / pivot[i + k];
            for (ptrdiff_t r = k + 1; r < rows; r++) {
                f[k][r] = pivot[i + r] * inverse[i + k];
                for (ptrdiff_t j = i + r; j < i + 4; j++)
                    p[r * stride + j] -= f[k][r] * pivot[j];
            }
        }
        if (rows == 4)
            for (ptrdiff_t j = i + 4; j < width; j += 4) {
                const four a = *(four *)(p + j);
                four b = *(four *)(p + stride + j), c = *(four *)(p + 2 * stride + j);
                four e = *(four *)(p + 3 * stride + j);
                b -= f[0][1] * a;
                c -= f[0][2] * a;
                e -= f[0][3] * a;
                c -= f[1][2] * b;
                e -= f[1][3] * b;
                e -= f[2][3] * c;
                *(four *)(p + stride + j) = b;
                *(four *)(p + 2 * stride + j) = c;
                *(four *)(p + 3 * stride + j) = e;
            }
        else
            for (ptrdiff_t k = 0; k < rows; k++)
                for (ptrdiff_t r = k + 1; r < rows; r++)
                    for (ptrdiff_t j = i + 4; j < width; j++)
                        p[r * stride + j] -= f[k][r] * p[k * stride + j];
    }
    return 0;
}

static int eliminate(
    double *restrict U, ptrdiff_t d, ptrdiff_t width, ptrdiff_t stride, const double *restrict tiny)
{
    double few[5 * 256]; /* of up to 256 rows; more need an allocation */
    double *F = d <= 256 ? few : malloc(5 * d * sizeof *F);
    const int failed = F == NULL || eliminate_rows(U, d, width, stride, tiny, F, F + 4 * d);
    if (F != few)
        free(F);
    return failed;
}
#else
static int eliminate(
    double *U, ptrdiff_t d, ptrdiff_t width, ptrdiff_t stride, const double *tiny)
{
    for (ptrdiff_t i = 0; i < d; i++) {
        const double *pivot = U + i * stride;
        if (!(pivot[i] > tiny[i]))
            return 1;
        for (ptrdiff_t r = i + 1; r < d; r++)
            for (ptrdiff_t j = width - 1; j >= r; j--)
                U[r * stride + j] -= pivot[r] / pivot[i] * pivot[j];
    }
    return 0;
}
#endif

/* U[i][j] = keep U[i][j] + sum_k (alpha_k C_k[i][j] + a_k delta_k[i] delta_k[j]) for two classes,
   upper triangle. */
FUSED ONE_PER_CPU static void add_two_classes(
    ptrdiff_t d, ptrdiff_t stride_C, const double *restrict C_0, double alpha_0, double a_0,
    const double *restrict delta_0, const double *restrict C_1, double alpha_1, double a_1,
    const double *restrict delta_1, int keep, double *restrict U, ptrdiff_t stride)
{
    for (ptrdiff_t i = 0; i < d; i++) {
        const double f = a_0 * delta_0[i], g = a_1 * delta_1[i];
        const double *restrict c_0 = C_0 + i * stride_C, *restrict c_1 = C_1 + i * stride_C;
        double *restrict row = U + i * stride;
        if (keep)
            for (ptrdiff_t j = i; j < d; j++)
                row[j] += (alpha_0 * c_0[j] + alpha_1 * c_1[j]) + (f * delta_0[j] + g * delta_1[j]);
        else
            for (ptrdiff_t j = i; j < d; j++)
                row[j] = (alpha_0 * c_0[j] + alpha_1 * c_1[j]) + (f * delta_0[j] + g * delta_1[j]);
    }
}

/* U[i][j] += alpha C[i][j] + a delta[i] delta[j], upper triangle. */
FUSED ONE_PER_CPU static void add_class(
    const double *restrict C, ptrdiff_t d, ptrdiff_t stride_C, double alpha, double a,
    const double *restrict delta, double *restrict U, ptrdiff_t stride)
{
    for (ptrdiff_t i = 0; i < d; i++) {
        const double factor = a * delta[i];
        const double *restrict c = C + i * stride_C;
        double *restrict row = U + i * stride;
        for (ptrdiff_t j = i; j < d; j++)
            row[j] += alpha * c[j] + factor * delta[j];
    }
}

#endif
