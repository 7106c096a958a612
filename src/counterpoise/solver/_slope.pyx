# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""The slope of least expected log loss over pairs of classes: see ``link.py``."""

from libc.math cimport INFINITY, fabs

cdef extern from "link.h" nogil:
    void doubts(const double* prior, const double* g, double b, Py_ssize_t m, double* r)
    void lay_points(
        double odds, double count, double middle, double deviation, const double* at,
        const double* mass, Py_ssize_t m, double* prior, double* g, double* wg, double* wgg
    )
    void sum_doubts(
        const double* wg, const double* wgg, const double* r, Py_ssize_t m, double* falls,
        double* bends
    )

cdef Py_ssize_t MAX_NODES = 64
cdef double SLOPE_RTOL = 1e-6  # of the last of Newton's steps, each of which squares the error
cdef double MIN_FALL = 1e-18  # per unit of weight: the loss of separate classes never stops falling
cdef Py_ssize_t PAIRS_PER_SAMPLE = 16  # of which one is used in the first steps


def find_slope(
    const double[::1] odds, const double[::1] count, const double[::1] middle,
    const double[::1] deviation, const double[::1] at, const double[::1] mass, double start=0.0,
):
    """Return the slope b of pairs of classes with these margins, for a positive mean square.

    A pair has the margins ``middle + deviation * at``, of mean square 1 on average, with the
    weights ``count * mass``, and the logarithm ``odds`` of the odds of its classes. The loss is
    convex: Newton's steps, and halves where they would leave what is left to search.
    """
    cdef double b = start
    if at.shape[0] > MAX_NODES:
        raise ValueError(f"at has {at.shape[0]} points; at most {MAX_NODES} are possible")
    with nogil:
        if b == 0.0 and odds.shape[0] > 64 * PAIRS_PER_SAMPLE:
            b = newton(odds, count, middle, deviation, at, mass, b, PAIRS_PER_SAMPLE)
        b = newton(odds, count, middle, deviation, at, mass, b, 1)
    return b


cdef double newton(
    const double[::1] odds, const double[::1] count, const double[::1] middle,
    const double[::1] deviation, const double[::1] at, const double[::1] mass, double b,
    Py_ssize_t every,
) noexcept nogil:
    """Return the slope of one pair of ``every``, beginning at b."""
    cdef double low = -INFINITY, high = INFINITY, falls, bends, size, step, one, two, weight
    cdef double prior[64]
    cdef double g[64]
    cdef double wg[64]
    cdef double wgg[64]
    cdef double r[64]
    cdef Py_ssize_t turn, i, m = at.shape[0]
    for turn in range(50):
        falls = bends = weight = 0.0
        i = 0
        while i < odds.shape[0]:
            lay_points(
                odds[i], count[i], middle[i], deviation[i], &at[0], &mass[0], m, prior, g, wg, wgg
            )
            doubts(prior, g, b, m, r)
            sum_doubts(wg, wgg, r, m, &one, &two)
            falls += one
            bends += two
            weight += count[i]
            i += every
        if fabs(falls) <= MIN_FALL * weight:
            break
        if falls > 0.0:
            low = b
        else:
            high = b
        size = 1.0 + fabs(b)
        step = falls / (bends + 1e-300)
        step = min(max(step, -8.0 * size), 8.0 * size)
        if not low < b + step < high:
            if fabs(step) <= 1e-13 * size:
                break
            b = 0.5 * (low + high)
            continue
        b += step
        if fabs(step) <= SLOPE_RTOL * size:
            break
    return b
