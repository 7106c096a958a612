# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Row loops: rows weighted, hashed and learned one by one, moments added up.

Arrays are float64, finite and C-ordered. State comes last and changes. No signal interrupts a call.
"""

import numpy as np

from libc.math cimport fabs, frexp, ldexp, rint, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from counterpoise.moments._categories import add_columns
from counterpoise.moments._sums cimport mirror

# Between the anchor and the mean of all rows, in squared standard deviations: the mean is then off
# by at most 8 units in the last place of a deviation.
cdef double MAX_SQUARED_DISTANCE = 64.0
cdef double MIN_CLASS_WEIGHT = 2.0 ** -600  # of a decayed class: its rows are 600 half-lives old
MIN_DECAYED_CLASS_WEIGHT = MIN_CLASS_WEIGHT


cdef extern from "kernels.h" nogil:
    void add_weight(double w, double* n, double* weight_remainder)
    uint64_t bits_of(double x)
    uint64_t fold_bits(uint64_t bits)
    uint64_t ticket(double w)
    void hash_row(
        const double* x, Py_ssize_t d, uint64_t t, uint64_t* plain, uint64_t* mixed
    )


def weigh(const Py_ssize_t[::1] rows, const double[::1] weight, double n):
    """Return the true sum of the weights of these rows minus n, and the smallest weight."""
    cdef double total = 0.0, weight_remainder = 0.0, min_row_weight = weight[rows[0]]
    cdef Py_ssize_t i
    with nogil:
        for i in range(rows.shape[0]):
            add_weight(weight[rows[i]], &total, &weight_remainder)
            min_row_weight = min(min_row_weight, weight[rows[i]])
    return (total - n) + weight_remainder, min_row_weight


ctypedef fused label_t:
    uint8_t
    int64_t


def two_groups(const label_t[::1] y, label_t one, label_t two, Py_ssize_t[:, ::1] rows):
    """Write the rows of either label into ``rows``, in order; return how many there are."""
    cdef Py_ssize_t i, a = 0, b = 0
    with nogil:
        for i in range(y.shape[0]):  # without a branch, which could not be predicted
            rows[0, a] = i
            rows[1, b] = i
            a += y[i] == one
            b += y[i] == two
    return a, b


def is_bounded(moments, double largest, double heaviest):
    """Return whether means plus deviations, and weights, are finite and within these limits."""
    cdef const double[::1] n = moments.n, N = moments.N, anchor = moments.anchor
    cdef const double[:, ::1] mean = moments.mean, max_scatter = moments.max_scatter
    cdef Py_ssize_t k, j
    cdef bint fine = True
    with nogil:
        for k in range(n.shape[0]):
            fine = fine and N[k] <= heaviest
            for j in range(anchor.shape[0]):
                fine = fine and (
                    fabs(anchor[j] + mean[k, j])
                    + sqrt(max_scatter[k, j] / max(n[k], 1e-300)) <= largest
                )
    return fine


def describe_nonzero(moments):
    """Return mean, standard deviation and weight of the values of each feature that are not 0.

    Without such values, all are 0. Of values with a 0 in almost no row, 0 is one.
    """
    cdef const double[::1] n = moments.n, anchor = moments.anchor
    cdef const double[:, ::1] means = moments.mean
    cdef const double[:, :, ::1] nonconstant = moments.nonconstant_weight
    cdef const double[:, :, :] C = moments.C
    cdef Py_ssize_t c = n.shape[0], d = anchor.shape[0], k, j
    found = np.zeros((3, d))
    cdef double[:, ::1] out = found
    cdef double total = 0.0, weight, mean, scatter, apart, square
    for k in range(c):
        total += n[k]
    for j in range(d):
        weight = mean = scatter = 0.0
        for k in range(c):
            weight += nonconstant[k, 0, j]
            mean += n[k] * means[k, j] / total
        for k in range(c):
            apart = means[k, j] - mean
            scatter += C[k, j, j] + n[k] * apart * apart
        mean += anchor[j]
        out[2, j] = weight
        if weight >= total * (1.0 - 1e-9):
            out[0, j], out[1, j] = mean, sqrt(max(scatter / total, 0.0))
        elif weight > 0.0:  # the sums are the same, and there are fewer values
            out[0, j] = total * mean / weight
            square = (scatter + total * mean * mean) / weight - out[0, j] * out[0, j]
            out[1, j] = sqrt(max(square, 0.0))
    return found


ctypedef fused place_t:
    int32_t
    int64_t


def hash_sparse(
    const double[::1] data,
    const place_t[::1] indices,
    const place_t[::1] indptr,
    const double[::1] weight,
    uint64_t[:, ::1] row_hashes,
):
    """Add the hashes of CSR rows of one class; the hash of 0 is 0."""
    cdef Py_ssize_t i, p, j
    cdef uint64_t t, bits
    with nogil:
        for i in range(weight.shape[0]):
            t = ticket(weight[i])
            row_hashes[0, 0] += t
            row_hashes[1, 0] += t
            for p in range(indptr[i], indptr[i + 1]):
                j, bits = 1 + indices[p], bits_of(data[p])
                row_hashes[0, j] += t * bits
                row_hashes[1, j] += t * fold_bits(bits)


def fold(const uint64_t[::1] bits, uint64_t[::1] result):
    """Fold the bits of values as the second row hashes do."""
    cdef Py_ssize_t j
    for j in range(bits.shape[0]):
        result[j] = fold_bits(bits[j])


def fill_moments(
    const double[::1] N, const double[::1] anchor, const double[:, :] mean, const double[:, :, :] C,
    const Py_ssize_t[::1] at, const Py_ssize_t[::1] by, const double[::1] base,
    const uint8_t[::1] present, double[:, ::1] shift, double[::1] anchor_out, double[:, :] mean_out,
    double[:, :, :] C_out,
):
    """Impute missing values after the fact: see ``solver.imputation``.

    ``shift`` (2, p) becomes what an indicator adds to each feature, and what every row adds.
    """
    cdef Py_ssize_t p, k, i, j, c = N.shape[0], d = anchor.shape[0], a, b
    cdef double weight = 0.0, there, total, flag, m
    for k in range(c):
        weight += N[k]
    for p in range(at.shape[0]):
        a, b = at[p], by[p]
        there = total = 0.0
        for k in range(c):
            flag = anchor[b] + mean[k, b]
            there += N[k] * (flag if present[p] else 1.0 - flag)
            total += N[k] * (mean[k, a] + (anchor[a] - (0.0 if present[p] else base[p])))
        m = total / there if there > 1e-9 * max(weight, 1e-300) else 0.0
        shift[0, p] = -m if present[p] else m
        shift[1, p] = m + base[p] if present[p] else 0.0
    for i in range(d):
        anchor_out[i] = anchor[i]
        for k in range(c):
            mean_out[k, i] = mean[k, i]
            for j in range(d):
                C_out[k, i, j] = C[k, i, j]
    for p in range(at.shape[0]):
        a, b = at[p], by[p]
        anchor_out[a] += shift[0, p] * anchor[b] + shift[1, p]
        for k in range(c):
            mean_out[k, a] += shift[0, p] * mean[k, b]
            for j in range(d):
                C_out[k, a, j] += shift[0, p] * C_out[k, b, j]
    for p in range(at.shape[0]):
        a, b = at[p], by[p]
        for k in range(c):
            for j in range(d):
                C_out[k, j, a] += shift[0, p] * C_out[k, j, b]


cdef void decay_class(MomentsView* s, Py_ssize_t k, double keep) noexcept nogil:
    """Multiply the weights and the scatter of a class, but not its true weight."""
    cdef Py_ssize_t i, j
    cdef double* C = s.C + k * s.size
    s.n[k] *= keep
    s.weight_remainder[k] *= keep
    s.min_row_weight[k] *= keep
    for i in range(2 * s.d):
        s.nonconstant_weight[k * 2 * s.d + i] *= keep
    for i in range(s.d):
        for j in range(s.d):
            C[i * s.stride + j] *= keep


cdef void add_class(
    MomentsView* s, Py_ssize_t k, const MomentsView* b, Py_ssize_t l, double* about,
    const double* squares, const double* u
) noexcept nogil:
    """Add class l of b to class k by Chan's formulae; ``about`` is workspace for its mean.

    With ``squares`` the scatter of b is given by products: those of each feature with itself are
    squares - u**2, and only they are added.
    """
    cdef Py_ssize_t d = s.d, i, j, hashes = 2 * (d + 1)
    cdef double n_a = s.n[k], n_b = b.n[l], n = n_a, root
    cdef double* mean = s.mean + k * d
    cdef double* C = s.C + k * s.size
    cdef const double* C_b = b.C + l * b.size
    cdef double* removed = s.removed + k * 2 * d
    cdef const double* removed_b = b.removed + l * 2 * d
    for i in range(d):
        about[i] = b.mean[l * d + i] + (b.anchor[i] - s.anchor[i])
    add_weight(n_b, &n, &s.weight_remainder[k])
    s.weight_remainder[k] += b.weight_remainder[l]
    s.n[k] = n
    s.N[k] += b.N[l]
    if s.min_row_weight[k] == 0.0 or b.min_row_weight[l] < s.min_row_weight[k]:
        s.min_row_weight[k] = b.min_row_weight[l]
    for i in range(hashes):
        s.row_hashes[k * hashes + i] += b.row_hashes[l * hashes + i]
    if n_a == 0.0:
        for i in range(d):
            mean[i] = about[i]
            s.delta[i] = 0.0
            if squares == NULL:
                for j in range(i + 1):
                    C[i * s.stride + j] = C_b[i * b.stride + j]
    else:
        # The root, as in learn_row, so that unlearning rounds as learning did.
        root = sqrt(n_a * (n_b / n))
        for j in range(d):
            s.delta[j] = about[j] - mean[j]
            # From the heavier side, whose digits count: the other may be far away.
            if n_b <= n_a:
                mean[j] = mean[j] + s.delta[j] * (n_b / n)
            else:
                mean[j] = about[j] - s.delta[j] * (n_a / n)
            s.delta[j] *= root
        if squares == NULL:
            for i in range(d):
                for j in range(i + 1):
                    C[i * s.stride + j] += C_b[i * b.stride + j] + s.delta[i] * s.delta[j]
    if squares == NULL:
        mirror(C, s.stride, d)
    else:
        for i in range(d):
            C[i * (s.stride + 1)] += (squares[i] - u[i] * u[i]) + s.delta[i] * s.delta[i]
    for i in range(2 * d):
        s.nonconstant_weight[k * 2 * d + i] += b.nonconstant_weight[l * 2 * d + i]
    for i in range(d):
        s.max_scatter[k * d + i] = max(
            max(s.max_scatter[k * d + i], b.max_scatter[l * d + i]), C[i * (s.stride + 1)]
        )
        if removed[i] == 0.0:
            removed[d + i] = removed_b[d + i]
        removed[i] += removed_b[i]


cdef double round_to_grid(double place, double size) noexcept nogil:
    """Return a short number within half a deviation, so that differences from it are exact."""
    cdef int exponent
    cdef double grid
    if size <= 0.0:
        return place
    frexp(size, &exponent)
    grid = ldexp(1.0, exponent - 1)
    return grid * rint(place / grid) if fabs(place) < 4503599627370496.0 * grid else place


cdef void move_anchor(MomentsView* s, Py_ssize_t j, double place) noexcept nogil:
    """Make the means of feature j relative to another anchor."""
    cdef Py_ssize_t k
    cdef double old = s.anchor[j], shift = place - old, back = place - shift
    cdef double rounding = (place - (shift + back)) + (back - old)  # error of the shift
    s.anchor[j] = place
    for k in range(s.c):
        if s.n[k] > 0.0:
            s.mean[k * s.d + j] = (s.mean[k * s.d + j] - shift) - rounding


cdef double best_anchor(const MomentsView* s, const MomentsView* b, Py_ssize_t j) noexcept nogil:
    """Return the best anchor of feature j, before rows of b are added unless that is NULL.

    It is the present one, unless the mean of all rows is far from it.
    """
    cdef Py_ssize_t k
    cdef double total = 0.0, m = 0.0, v = 0.0, off, apart = 0.0
    for k in range(s.c):
        total += s.n[k]
        m += s.n[k] * s.mean[k * s.d + j]
    if b != NULL:
        apart = b.anchor[j] - s.anchor[j]
        for k in range(b.c):
            total += b.n[k]
            m += b.n[k] * (b.mean[k * s.d + j] + apart)
    if total == 0.0:
        return s.anchor[j]
    m /= total
    for k in range(s.c):
        if s.n[k] > 0.0:
            off = s.mean[k * s.d + j] - m
            v += s.C[k * s.size + j * (s.stride + 1)] + s.n[k] * (off * off)
    if b != NULL:
        for k in range(b.c):
            if b.n[k] > 0.0:
                off = (b.mean[k * s.d + j] + apart) - m
                v += b.C[k * b.size + j * (b.stride + 1)] + b.n[k] * (off * off)
    v /= total
    return round_to_grid(s.anchor[j] + m, sqrt(v)) if m * m > MAX_SQUARED_DISTANCE * v else s.anchor[j]


cdef void update_anchor(MomentsView* s, const MomentsView* b, Py_ssize_t j) noexcept nogil:
    """Move the anchor of feature j to the best one."""
    cdef double place = best_anchor(s, b, j)
    if place != s.anchor[j]:
        move_anchor(s, j, place)


cdef MomentsView view(moments) except *:
    """Return pointers to the arrays of moments, which must outlive it."""
    return view_with(moments, moments.C)


cdef MomentsView view_with(moments, const double[:, :, :] C) except *:
    """Return pointers to the arrays of moments, and to these scatters."""
    cdef MomentsView s
    cdef const double[::1] anchor = moments.anchor, n = moments.n, N = moments.N
    cdef const double[::1] remainder = moments.weight_remainder, stream = moments.stream
    cdef const double[::1] min_row_weight = moments.min_row_weight
    cdef const double[:, ::1] mean = moments.mean, max_scatter = moments.max_scatter
    cdef const double[:, :, ::1] nonconstant = moments.nonconstant_weight, removed = moments.removed
    cdef const uint64_t[:, :, ::1] row_hashes = moments.row_hashes
    s.c, s.d, s.delta = n.shape[0], anchor.shape[0], NULL
    s.stride, s.size = C.strides[1] // sizeof(double), C.strides[0] // sizeof(double)
    s.anchor, s.n, s.N = <double*> &anchor[0], <double*> &n[0], <double*> &N[0]
    s.weight_remainder, s.min_row_weight = <double*> &remainder[0], <double*> &min_row_weight[0]
    s.stream, s.mean, s.C = <double*> &stream[0], <double*> &mean[0, 0], <double*> &C[0, 0, 0]
    s.max_scatter, s.removed = <double*> &max_scatter[0, 0], <double*> &removed[0, 0, 0]
    s.nonconstant_weight = <double*> &nonconstant[0, 0, 0]
    s.row_hashes = <uint64_t*> &row_hashes[0, 0, 0]
    return s


def best_anchors(moments):
    """Return the best anchor of each feature; None if it is the present one."""
    cdef MomentsView s = view(moments)
    found = moments.anchor.copy()
    cdef double[::1] place = found
    cdef Py_ssize_t j
    cdef bint stays = True
    for j in range(s.d):
        place[j] = best_anchor(&s, NULL, j)
        stays = stays and place[j] == s.anchor[j]
    return None if stays else found


def add(
    const Py_ssize_t[::1] slot, const double[::1] keep, double share, b, a,
    holder=None, dict state=None, change=None
):
    """Add class j of the moments b to class ``slot[j]`` of a, which first decays by ``keep[j]``.

    With None for ``keep`` nothing decays by rows. All classes of a first decay by ``share``, by
    time, with their true weights; a class of almost no weight is then empty. ``change`` are new
    moments of categories. Last, the holder gets ``state``: a signal finds all of it, or nothing.
    The products of a ``SparseChunk`` become pending in a, except for the diagonals.
    """
    cdef const double[::1] when_b = b.when, clipped_b = b.clipped
    cdef double[::1] when = a.when, clipped = a.clipped, before
    cdef double[::1] scratch = a.anchor.copy(), about = a.anchor.copy()
    cdef Py_ssize_t j, k, i
    cdef double arrived = 0.0, left
    cdef bint decays = keep is not None
    cdef bint is_sparse = getattr(b, "parts", None) is not None
    cdef MomentsView s = view_with(a, a.unfinished_C if is_sparse else a.C), other = view(b)
    cdef const double[:, ::1] squares = b.squares if is_sparse else None
    cdef const double[:, ::1] u = b.u if is_sparse else None
    cdef list pending = []
    delta_of = np.empty((slot.shape[0] if is_sparse else 0, s.d))
    cdef double[:, ::1] deltas = delta_of
    if is_sparse:
        pending = [(slot[j], b.parts[j], delta_of[j]) for j in range(slot.shape[0]) if b.n[j] > 0.0]
    s.delta = &scratch[0]
    if share != 1.0:
        decay(a, share)
    before = a.stream.copy()
    with nogil:
        when[0] = max(when[0], when_b[0])
        clipped[0] += clipped_b[0]
        for j in range(slot.shape[0]):
            arrived += other.N[j]
        for k in range(s.c):
            s.stream[k] += arrived
        for j in range(slot.shape[0]):
            k = slot[j]
            left = keep[j] if decays else 1.0
            if other.n[j] > 0.0:
                s.stream[k] = left * before[k] + other.stream[j]
                if left != 1.0:
                    decay_class(&s, k, left)
        for i in range(s.d):
            update_anchor(&s, &other, i)
        for j in range(slot.shape[0]):
            if other.n[j] > 0.0 and is_sparse:
                s.delta = &deltas[j, 0]
                add_class(&s, slot[j], &other, j, &about[0], &squares[j, 0], &u[j, 0])
            elif other.n[j] > 0.0:
                add_class(&s, slot[j], &other, j, &about[0], NULL, NULL)
    if is_sparse:
        a.pending.extend(pending)
    if change is not None:
        add_columns(change[1])
        a.categories = change[0]
    if holder is not None:
        for name, value in state.items():
            setattr(holder, name, value)


cpdef void decay(a, double share) except *:
    """Scale the weights of all classes, the true ones too; empty those of almost no weight."""
    cdef MomentsView s = view(a)
    cdef Py_ssize_t d = s.d, k, i
    cdef double total = 0.0, left
    with nogil:
        for k in range(s.c):
            left = share if s.n[k] * share >= MIN_CLASS_WEIGHT else 0.0
            decay_class(&s, k, left)
            s.N[k] *= left
            total += s.N[k]
            if left == 0.0:
                for i in range(d):
                    s.mean[k * d + i] = s.max_scatter[k * d + i] = 0.0
                for i in range(2 * d):
                    s.removed[k * 2 * d + i] = 0.0
                for i in range(2 * (d + 1)):
                    s.row_hashes[k * 2 * (d + 1) + i] = 0
        for k in range(s.c):
            s.stream[k] = total


def add_all(list changes, holder, dict state):
    """Call ``add`` with each of these arguments, then set attributes of a holder, in one step."""
    for change in changes:
        add(*change)
    for name, value in state.items():
        setattr(holder, name, value)


cdef void learn_row(
    MomentsView* s, Py_ssize_t k, const double* x, double omega, double entering, double keep
) noexcept nogil:
    """Add one row of class k, which first decays by ``keep``.

    Without decay ``entering`` is the weight ``omega`` itself and ``keep`` is 1.
    """
    cdef Py_ssize_t d = s.d, i
    cdef double* mean = s.mean + k * d
    cdef double* C = s.C + k * s.size
    cdef double* max_scatter = s.max_scatter + k * d
    cdef double* nonconstant_weight = s.nonconstant_weight + k * 2 * d
    cdef double n_a, n, share, root
    if keep != 1.0:
        decay_class(s, k, keep)
    n = n_a = s.n[k]
    add_weight(entering, &n, &s.weight_remainder[k])
    share = entering / n
    for i in range(s.c):
        s.stream[i] = keep * s.stream[i] + entering if i == k else s.stream[i] + omega
    if s.min_row_weight[k] == 0.0 or entering < s.min_row_weight[k]:
        s.min_row_weight[k] = entering
    if keep == 1.0:  # else rows cannot be removed
        hash_row(
            x, d, ticket(omega), s.row_hashes + k * 2 * (d + 1),
            s.row_hashes + (k * 2 + 1) * (d + 1),
        )
    s.n[k] = n
    s.N[k] += omega
    if n_a == 0.0:
        for i in range(d):
            mean[i] = x[i] - s.anchor[i]
    else:
        root = sqrt(n_a * share)
        for i in range(d):
            s.delta[i] = (x[i] - s.anchor[i]) - mean[i]
            if entering <= n_a:
                mean[i] += s.delta[i] * share
            else:
                mean[i] = (x[i] - s.anchor[i]) - s.delta[i] * (n_a / n)
            s.delta[i] *= root
        rank_one(s.delta, d, C, s.stride)
    for i in range(d):
        max_scatter[i] = max(max_scatter[i], C[i * s.stride + i])
        nonconstant_weight[i] += entering * (x[i] != 0.0)
        nonconstant_weight[d + i] += entering * (x[i] != 1.0)
    for i in range(d):  # most often the mean of this class alone shows that nothing has to move
        if n * (mean[i] * mean[i]) > MAX_SQUARED_DISTANCE * C[i * s.stride + i]:
            update_anchor(s, NULL, i)
