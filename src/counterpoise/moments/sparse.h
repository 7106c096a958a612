/* Products of several chunks of CSR rows, added to a scatter in one pass.

   Chunk t of a class adds (P_t - u_t u_t') + delta_t delta_t'. Most entries of P_t are 0. An entry
   of the scatter is the same to the last bit if the chunks are added one by one. */

#ifndef COUNTERPOISE_SPARSE_H
#define COUNTERPOISE_SPARSE_H

#include "kernels.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

#if defined(__GNUC__)
#define FETCH_EARLY(address) __builtin_prefetch(address)
#else
#define FETCH_EARLY(address)
#endif

enum { COLUMNS_PER_TILE = 256, ROWS_PER_BAND = 512, ENTRIES_PER_BAND = 1 << 16 };

typedef struct {
    const double *data; /* CSR rows, sorted */
    const ptrdiff_t *at, *start;
    const double *column; /* the same as CSC columns */
    const ptrdiff_t *row, *first;
    const double *u, *delta;
} chunk_products;

/* Columns from..to of row i get all chunks, as if every P_t were 0 there. */
ONE_PER_CPU static void add_outer_products(
    const chunk_products *restrict chunks, ptrdiff_t count, ptrdiff_t i, ptrdiff_t from,
    ptrdiff_t to, double *restrict C)
{
    ptrdiff_t j = from;
#if defined(__GNUC__)
    for (; j + 16 <= to; j += 16) {
        four c[4];
        for (int k = 0; k < 4; k++)
            c[k] = *(const four *)(C + j + 4 * k);
        for (ptrdiff_t t = 0; t < count; t++) {
            const double u_i = chunks[t].u[i], delta_i = chunks[t].delta[i];
            const four *u = (const four *)(chunks[t].u + j);
            const four *delta = (const four *)(chunks[t].delta + j);
            if (u_i != 0.0)
                for (int k = 0; k < 4; k++)
                    c[k] += delta_i * delta[k] - u_i * u[k];
            else
                for (int k = 0; k < 4; k++)
                    c[k] += delta_i * delta[k];
        }
        for (int k = 0; k < 4; k++)
            *(four *)(C + j + 4 * k) = c[k];
    }
#endif
    for (; j < to; j++)
        for (ptrdiff_t t = 0; t < count; t++)
            C[j] += chunks[t].delta[i] * chunks[t].delta[j] - chunks[t].u[i] * chunks[t].u[j];
}

/* Entries of row i before its diagonal that have a product: their columns and final values.
   Returns how many there are. outer (d, 2, count) has each u and delta. slots (d,) is -1
   everywhere, before and after. */
ONE_PER_CPU static ptrdiff_t add_row_products(
    const chunk_products *restrict chunks, ptrdiff_t count, ptrdiff_t i, const double *restrict C,
    const double *restrict outer, ptrdiff_t *restrict slots, double *restrict products,
    ptrdiff_t *restrict at, double *restrict value)
{
    const double *restrict u_i = outer + 2 * i * count, *restrict delta_i = u_i + count;
    ptrdiff_t found = 0;
    for (ptrdiff_t t = 0; t < count; t++) {
        const chunk_products *restrict one = chunks + t;
        for (ptrdiff_t a = one->first[i]; a < one->first[i + 1]; a++)
            for (ptrdiff_t b = one->start[one->row[a]]; b < one->start[one->row[a] + 1]; b++) {
                const ptrdiff_t j = one->at[b];
                if (j >= i)
                    break;
                if (slots[j] < 0) {
                    slots[j] = found;
                    at[found] = j;
                    FETCH_EARLY(C + j);
                    for (ptrdiff_t s = 0; s < count; s++)
                        products[found * count + s] = 0.0;
                    found++;
                }
                products[slots[j] * count + t] += one->column[a] * one->data[b];
            }
    }
    for (ptrdiff_t k = 0; k < found; k++) {
        const ptrdiff_t j = at[k];
        const double *restrict u_j = outer + 2 * j * count, *restrict delta_j = u_j + count;
        double *restrict more = products + k * count;
        double c = C[j];
        for (ptrdiff_t t = 0; t < count; t++)
            more[t] = (more[t] - u_i[t] * u_j[t]) + delta_i[t] * delta_j[t];
        for (ptrdiff_t t = 0; t < count; t++)
            c += more[t];
        value[k] = c;
        slots[j] = -1;
    }
    return found;
}

/* row += (products - u_i u) + delta_i delta, and products = 0. */
ONE_PER_CPU static void add_product_row(
    double *restrict row, ptrdiff_t d, double *restrict products, double u_i,
    const double *restrict u, double delta_i, const double *restrict delta)
{
    for (ptrdiff_t j = 0; j < d; j++) {
        row[j] += (products[j] - u_i * u[j]) + delta_i * delta[j];
        products[j] = 0.0;
    }
}

/* Add all chunks to C, without its diagonal, row by row: for few chunks, or many products. products
   (d,) is workspace. */
static void add_chunks_by_row(
    const chunk_products *chunks, ptrdiff_t count, ptrdiff_t d, double *C, ptrdiff_t stride,
    double *restrict products)
{
    for (ptrdiff_t j = 0; j < d; j++)
        products[j] = 0.0;
    for (ptrdiff_t i = 0; i < d; i++) {
        double *row = C + i * stride;
        const double diagonal = row[i];
        for (ptrdiff_t t = 0; t < count; t++) {
            const chunk_products *restrict one = chunks + t;
            for (ptrdiff_t a = one->first[i]; a < one->first[i + 1]; a++) {
                const double value = one->column[a];
                const ptrdiff_t r = one->row[a];
                for (ptrdiff_t b = one->start[r]; b < one->start[r + 1]; b++)
                    products[one->at[b]] += value * one->data[b];
            }
            if (one->first[i] < one->first[i + 1] || one->delta[i] != 0.0)
                add_product_row(row, d, products, one->u[i], one->u, one->delta[i], one->delta);
        }
        row[i] = diagonal;
    }
}

/* Add all chunks to the lower triangle of C, without its diagonal: for several, and few products.
   slots (d,), outer (d, 2, count) and products (d, count) are workspace, and so are at and value
   (d + ENTRIES_PER_BAND,). */
static void add_chunks_by_tile(
    const chunk_products *chunks, ptrdiff_t count, ptrdiff_t d, double *C, ptrdiff_t stride,
    ptrdiff_t *slots, double *outer, double *products, ptrdiff_t *at, double *value)
{
    ptrdiff_t ends[ROWS_PER_BAND + 1];
    for (ptrdiff_t j = 0; j < d; j++) {
        slots[j] = -1;
        for (ptrdiff_t t = 0; t < count; t++) {
            outer[2 * j * count + t] = chunks[t].u[j];
            outer[(2 * j + 1) * count + t] = chunks[t].delta[j];
        }
    }
    for (ptrdiff_t first = 0, stop; first < d; first = stop) {
        ends[0] = 0;
        for (stop = first; stop < d && stop - first < ROWS_PER_BAND; stop++) {
            const ptrdiff_t used = ends[stop - first];
            if (used > ENTRIES_PER_BAND)
                break;
            ends[stop - first + 1] =
                used + add_row_products(chunks, count, stop, C + stop * stride, outer, slots,
                                        products, at + used, value + used);
        }
        for (ptrdiff_t from = 0; from < stop; from += COLUMNS_PER_TILE)
            for (ptrdiff_t i = from < first ? first : from; i < stop; i++) {
                const ptrdiff_t to = i - from < COLUMNS_PER_TILE ? i : from + COLUMNS_PER_TILE;
                add_outer_products(chunks, count, i, from, to, C + i * stride);
            }
        for (ptrdiff_t i = first; i < stop; i++)
            for (ptrdiff_t k = ends[i - first]; k < ends[i - first + 1]; k++)
                C[i * stride + at[k]] = value[k];
    }
}

#endif
