/* Rows times terms, in tiles. Each value is computed by the same operations in the same order,
   independent of other rows: a map is a function of the row, bit by bit. */

#ifndef COUNTERPOISE_TILES_H
#define COUNTERPOISE_TILES_H

#include "kernels.h"

#define PANEL 8          /* terms in a panel, which has their values for each feature in turn */
#define MIN_EXPONENT -345.0 /* below, squares of exp would be denormal numbers: 0 instead */

#if defined(__GNUC__)
typedef long long four_bits __attribute__((vector_size(32)));

/* exp(x) of values that are not positive: 2^k exp(r), where |r| <= log(2)/2, by its series. */
INLINE four exp_four(four x)
{
    const four shift = {6755399441055744.0, 6755399441055744.0, 6755399441055744.0,
                        6755399441055744.0}; /* 1.5 times 2^52: what is added is rounded */
    const four_bits far = x < MIN_EXPONENT;
    x = (four)((four_bits)x & ~far);
    const four moved = x * 1.4426950408889634 + shift;
    const four k = moved - shift;
    const four r = (x - k * 0x1.62e42fefa3800p-1) - k * 0x1.ef35793c76730p-45;
    four p;
    EXP_SERIES(p, r)
    const four_bits power = ((four_bits)moved - (four_bits)shift) << 52;
    return (four)(((four_bits)p + power) & ~far);
}

/* Products, or squares of distances and what exp makes of them, of R rows and one panel. */
INLINE void tile(
    const int R, const int near, const double *restrict X, ptrdiff_t l,
    const double *restrict panel, const double *restrict sharp, ptrdiff_t count,
    double *restrict out, ptrdiff_t stride)
{
    four low[4], high[4];
    for (int i = 0; i < R; i++)
        low[i] = high[i] = (four){0};
    for (ptrdiff_t j = 0; j < l; j++) {
        const four a = *(const four *)(panel + PANEL * j);
        const four b = *(const four *)(panel + PANEL * j + 4);
        for (int i = 0; i < R; i++) {
            const double x = X[i * l + j];
            if (near) {
                const four u = a - x, v = b - x;
                low[i] += u * u;
                high[i] += v * v;
            } else {
                low[i] += a * x;
                high[i] += b * x;
            }
        }
    }
    for (int i = 0; i < R; i++) {
        if (near) {
            low[i] = exp_four(low[i] * *(const four *)sharp);
            high[i] = exp_four(high[i] * *(const four *)(sharp + 4));
        }
        double *restrict o = out + i * stride;
        if (count == PANEL) {
            *(four *)o = low[i];
            *(four *)(o + 4) = high[i];
        } else
            for (ptrdiff_t t = 0; t < count; t++)
                o[t] = t < 4 ? low[i][t] : high[i][t - 4];
    }
}
#else
INLINE void tile(
    const int R, const int near, const double *X, ptrdiff_t l, const double *panel,
    const double *sharp, ptrdiff_t count, double *out, ptrdiff_t stride)
{
    for (int i = 0; i < R; i++)
        for (ptrdiff_t t = 0; t < count; t++) {
            double sum = 0.0;
            for (ptrdiff_t j = 0; j < l; j++) {
                const double x = X[i * l + j], w = panel[PANEL * j + t];
                sum += near ? (w - x) * (w - x) : w * x;
            }
            sum = near ? sum * sharp[t] : sum;
            out[i * stride + t] = !near ? sum : sum < MIN_EXPONENT ? 0.0 : exp(sum);
        }
}
#endif

INLINE void tiles(
    const int near, const double *restrict X, ptrdiff_t n, ptrdiff_t l,
    const double *restrict panels, const double *restrict sharp, double *restrict out,
    ptrdiff_t terms, ptrdiff_t stride)
{
    for (ptrdiff_t i = 0; i < n; i += 4) {
        const double *restrict x = X + i * l;
        double *restrict o = out + i * stride;
        for (ptrdiff_t t = 0; t < terms; t += PANEL) {
            const ptrdiff_t count = terms - t < PANEL ? terms - t : PANEL;
            const double *restrict p = panels + t * l, *restrict s = near ? sharp + t : sharp;
            if (n - i >= 4)
                tile(4, near, x, l, p, s, count, o + t, stride);
            else
                for (ptrdiff_t r = 0; r < n - i; r++)
                    tile(1, near, x + r * l, l, p, s, count, o + r * stride + t, stride);
        }
    }
}

/* W, of `terms` rows, as panels, the last of which is filled up with zeros. */
static void in_panels(
    const double *restrict W, ptrdiff_t terms, ptrdiff_t l, double *restrict panels)
{
    for (ptrdiff_t t = 0; t < terms; t += PANEL, W += PANEL * l, panels += PANEL * l)
        if (terms - t >= PANEL)
            for (ptrdiff_t j = 0; j < l; j++)
                for (int i = 0; i < PANEL; i++)
                    panels[PANEL * j + i] = W[i * l + j];
        else
            for (ptrdiff_t j = 0; j < l; j++)
                for (int i = 0; i < PANEL; i++)
                    panels[PANEL * j + i] = i < terms - t ? W[i * l + j] : 0.0;
}

/* out = X W', where W stands in panels. */
FUSED ONE_PER_CPU static void products_of_rows(
    const double *restrict X, ptrdiff_t n, ptrdiff_t l, const double *restrict panels,
    double *restrict out, ptrdiff_t terms)
{
    tiles(0, X, n, l, panels, panels, out, terms, terms);
}

/* out = exp(sharp |x - w|^2), where W stands in panels and sharp is not positive. */
FUSED ONE_PER_CPU static void nearness_of_rows(
    const double *restrict X, ptrdiff_t n, ptrdiff_t l, const double *restrict panels,
    const double *restrict sharp, double *restrict out, ptrdiff_t terms, ptrdiff_t stride)
{
    tiles(1, X, n, l, panels, sharp, out, terms, stride);
}

#endif
