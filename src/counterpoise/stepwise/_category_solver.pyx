# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Exact solutions after every row with a column of many categories, in d^2 operations and a solve.

``solver/categories.py`` has the equations. What remains of them without the categories is a sum
over all categories, which depends on the weights of a row of each class. A row changes these, and
the sums of its own category. So the sum is kept as a power series in the change t of the weights:

    balanced classes: weights (1 - t) and (1 + t) times the first ones, |t| <= MAX_CHANGE,
    fixed weights: ridge (1 + t) times the first one

up to a factor that all share. A row subtracts the terms of its category and adds the new ones.
A larger change, or a ridge that is not on this line, sums all categories again. The ratio of the
class weights changes by 1/n, so that this occurs ever less often. The truncated terms are below
1e-14 of the sum.
"""

from libc.math cimport fabs
from libc.string cimport memcpy, memset

from counterpoise.stepwise._step_solver cimport StepSolver

cdef extern from "category_series.h" nogil:
    void add_categories(
        const category_terms* one, const category_terms* two, Py_ssize_t rows, Py_ssize_t width,
        double* B
    )
    void add_squares(
        const category_terms* one, double alpha, Py_ssize_t rows, Py_ssize_t width, double* J,
        double* F
    )
    void sum_row(const double* B, const double* power, Py_ssize_t width, double* T)
    void move_origin_of(
        double* M, Py_ssize_t rows, Py_ssize_t width, const double* f
    )
    void subtract_share(
        const double* A, double a, const double* B, double b, Py_ssize_t count, double* C
    )
    void subtract_rows(
        const double* B, const double* power, Py_ssize_t width, const double* T, const double* f,
        const double* g, const double* h, const double* k, Py_ssize_t count, double* U,
        Py_ssize_t stride
    )

cdef double MAX_CHANGE = 0.015  # its power of ORDERS is 3e-15
cdef double LINE_RTOL = 1e-13  # of a weight that is on the line
cdef Py_ssize_t MIN_CHANGES = 4096  # and 8 for each category, after which rounding is removed
cdef double MAX_SQUARED_SHIFT = 16.0  # of the centre, in squared deviations: more would lose digits
cdef Py_ssize_t MAX_WAITING = 32  # changed categories that the series does not contain
cdef double GROWTH = 0.125  # of the weight of all rows, after which a ridge is chosen again
cdef double MIN_LEFT = 1e-12  # of a second moment: with less left, the batch solver decides


cdef class CategorySolver(StepSolver):
    """Moments of two classes with one column of categories that learn row by row."""

    def __init__(self, spec, moments, double rows):
        import numpy as np

        super().__init__(spec, moments)
        cdef Py_ssize_t d = self.s.d
        self.rows = rows
        self.entries = (d + 2 + 3) // 4 * 4
        self.series = np.zeros((d + 1) * ORDERS * self.entries)
        self.place = np.zeros(d)
        self.terms = np.zeros((8, self.entries))
        self.work = np.zeros((5, self.entries))
        self.waiting = np.zeros(MAX_WAITING, dtype=np.intp)
        self.old_count = np.zeros((MAX_WAITING, 2))
        self.old_sums = np.zeros((MAX_WAITING, 2, d))
        self.is_summed = self.has_squares = False
        self.products = self.squares = self.series[:0]
        self.y[spec.order[0]], self.y[spec.order[1]] = -1.0, 1.0
        self.moments = moments
        self.use(moments.categories)

    cpdef use(self, categories):
        """Use these moments of categories; they may be the present ones in larger arrays."""
        (column,) = categories.columns
        cdef double[:, ::1] count = column.stored_n
        cdef double[:, :, ::1] sums = column.stored_sums
        cdef double[::1] origin = categories.origin
        cdef Py_ssize_t size = column.size
        # No signal can come between these assignments.
        self.count, self.sums, self.origin, self.size = count, sums, origin, size
        self.moments.categories = categories

    def set_rows(self, double rows, Py_ssize_t events):
        """Set the rows that the ridge is worth, as chosen, until there are many more events.

        These are at least ``events`` more, and a share GROWTH more by weight.
        """
        if rows != self.rows:
            self.rows, self.is_summed = rows, False
        self.is_chosen, self.learned, self.wait = True, 0, events
        self.next_weight = (1.0 + GROWTH) * (self.n[0] + self.n[1])

    @property
    def valid_rows(self):
        """Rows that the ridge is worth; 0 if they are to be chosen."""
        return 0.0 if self.is_outdated() else self.rows

    cdef bint is_outdated(self) noexcept nogil:
        """Return whether the ridge must be chosen again."""
        if not self.is_chosen or self.learned < self.wait:
            return False
        return self.n[0] + self.n[1] >= self.next_weight

    cdef void learn_category(
        self, const double* x, Py_ssize_t k, Py_ssize_t at, double omega
    ) noexcept:
        """Add a row of class k to category ``at``, which is negative if the row has none."""
        cdef Py_ssize_t j, d = self.s.d
        self.learned += 1
        if at >= 0:
            if self.is_summed:
                self.keep(at)
            self.count[k, at] += omega
            self.total_count[k] += omega
            for j in range(d):
                self.sums[k, at, j] += omega * (x[j] - self.origin[j])
        for j in range(d):
            if self.anchor[j] != self.origin[j]:
                self.move_origin()
                break

    cdef void keep(self, Py_ssize_t at) noexcept nogil:
        """Keep the sums of a category that is about to change, for the series."""
        cdef Py_ssize_t i, k, d = self.s.d
        for i in range(self.wait_count):
            if self.waiting[i] == at:
                return
        if self.wait_count == MAX_WAITING:
            self.unsolved += MAX_WAITING
            if self.unsolved > self.size:  # without a solve: summing again takes no longer
                self.is_summed = False
                return
            self.change_series()
        i = self.wait_count
        self.waiting[i] = at
        for k in range(2):
            self.old_count[i, k] = self.count[k, at]
            memcpy(&self.old_sums[i, k, 0], &self.sums[k, at, 0], d * sizeof(double))
        self.wait_count += 1

    cdef void change_series(self) noexcept nogil:
        """Replace the terms of the categories that have changed."""
        cdef Py_ssize_t i, at
        cdef category_terms before, after
        for i in range(self.wait_count):
            at = self.waiting[i]
            self.lay_out(
                &self.old_count[i, 0], 1, &self.old_sums[i, 0, 0], &self.old_sums[i, 1, 0], -1.0,
                &self.terms[0, 0], &before,
            )
            self.lay_out_category(at, &self.terms[4, 0], &after)
            add_categories(&before, &after, self.s.d + 1, self.entries, &self.series[0])
            if self.has_squares:
                self.add_terms(&before)
                self.add_terms(&after)
        self.changes += self.wait_count
        self.wait_count = 0

    cdef void move_origin(self) noexcept nogil:
        """Make the sums relative to the anchor, which has moved."""
        cdef Py_ssize_t k, i, j, d = self.s.d
        for k in range(2):
            for i in range(self.size):
                if self.count[k, i] != 0.0:
                    for j in range(d):
                        self.sums[k, i, j] -= self.count[k, i] * (self.anchor[j] - self.origin[j])
        for j in range(d):
            self.origin[j] = self.anchor[j]
        self.is_summed = False

    cdef int weigh_rows(self) noexcept nogil:
        """Compute the weight of a row of each class and the ridge; return whether one is 0."""
        cdef Py_ssize_t k
        cdef double squares = 0.0, total = 0.0
        for k in range(2):
            if not (self.n[k] > 0.0 and self.a[0, k] > 0.0):
                return 1
            self.alpha[k] = self.a[0, k] / self.n[k]
            squares += self.a[0, k] * self.a[0, k] / max(self.n[k], 1.0)
            total += self.a[0, k]
        self.ridge = self.rows * squares / total
        return self.is_outdated() or not self.ridge > 0.0

    cdef double change(self, double* share) noexcept nogil:
        """Return the change t of the weights, 1 if it is too large; compute the common factor."""
        cdef double t, ratio, one = self.alpha[0] / self.first_alpha[0]
        if not self.is_summed:
            return 1.0
        ratio = self.alpha[1] / self.first_alpha[1] / one
        if self.spec.balanced:
            t = (ratio - 1.0) / (ratio + 1.0)
            share[0] = one / (1.0 - t)
        else:
            if fabs(ratio - 1.0) > LINE_RTOL:
                return 1.0
            t = self.ridge / (one * self.first_ridge) - 1.0
            share[0] = one
        if fabs(share[0] * self.first_ridge * (1.0 + self.ridge_rate * t) - self.ridge) > (
            LINE_RTOL * self.ridge
        ):
            return 1.0
        return t if fabs(t) <= MAX_CHANGE else 1.0

    cdef void add_terms(self, const category_terms* one) noexcept nogil:
        """Add the terms of a category to the sums for the link."""
        add_squares(
            one, self.first_alpha[0], self.s.d + 2, self.entries, &self.products[0],
            &self.squares[0],
        )

    cdef void lay_out_category(
        self, Py_ssize_t at, double* work, category_terms* found
    ) noexcept nogil:
        """Compute the terms of a category, given workspace of four vectors."""
        self.lay_out(
            &self.count[0, at], self.count.shape[1], &self.sums[0, at, 0], &self.sums[1, at, 0],
            1.0, work, found,
        )

    cdef void lay_out(
        self, const double* count, Py_ssize_t stride, const double* sums, const double* others,
        double sign, double* work, category_terms* found
    ) noexcept nogil:
        """Compute the terms of given weights, and of given sums of both classes, with a sign."""
        cdef Py_ssize_t j, d = self.s.d
        cdef double n, m, g, h, q, scale
        cdef double* S = work
        cdef double* H = S + self.entries
        cdef double* R = H + self.entries
        cdef double* P = R + self.entries
        n, m = self.first_alpha[0] * count[0], self.first_alpha[1] * count[stride]
        scale = n + m + self.first_ridge
        q = (self.rate[0] * n + self.rate[1] * m + self.first_ridge * self.ridge_rate) / scale
        S[0], R[0], P[0] = n + m, self.rate[0] * n + self.rate[1] * m, n
        S[d + 1] = self.y[0] * n + self.y[1] * m
        R[d + 1] = self.y[0] * self.rate[0] * n + self.y[1] * self.rate[1] * m
        for j in range(d):
            g = self.first_alpha[0] * sums[j] - n * self.place[j]
            h = self.first_alpha[1] * others[j] - m * self.place[j]
            S[j + 1], R[j + 1], P[j + 1] = g + h, self.rate[0] * g + self.rate[1] * h, g
        for j in range(d + 2):
            R[j] -= q * S[j]
            H[j] = R[j] + 0.5 * q * S[j]
        found.S, found.H, found.R, found.P = S, H, R, P
        found.scale, found.q = sign / scale, q
        found.count[0], found.count[1] = count[0], count[stride]

    cdef void sum_categories(self) noexcept nogil:
        """Sum the terms of all categories, of the present weights and about the present centre."""
        cdef Py_ssize_t k, i, j, d = self.s.d
        cdef category_terms one, two
        cdef bint waits = False
        cdef double total = 0.0, excess = 0.0
        for k in range(2):
            self.first_alpha[k] = self.alpha[k]
            total += self.a[0, k]
        self.first_ridge = self.ridge
        for j in range(d):
            self.place[j] = self.centre[j] + (self.anchor[j] - self.origin[j])
        if self.spec.balanced:
            self.rate[0], self.rate[1] = -1.0, 1.0
            for k in range(2):
                excess += self.rate[k] * self.a[0, k] * self.a[0, k] / max(self.n[k], 1.0)
            self.ridge_rate = self.rows * excess / total / self.ridge
        else:
            self.rate[0] = self.rate[1] = 0.0
            self.ridge_rate = 1.0
        memset(&self.series[0], 0, self.series.shape[0] * sizeof(double))
        if self.has_squares:
            memset(&self.products[0], 0, self.products.shape[0] * sizeof(double))
            memset(&self.squares[0], 0, self.squares.shape[0] * sizeof(double))
        self.total_count[0] = self.total_count[1] = 0.0
        for i in range(self.size):
            if self.count[0, i] == 0.0 and self.count[1, i] == 0.0:
                continue
            for k in range(2):
                self.total_count[k] += self.count[k, i]
            if not waits:
                self.lay_out_category(i, &self.terms[0, 0], &one)
            else:
                self.lay_out_category(i, &self.terms[4, 0], &two)
                add_categories(&one, &two, d + 1, self.entries, &self.series[0])
                if self.has_squares:
                    self.add_terms(&one)
                    self.add_terms(&two)
            waits = not waits
        if waits:
            if self.has_squares:
                self.add_terms(&one)
            two = one
            two.scale = 0.0
            add_categories(&one, &two, d + 1, self.entries, &self.series[0])
        self.is_summed = True
        self.changes = self.wait_count = 0
        self.refreshes += 1

    cdef int eliminate_categories(self, double* a, double* t) noexcept nogil:
        """Subtract what the categories explain from K and z, and move the centre.

        Return whether too little is left.
        """
        cdef Py_ssize_t d = self.s.d, i, m
        cdef double share = 1.0, now, size
        cdef double[ORDERS] power
        cdef double* T = &self.work[0, 0]
        cdef double* f = &self.work[1, 0]
        cdef double* g = &self.work[2, 0]
        cdef double* h = &self.work[3, 0]
        cdef double* k = &self.work[4, 0]
        cdef double* U = &self.U[0, 0]
        if self.weigh_rows():
            return 1
        now = self.change(&share)
        f[0] = f[d + 1] = 0.0
        for i in range(d):
            f[i + 1] = self.centre[i] + (self.anchor[i] - self.origin[i]) - self.place[i]
            if f[i + 1] * f[i + 1] > MAX_SQUARED_SHIFT * self.v[i]:
                now = 1.0
        if now == 1.0 or self.changes > max(MIN_CHANGES, 8 * self.size):
            self.sum_categories()
            now, share = 0.0, 1.0
            memset(f, 0, self.entries * sizeof(double))
        else:
            self.change_series()
        self.unsolved = 0
        self.now, self.share = now, share
        power[0] = share
        for m in range(1, ORDERS):
            power[m] = power[m - 1] * now
        sum_row(&self.series[0], power, self.entries, T)
        # S = [[a - T_00, -T_0], [-T_0', K - T]] about the old centre, and about the new one
        size = a[0] - T[0]
        if not size > MIN_LEFT * a[0]:
            return 1
        for i in range(1, d + 1):
            g[i] = T[i] - f[i] * T[0]
            k[i] = -g[i] / size
            h[i] = size * k[i]
            self.centre[i - 1] += k[i]
        g[d + 1] = T[d + 1]
        k[d + 1] = (t[0] * a[0] - T[d + 1]) / size
        a[0], t[0] = size, k[d + 1]
        for i in range(d):
            self.delta[i] = MIN_LEFT * U[i * self.width + i]
        subtract_rows(
            &self.series[0], power, self.entries, T, f, g, h, k, d, U, self.width
        )
        for i in range(d):
            if not U[i * self.width + i] + self.b * self.v[i] > self.delta[i]:
                return 1
        return 0

    cdef int sum_squares(
        self, const double* centre, double[:, :, ::1] T, double[:, :, ::1] F
    ) except -1:
        """Sum what the link needs, about a centre relative to the anchor, after a solve.

        T (3, 2 + d, .) becomes the sum of Q W' over all categories, and of Q W' of each class. F
        (2, 2 + d, .) becomes the sum of n WW' of each class, where W = Q/D of a category.
        """
        import numpy as np

        cdef Py_ssize_t d = self.s.d, i, j, k, m, width = self.entries
        cdef double[ORDERS] power, shared
        if not self.has_squares:
            self.products = np.zeros((d + 1) * ORDERS * width)
            self.squares = np.zeros((d + 2) * 2 * ORDERS * width)
            self.has_squares = True
            self.sum_categories()
            self.now, self.share = 0.0, 1.0
        power[0], shared[0] = 1.0, self.share
        for m in range(1, ORDERS):
            power[m], shared[m] = power[m - 1] * self.now, shared[m - 1] * self.now
        for i in range(d + 2):
            if i <= d:
                sum_row(&self.series[i * ORDERS * width], shared, width, &T[0, i, 0])
                sum_row(&self.products[i * ORDERS * width], power, width, &T[1, i, 0])
            for k in range(2):
                m = (2 * i + k) * ORDERS * width
                sum_row(&self.squares[m], power, width, &F[k, i, 0])
        for i in range(d + 2):
            for j in range(i):
                if i <= d:
                    T[0, i, j] = T[0, j, i]
                F[0, i, j], F[1, i, j] = F[0, j, i], F[1, j, i]
        for i in range(d):
            self.work[1, i + 1] = centre[i] + (self.anchor[i] - self.origin[i]) - self.place[i]
        self.work[1, 0] = self.work[1, d + 1] = 0.0
        for k in range(2):
            move_origin_of(&T[k, 0, 0], d + 1, width, &self.work[1, 0])
            move_origin_of(&F[k, 0, 0], d + 2, width, &self.work[1, 0])
        subtract_share(
            &T[0, 0, 0], self.alpha[0], &T[1, 0, 0], self.alpha[1], (d + 1) * width, &T[2, 0, 0]
        )
        for j in range(d + 2):  # targets times weights
            for k in range(2):
                T[1 + k, d + 1, j] = self.y[k] * T[1 + k, 0, j]
            T[0, d + 1, j] = (
                self.alpha[0] * T[1, d + 1, j] + self.alpha[1] * T[2, d + 1, j]
            )
        return 0

    cdef void score_origin(self, const double* coef, double offset) noexcept nogil:
        """Keep the score of features at the origin of the sums, given the one at the anchor."""
        cdef Py_ssize_t j
        self.at_origin = offset
        for j in range(self.s.d):
            self.at_origin += coef[j] * (self.origin[j] - self.anchor[j])

    cdef double effect(self, Py_ssize_t at, const double* coef) noexcept nogil:
        """Return the effect of a category on the score, given the coefficients."""
        cdef Py_ssize_t j, k
        cdef double total = 0.0, weight = self.ridge, sum
        for k in range(2):
            sum = self.count[k, at] * (self.y[k] - self.at_origin)
            for j in range(self.s.d):
                sum -= coef[j] * self.sums[k, at, j]
            total += self.alpha[k] * sum
            weight += self.alpha[k] * self.count[k, at]
        return total / weight
