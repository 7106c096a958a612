# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""One row unlearned in place, where ``downdate.py`` would have nothing to warn of or to refuse.

The formulas and the checks are those of ``downdate.py``. Where a check finds anything, or a class
or a feature becomes empty or constant, the moments stay bit-identical, for ``downdate.py`` to
decide.
"""

from libc.math cimport INFINITY, fabs, fmax, fmin, hypot, sqrt
from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

from counterpoise.moments._moments cimport MomentsView, best_anchor

from counterpoise.moments import downdate

cdef double EPS = downdate.EPS
cdef double MIN_RESIDUAL_WEIGHT = downdate.MIN_RESIDUAL_WEIGHT
cdef double PSD_RTOL = downdate.PSD_RTOL
cdef double RESIDUAL_RTOL = downdate.RESIDUAL_RTOL
cdef double MAX_RELATIVE_ERROR = downdate.MAX_RELATIVE_ERROR
cdef double MEAN_ROUNDING_ULPS = downdate.MEAN_ROUNDING_ULPS
cdef int MIN_TRUSTED_BITS = downdate.MIN_TRUSTED_BITS
cdef Py_ssize_t MAX_FEATURES_TO_FACTORIZE = downdate.MAX_FEATURES_TO_FACTORIZE


cdef extern from "kernels.h" nogil:
    void add_weight(double w, double* n, double* weight_remainder)
    uint64_t fold_bits(uint64_t bits)
    uint64_t ticket(double w)
    void hash_row(
        const double* x, Py_ssize_t d, uint64_t t, uint64_t* plain, uint64_t* mixed
    )
    int eliminate(
        double* U, Py_ssize_t d, Py_ssize_t width, Py_ssize_t stride, const double* tiny
    )


cdef class RowDowndate:
    """Workspace to unlearn one row of d features, and what a class was before."""

    def __init__(self, Py_ssize_t d):
        import numpy as np

        self.mean, self.max_scatter, self.diagonal, self.r = np.zeros((4, d))
        self.removed, self.nonconstant_weight = np.zeros((2, 2 * d))

    cdef bint begin(self, MomentsView* s, Py_ssize_t k, const double* x, double w) noexcept nogil:
        """Remove a row of class k from all but the scatter off the diagonal.

        Return whether nothing speaks against it; otherwise nothing has changed.
        """
        cdef Py_ssize_t d = s.d, j
        self.k, self.x, self.w = k, x, w
        self.n, self.weight_remainder, self.N = s.n[k], s.weight_remainder[k], s.N[k]
        for j in range(s.c):
            if s.n[j] <= 0.0:
                return False
        memcpy(&self.mean[0], s.mean + k * d, d * sizeof(double))
        memcpy(&self.max_scatter[0], s.max_scatter + k * d, d * sizeof(double))
        memcpy(&self.removed[0], s.removed + k * 2 * d, 2 * d * sizeof(double))
        memcpy(
            &self.nonconstant_weight[0], s.nonconstant_weight + k * 2 * d, 2 * d * sizeof(double)
        )
        for j in range(d):
            self.diagonal[j] = s.C[k * s.size + j * (s.stride + 1)]
        self.hash_again(s, 0 - ticket(w))
        if self.remove(s) and self.keeps_features(s):
            return True
        self.restore(s)
        return False

    cdef void hash_again(self, MomentsView* s, uint64_t t) noexcept nogil:
        """Add the hashes of the row, t times."""
        cdef uint64_t* plain = s.row_hashes + self.k * 2 * (s.d + 1)
        hash_row(self.x, s.d, t, plain, plain + s.d + 1)

    cdef bint remove(self, MomentsView* s) noexcept nogil:
        """Remove the row; return False if its class would be empty, or a number impossible."""
        cdef Py_ssize_t d = s.d, k = self.k, j, value
        cdef double n_a = self.n, w = self.w, n = n_a, rest = self.weight_remainder
        cdef double least = MIN_RESIDUAL_WEIGHT * s.min_row_weight[k]
        cdef double root, x, delta, left, was
        cdef double* mean = s.mean + k * d
        cdef double* C = s.C + k * s.size
        cdef double* removed = s.removed + k * 2 * d
        cdef double* weight
        add_weight(-w, &n, &rest)
        left, rest = rest, 0.0
        add_weight(left, &n, &rest)
        if not n > fmax(RESIDUAL_RTOL * n_a, least):
            return False
        s.n[k], s.weight_remainder[k] = n, rest
        s.N[k] = n if self.N == n_a else self.N - w
        root = sqrt(n * (w / n_a))
        for j in range(d):
            x = self.x[j] - s.anchor[j]
            mean[j] -= (x - mean[j]) * (w / n)
            delta = x - mean[j]
            self.r[j] = root * delta
            C[j * (s.stride + 1)] -= self.r[j] * self.r[j]
            if not C[j * (s.stride + 1)] >= 0.0:
                return False
            s.max_scatter[k * d + j] = hypot(self.max_scatter[j], self.diagonal[j])
            if removed[j] == 0.0:
                removed[d + j] = self.mean[j] + s.anchor[j]
            removed[j] = hypot(
                removed[j], MEAN_ROUNDING_ULPS * n_a * (fabs(self.mean[j]) + fabs(delta))
            )
            for value in range(2):
                weight = s.nonconstant_weight + (k * 2 + value) * d + j
                was = weight[0]
                left = was - (w if self.x[j] != value else 0.0)
                if left < -least or left > n + least:
                    return False
                if was > 0.0 and left <= RESIDUAL_RTOL * was:
                    return False  # the feature may be constant now
                weight[0] = fmin(fmax(left, 0.0), n)
        return True

    cdef bint keeps_features(self, MomentsView* s) noexcept nogil:
        """Return whether features stay what they are: zero, constant, or near the anchor."""
        cdef Py_ssize_t d = s.d, k = self.k, j, l
        cdef double value
        cdef bint is_zero, is_common
        cdef Constants found
        read_weight(s, k, &found)
        for j in range(d):
            is_zero = True
            for l in range(s.c):
                is_zero = is_zero and s.nonconstant_weight[l * 2 * d + j] == 0.0
            if is_zero or best_anchor(s, NULL, j) != s.anchor[j]:
                return False
            if not is_constant(s, k, j, &found, &value) or (
                s.C[k * s.size + j * (s.stride + 1)]
                > MAX_RELATIVE_ERROR * s.max_scatter[k * d + j]
            ):
                continue
            # It was constant before, and has no rounding error.
            if self.diagonal[j] != 0.0 or self.max_scatter[j] != 0.0 or self.r[j] != 0.0:
                return False
            if s.mean[k * d + j] != value - s.anchor[j]:
                return False
            s.max_scatter[k * d + j] = s.removed[k * 2 * d + j] = 0.0
            is_common = value != s.anchor[j]
            for l in range(s.c):
                is_common = (
                    is_common and s.C[l * s.size + j * (s.stride + 1)] == 0.0
                    and s.mean[l * d + j] == s.mean[k * d + j]
                )
            if is_common:
                return False  # the anchor moves there
        return True

    cdef bint is_definite(
        self, MomentsView* s, double* U, Py_ssize_t width, double* tiny
    ) noexcept nogil:
        """Return whether the scatter that is left is positive semidefinite, except for rounding.

        U (d, width) and tiny (d,) are workspace, and what is left of the scatter of wide rows is
        not factorized.
        """
        cdef Py_ssize_t d = s.d, k = self.k, i, j
        cdef double* C = s.C + k * s.size
        cdef double place, rounding, off, factor
        cdef double* row
        if d > MAX_FEATURES_TO_FACTORIZE:
            return True
        for j in range(d):
            place = s.mean[k * d + j]
            off = s.removed[k * 2 * d + j]
            rounding = 1e6 * EPS * (fabs(s.anchor[j]) + fabs(place))
            rounding = PSD_RTOL * d * s.max_scatter[k * d + j] + s.n[k] * (rounding * rounding)
            place = fabs((s.anchor[j] - s.removed[(k * 2 + 1) * d + j]) + place)
            rounding += 1e-290 + 1e3 * EPS * off * (
                2.0 * place + sqrt(C[j * (s.stride + 1)] / s.n[k])
            )
            tiny[j] = 1.0 / sqrt(C[j * (s.stride + 1)] + rounding)
        for i in range(d):
            row = U + i * width
            factor = self.r[i]
            for j in range(i, d):
                row[j] = C[i * s.stride + j] - factor * self.r[j]
            factor = tiny[i]
            for j in range(i, d):
                row[j] *= factor * tiny[j]
            row[i] = 1.0 + PSD_RTOL
            memset(row + d, 0, (width - d) * sizeof(double))
        memset(tiny, 0, d * sizeof(double))
        return not eliminate(U, d, width, width, tiny)

    cdef void restore(self, MomentsView* s) noexcept nogil:
        """Add the row again: every number is what it was."""
        cdef Py_ssize_t d = s.d, k = self.k, j
        s.n[k], s.weight_remainder[k], s.N[k] = self.n, self.weight_remainder, self.N
        memcpy(s.mean + k * d, &self.mean[0], d * sizeof(double))
        memcpy(s.max_scatter + k * d, &self.max_scatter[0], d * sizeof(double))
        memcpy(s.removed + k * 2 * d, &self.removed[0], 2 * d * sizeof(double))
        memcpy(
            s.nonconstant_weight + k * 2 * d, &self.nonconstant_weight[0], 2 * d * sizeof(double)
        )
        for j in range(d):
            s.C[k * s.size + j * (s.stride + 1)] = self.diagonal[j]
        self.hash_again(s, ticket(self.w))

    cdef void complete(self, MomentsView* s) noexcept nogil:
        """Remove the row from the scatter off the diagonal, and from the stream."""
        cdef Py_ssize_t i, j
        cdef double total = 0.0, factor, own
        cdef double* row
        for i in range(s.d):
            row = s.C + self.k * s.size + i * s.stride
            factor, own = self.r[i], row[i]
            for j in range(s.d):
                row[j] -= factor * self.r[j]
            row[i] = own
        for i in range(s.c):
            total += s.N[i]
        for i in range(s.c):
            s.stream[i] = total


cdef struct Constants:
    uint64_t* plain
    uint64_t* mixed
    uint64_t inverse  # of the odd part of the weight, modulo 2**64
    int known         # bits of a value that the plain hash determines


cdef void read_weight(const MomentsView* s, Py_ssize_t k, Constants* found) noexcept nogil:
    """Prepare :func:`is_constant` for a class."""
    cdef uint64_t odd, W
    found.plain = s.row_hashes + k * 2 * (s.d + 1)
    found.mixed = found.plain + s.d + 1
    W = odd = found.plain[0]
    found.known = 64 if W else 0
    found.inverse = 1
    if W:
        while not odd & 1:
            odd >>= 1
            found.known -= 1
        while odd * found.inverse != 1:
            found.inverse *= 2 - odd * found.inverse


cdef bint is_constant(
    const MomentsView* s, Py_ssize_t k, Py_ssize_t j, const Constants* found, double* value
) noexcept nogil:
    """Return whether ``downdate.constant_features`` finds a value that all rows left have."""
    cdef uint64_t plain = found.plain[1 + j], mixed = found.mixed[1 + j], W = found.plain[0]
    cdef uint64_t bits, around
    cdef double near = s.mean[k * s.d + j] + s.anchor[j]
    cdef int known = found.known
    if known < MIN_TRUSTED_BITS:
        return False
    value[0] = 0.0
    if plain == 0 and mixed == 0:
        return True
    bits = (plain >> (64 - known)) * found.inverse
    if known < 64:
        bits &= (<uint64_t> 1 << known) - 1
        memcpy(&around, &near, sizeof(double))
        around = around - bits + (<uint64_t> 1 << (known - 1))
        bits += (around >> known) << known
    memcpy(value, &bits, sizeof(double))
    return bits * W == plain and fold_bits(bits) * W == mixed


cdef void relative_error(const MomentsView* s, double* error) noexcept nogil:
    """Compute ``downdate.relative_error`` of classes that all have rows."""
    cdef Py_ssize_t d = s.d, k, j, evenly
    cdef double low, high, m, total, left, noise, own, off, apart, n, alpha
    cdef double* mean
    for j in range(d):
        error[j] = 0.0
        low, high = INFINITY, -INFINITY
        for k in range(s.c):
            low, high = fmin(low, s.mean[k * d + j]), fmax(high, s.mean[k * d + j])
        for evenly in range(2):
            m = total = left = noise = 0.0
            for k in range(s.c):
                alpha = 1.0 if evenly else s.n[k]
                m += alpha * s.mean[k * d + j]
                total += alpha
            m /= total
            for k in range(s.c):
                mean, n = s.mean + k * d + j, s.n[k]
                alpha = 1.0 / n if evenly else 1.0
                own = s.C[k * s.size + j * (s.stride + 1)]
                left += alpha * (own + n * (mean[0] - m) * (mean[0] - m))
                off = s.removed[k * 2 * d + j]
                apart = fmax(high - mean[0], mean[0] - low)
                total = fabs((s.anchor[j] - s.removed[(k * 2 + 1) * d + j]) + mean[0])
                off *= 2.0 * total + sqrt(fmax(own, 0.0) / n + apart * apart)
                noise += alpha * (s.max_scatter[k * d + j] + off)
            if left < 0.0:
                error[j] = INFINITY
            elif noise > 0.0:
                error[j] = fmax(error[j], EPS * noise / left)
