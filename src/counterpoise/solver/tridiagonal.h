/* Products with the inverse of a tridiagonal matrix T = LDL', several rows at a time. */

#ifndef COUNTERPOISE_TRIDIAGONAL_H
#define COUNTERPOISE_TRIDIAGONAL_H

#include "kernels.h"

#define LANES 16 /* rows at a time: each step waits for the one before */

/* `count` rows X (l values each) as l vectors of LANES values, the last of them 0. */
static void in_lanes(
    const double *restrict X, ptrdiff_t count, ptrdiff_t l, double *restrict lanes)
{
    for (ptrdiff_t j = 0; j < l; j++)
        for (int i = 0; i < LANES; i++)
            lanes[LANES * j + i] = i < count ? X[i * l + j] : 0.0;
}

/* out = x'T^-1 y of the rows in each lane, where D has the inverse pivots and L begins with a 0. */
FUSED ONE_PER_CPU static void products_in_lanes(
    const double *restrict x, const double *restrict y, const double *restrict L,
    const double *restrict D, ptrdiff_t l, double *restrict out)
{
#if defined(__GNUC__)
    four u[LANES / 4], v[LANES / 4], sum[LANES / 4];
    for (int i = 0; i < LANES / 4; i++)
        u[i] = v[i] = sum[i] = (four){0};
    for (ptrdiff_t j = 0; j < l; j++)
        for (int i = 0; i < LANES / 4; i++) {
            u[i] = *(const four *)(x + LANES * j + 4 * i) - L[j] * u[i];
            v[i] = *(const four *)(y + LANES * j + 4 * i) - L[j] * v[i];
            sum[i] += D[j] * u[i] * v[i];
        }
    for (int i = 0; i < LANES / 4; i++)
        *(four *)(out + 4 * i) = sum[i];
#else
    for (int i = 0; i < LANES; i++) {
        double u = 0.0, v = 0.0, sum = 0.0;
        for (ptrdiff_t j = 0; j < l; j++) {
            u = x[LANES * j + i] - L[j] * u;
            v = y[LANES * j + i] - L[j] * v;
            sum += D[j] * u * v;
        }
        out[i] = sum;
    }
#endif
}

/* x = T^-1 x. */
static void solve_factored(
    const double *restrict L, const double *restrict D, ptrdiff_t l, double *restrict x)
{
    for (ptrdiff_t j = 1; j < l; j++)
        x[j] -= L[j] * x[j - 1];
    x[l - 1] *= D[l - 1];
    for (ptrdiff_t j = l - 2; j >= 0; j--)
        x[j] = D[j] * x[j] - L[j + 1] * x[j + 1];
}

#endif
