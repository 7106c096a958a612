/* Sums over categories as a power series in the change t of the weights of the classes.

   With Q = S + t T of a category, of weight D (1 + q t), and R = T - q S,

       QQ'/(D (1 + q t)) = (SS' + t (SH' + HS') + sum_m t^m (-q)^(m - 2) RR')/D,   m = 2, 3, ...

   where H = R + q/2 S. Row i of the upper triangle of all orders stands at B + i ORDERS width.

   The link also needs sums of p W' and of n WW', where W = Q/(D (1 + q t)), p are the sums of one
   class and n the weight of each. With V = S + R t/(1 + q t), these are pV'/D and n VV'/D^2. */

#ifndef COUNTERPOISE_CATEGORY_SERIES_H
#define COUNTERPOISE_CATEGORY_SERIES_H

#include "symmetric.h"

enum { ORDERS = 8 };

/* What one category adds: its vectors of `width` entries, a multiple of 4, and 1/D with a sign. */
typedef struct {
    const double *S, *H, *R, *P;
    double scale, q, count[2]; /* P: the sums of class 0 times its weight; count: n of each class */
} category_terms;

/* Add two categories to the first `rows` rows of all orders. */
ANY_ORDER ONE_PER_CPU static void add_categories(
    const category_terms *one, const category_terms *two, ptrdiff_t rows, ptrdiff_t width,
    double *restrict B)
{
    const double *restrict S = one->S, *restrict H = one->H, *restrict R = one->R;
    const double *restrict S2 = two->S, *restrict H2 = two->H, *restrict R2 = two->R;
    const double q = -one->q, p = -two->q;
    const double qq = q * q, qqq = qq * q, q4 = qq * qq, q5 = qqq * qq;
    const double pp = p * p, ppp = pp * p, p4 = pp * pp, p5 = ppp * pp;
    for (ptrdiff_t i = 0; i < rows; i++) {
        const double s = one->scale * S[i], h = one->scale * H[i], r = one->scale * R[i];
        const double s2 = two->scale * S2[i], h2 = two->scale * H2[i], r2 = two->scale * R2[i];
        double *restrict b0 = B + i * ORDERS * width, *restrict b1 = b0 + width;
        double *restrict b2 = b1 + width, *restrict b3 = b2 + width, *restrict b4 = b3 + width;
        double *restrict b5 = b4 + width, *restrict b6 = b5 + width, *restrict b7 = b6 + width;
        for (ptrdiff_t j = i / 4 * 4; j < width; j++) {
            const double x = r * R[j], y = r2 * R2[j];
            b0[j] += s * S[j] + s2 * S2[j];
            b1[j] += (s * H[j] + h * S[j]) + (s2 * H2[j] + h2 * S2[j]);
            b2[j] += x + y;
            b3[j] += q * x + p * y;
            b4[j] += qq * x + pp * y;
            b5[j] += qqq * x + ppp * y;
            b6[j] += q4 * x + p4 * y;
            b7[j] += q5 * x + p5 * y;
        }
    }
}

/* Add the terms of one category: to J those of pV'/D, all of the first `rows` - 1 rows, and to F those
   of n VV'/D^2, the upper triangle of `rows` rows for each class. */
ANY_ORDER ONE_PER_CPU static void add_squares(
    const category_terms *one, double alpha, ptrdiff_t rows, ptrdiff_t width, double *restrict J,
    double *restrict F)
{
    const double *restrict S = one->S, *restrict R = one->R;
    const double q = -one->q, each = fabs(one->scale) * one->scale;
    double power[ORDERS];
    power[0] = 1.0;
    for (int m = 1; m < ORDERS; m++)
        power[m] = power[m - 1] * q;
    for (ptrdiff_t i = 0; i + 1 < rows; i++) {
        const double p = one->P[i] * one->scale / alpha;
        double *restrict row = J + i * ORDERS * width;
        for (ptrdiff_t j = 0; j < width; j++)
            row[j] += p * S[j];
        for (int m = 1; m < ORDERS; m++) {
            const double f = p * power[m - 1];
            for (ptrdiff_t j = 0; j < width; j++)
                row[m * width + j] += f * R[j];
        }
    }
    for (ptrdiff_t i = 0; i < rows; i++) {
        const ptrdiff_t first = i / 4 * 4;
        double *restrict row = F + i * 2 * ORDERS * width;
        for (int k = 0; k < 2; k++) {
            const double n = each * one->count[k], s = n * S[i], r = n * R[i];
            if (n == 0.0)
                continue;
            double *restrict own = row + k * ORDERS * width;
            for (ptrdiff_t j = first; j < width; j++)
                own[j] += s * S[j];
            for (int m = 1; m < ORDERS; m++) {
                const double f = power[m - 1], g = m > 1 ? (m - 1) * power[m - 2] : 0.0;
                const double a = f * r, b = f * s + g * r;
                for (ptrdiff_t j = first; j < width; j++)
                    own[m * width + j] += a * S[j] + b * R[j];
            }
        }
    }
}

/* T[j] = sum_m power[m] B[m][j], one row of a sum. */
ANY_ORDER ONE_PER_CPU static void sum_row(
    const double *restrict B, const double *restrict power, ptrdiff_t width, double *restrict T)
{
    for (ptrdiff_t j = 0; j < width; j++) {
        double sum = 0.0;
        for (int m = 0; m < ORDERS; m++)
            sum += power[m] * B[m * width + j];
        T[j] = sum;
    }
}

/* Make features of the rows and columns of M relative to another origin, moved by f, of which
   the first entry and all after the features are 0. */
ANY_ORDER ONE_PER_CPU static void move_origin_of(
    double *restrict M, ptrdiff_t rows, ptrdiff_t width, const double *restrict f)
{
    for (ptrdiff_t i = 0; i < rows; i++) {
        double *restrict row = M + i * width;
        const double first = row[0];
        for (ptrdiff_t j = 0; j < width; j++)
            row[j] -= f[j] * first;
    }
    for (ptrdiff_t i = 1; i < rows; i++) {
        double *restrict row = M + i * width;
        for (ptrdiff_t j = 0; j < width; j++)
            row[j] -= f[i] * M[j];
    }
}

/* C = (A - a B)/b of `count` numbers. */
ANY_ORDER ONE_PER_CPU static void subtract_share(
    const double *restrict A, double a, const double *restrict B, double b, ptrdiff_t count,
    double *restrict C)
{
    const double inverse = 1.0 / b;
    for (ptrdiff_t j = 0; j < count; j++)
        C[j] = (A[j] - a * B[j]) * inverse;
}

/* U -= the other rows of the sum, from entry i of row i, about another origin:
   U[i][j] -= T[i][j] - f[i] g[j] - T[0][i] f[j] + h[i] k[j], of `count` rows and one more column. */
ANY_ORDER ONE_PER_CPU static void subtract_rows(
    const double *restrict B, const double *restrict power, ptrdiff_t width,
    const double *restrict T, const double *restrict f, const double *restrict g,
    const double *restrict h, const double *restrict k, ptrdiff_t count, double *restrict U,
    ptrdiff_t stride)
{
    const double c0 = power[0], c1 = power[1], c2 = power[2], c3 = power[3];
    const double c4 = power[4], c5 = power[5], c6 = power[6], c7 = power[7];
    for (ptrdiff_t i = 1; i <= count; i++) {
        const double *restrict b0 = B + i * ORDERS * width, *restrict b1 = b0 + width;
        const double *restrict b2 = b1 + width, *restrict b3 = b2 + width;
        const double *restrict b4 = b3 + width, *restrict b5 = b4 + width;
        const double *restrict b6 = b5 + width, *restrict b7 = b6 + width;
        double *restrict row = U + (i - 1) * stride;
        const double fi = f[i], ti = T[i], hi = h[i];
        for (ptrdiff_t j = i; j < count + 2; j++)
            row[j - 1] -= ((c0 * b0[j] + c1 * b1[j]) + (c2 * b2[j] + c3 * b3[j]))
                          + ((c4 * b4[j] + c5 * b5[j]) + (c6 * b6[j] + c7 * b7[j]))
                          - (fi * g[j] + ti * f[j]) + hi * k[j];
    }
}

#endif
