# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""One event at a time: a row is learned immediately, coefficients are solved when needed."""

from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from libc.math cimport exp2, fabs
from libc.string cimport memcpy, memset

from counterpoise.moments._downdate cimport RowDowndate, relative_error
from counterpoise.moments._moments cimport decay
from counterpoise.stepwise._category_link cimport CategoryLink
from counterpoise.stepwise._category_solver cimport CategorySolver
from counterpoise.stepwise._link cimport EventLink
from counterpoise.stepwise._refine cimport RefinedSolver
from counterpoise.stepwise._step_solver cimport StepSolver

from counterpoise import validation
from counterpoise.moments.downdate import EPS as PYTHON_EPS
from counterpoise.solver.scores import WARN_RELATIVE_ERROR as PYTHON_WARN_RELATIVE_ERROR

cdef double EPS = PYTHON_EPS
cdef double WARN_RELATIVE_ERROR = PYTHON_WARN_RELATIVE_ERROR
cdef double MAX_ABS_VALUE = validation.MAX_ABS_VALUE
cdef Py_ssize_t MAX_CLASSES_CACHED = 16  # of which inverses and links are kept
cdef Py_ssize_t NO_CATEGORY = -1, NEW_CATEGORY = -2
cdef Py_ssize_t MIN_FEATURES_TO_REFINE = 48  # below, elimination is faster (benchmarks/speed/events.py)


cdef class RowQueue:
    """Rows X (capacity, d) that were learned, with slot and weight, until they are scored together."""

    cdef readonly Py_ssize_t count, capacity
    cdef readonly object X, slots, weight
    cdef double[:, ::1] rows
    cdef Py_ssize_t[::1] slot_of
    cdef double[::1] weight_of

    def __init__(self, Py_ssize_t capacity, Py_ssize_t d):
        import numpy as np

        self.count, self.capacity = 0, capacity
        self.rows = self.X = np.empty((capacity, d))
        self.slot_of = self.slots = np.empty(capacity, dtype=np.intp)
        self.weight_of = self.weight = np.empty(capacity)


cdef class Events:
    """A solver for rows that are dicts of features, or arrays.

    ``columns`` has the index of each feature; ``names`` lists them in that order. One that is
    ``learn_only`` has no scores: these need the slower solver. A solver with categories has the
    field of a row that contains them, and a function that returns a category as text.
    """

    cdef StepSolver scorer
    cdef dict columns
    cdef list names
    cdef Py_ssize_t count
    cdef double[::1] x, offset, f, p
    cdef double[:, ::1] coef
    cdef bint old, unlinked, learn_only
    cdef readonly RefinedSolver refined
    cdef EventLink linked
    cdef RowDowndate downdate
    cdef readonly CategorySolver categories
    cdef object field, category_text
    cdef dict codes                # of the categories, from 1
    cdef Py_ssize_t category       # of the row x; NO_CATEGORY, NEW_CATEGORY or its index
    cdef readonly object new_category  # its text in the last row, None if it has a code

    def __init__(self, StepSolver scorer, list names, bint learn_only=False):
        import numpy as np

        self.scorer = scorer
        self.categories = scorer if isinstance(scorer, CategorySolver) else None
        self.category = NO_CATEGORY
        self.names = names
        self.count = len(names)
        self.columns = {name: j for j, name in enumerate(names)}
        self.x = np.zeros(scorer.s.d)
        self.coef = np.zeros((scorer.problems, scorer.s.d))
        self.offset, self.f = np.zeros((2, scorer.problems))
        self.p = np.zeros(scorer.c)
        self.old = self.unlinked = True
        self.learn_only = learn_only
        self.linked = None
        # Quadratic scores have no coefficients, and each problem needs an inverse of its own.
        wide = scorer.s.d >= MIN_FEATURES_TO_REFINE and scorer.spec.pooled_rows < 0.0
        few = scorer.spec.together or scorer.problems <= MAX_CLASSES_CACHED
        is_refined = wide and few and not learn_only and self.categories is None
        self.refined = RefinedSolver(scorer) if is_refined else None

    def name_categories(self, field):
        """Read categories from a field, a ``CategoryField``, of rows that are dicts."""
        self.field, self.codes, self.category_text = field.name, field.codes, field.text

    def set_category_rows(self, double rows, Py_ssize_t events):
        """Set the rows that the ridge is worth, for at least this many more events."""
        self.categories.set_rows(rows, events)
        self.old = True

    def discard_solution(self):
        """Discard the solution, because the moments have changed."""
        self.old = self.unlinked = True
        if self.refined is not None:
            self.refined.discard()

    cdef bint fill(self, row) except -1:
        """Copy a dict or an array into x; return whether every feature has a column."""
        if type(row) is dict:
            return self.fill_dict(row)
        self.fill_array(row)
        return True

    cdef int fill_array(self, const double[::1] row) except -1:
        cdef Py_ssize_t j
        self.category, self.new_category = NO_CATEGORY, None
        if row.shape[0] != self.x.shape[0]:
            raise ValueError(f"a row has {row.shape[0]} features, expected {self.x.shape[0]}")
        for j in range(row.shape[0]):
            if not fabs(row[j]) <= MAX_ABS_VALUE:
                validation.number(j, row[j])
            self.x[j] = row[j]
        return 0

    cdef bint fill_dict(self, dict row) except -1:
        cdef Py_ssize_t j = 0, d = self.x.shape[0]
        cdef bint complete = True
        cdef double number
        memset(&self.x[0], 0, d * sizeof(double))
        self.category, self.new_category = NO_CATEGORY, None
        for name, value in row.items():
            if self.categories is not None and not (j < self.count and self.names[j] is name):
                if name is self.field or name == self.field:
                    self.find_category(value)
                    continue
            if PyFloat_CheckExact(value) and fabs(PyFloat_AS_DOUBLE(value)) <= MAX_ABS_VALUE:
                number = PyFloat_AS_DOUBLE(value)
            else:
                number = validation.number(name, value)
            # Features mostly come in the order of the columns: then no look-up is needed.
            if not (j < self.count and self.names[j] is name):
                column = self.columns.get(name)
                if column is None:
                    complete = False
                    continue
                j = column
            self.x[j] = number
            j += 1
        return complete

    cdef int find_category(self, value) except -1:
        """Find the category of a row."""
        cdef Py_ssize_t code
        text = value if type(value) is str else self.category_text(value)
        if text is None:
            return 0
        found = self.codes.get(text)
        code = 0 if found is None else found
        if 0 < code <= self.categories.size:
            self.category = code - 1
        else:
            self.category, self.new_category = NEW_CATEGORY, text
        return 0

    def learn(self, row, Py_ssize_t k, double omega, double[::1] clipped=None):
        """Learn a row of class k; where a map clips it, add its weight to a count.

        Return whether the row is a dict of features that have columns, or an array of float64 in
        order: no other row is learned.
        """
        cdef const double[::1] array
        if type(row) is dict:
            if not self.fill_dict(row) or self.category == NEW_CATEGORY:
                return False
        else:
            try:
                array = row
            except (BufferError, TypeError, ValueError):
                return False
            self.fill_array(array)
        self.take(k, omega, clipped)
        return True

    def learn_new_category(
        self, dict row, Py_ssize_t k, double omega, categories, holder, many
    ):
        """Learn a row of class k whose category is new, given moments that have it.

        The holder gets ``many``, which has its name, in the same step. Return whether every feature
        has a column; otherwise nothing changes.
        """
        field = many.field
        if not self.fill_dict(row):
            return False
        self.name_categories(field)
        self.categories.use(categories)
        self.find_category(self.new_category)
        self.take(k, omega, None)
        holder._many = many
        return True

    def learn_rows(self, const double[:, ::1] X, list labels, dict slots, holder, session):
        """Learn rows X (n, d) with these labels; the holder gets a new session in the same step.

        Return whether all labels have slots, and all values are in bounds: otherwise nothing
        changes.
        """
        cdef Py_ssize_t i, j
        cdef list found = [slots.get(label) for label in labels]
        if None in found:
            return False
        for i in range(X.shape[0]):
            for j in range(X.shape[1]):
                if not fabs(X[i, j]) <= MAX_ABS_VALUE:
                    return False
        for i in range(X.shape[0]):
            memcpy(&self.x[0], &X[i, 0], self.x.shape[0] * sizeof(double))
            self.take(found[i], 1.0, None)
        holder.session = session
        return True

    def learn_at(
        self, row, Py_ssize_t k, double omega, double life, double t, moments,
        double[::1] clipped=None,
    ):
        """Learn a row of class k and of time t, where weights halve in ``life`` seconds.

        Return whether every feature has a column; otherwise the row is not learned.
        """
        cdef double[::1] when = moments.when
        if not self.fill(row):
            return False
        if omega > 0.0 and t > when[0]:
            decay(moments, exp2((when[0] - t) / life))
            when[0] = t
            if self.refined is not None:
                self.refined.discard()
        self.take(k, omega * exp2((t - when[0]) / life), clipped)
        return True

    def queue(self, RowQueue rows, Py_ssize_t k, double omega):
        """Append the row of class k that was learned last to a queue, unless its weight is 0."""
        if omega > 0.0 and rows.count < rows.capacity:
            rows.rows[rows.count] = self.x
            rows.slot_of[rows.count], rows.weight_of[rows.count] = k, omega
            rows.count += 1

    def all_seen(self):
        """Return whether every class has a weight."""
        cdef Py_ssize_t k
        for k in range(self.scorer.n.shape[0]):
            if self.scorer.n[k] == 0.0:
                return False
        return True

    cdef int take(self, Py_ssize_t k, double omega, double[::1] clipped) except -1:
        """Learn the row x of class k, unless its weight is 0."""
        cdef bint first = self.scorer.n[k] == 0.0
        if omega <= 0.0:
            return 0
        self.scorer.learn_weighted(&self.x[0], k, omega)
        if self.categories is not None:
            self.categories.learn_category(&self.x[0], k, self.category, omega)
        self.old = self.unlinked = True
        if self.refined is not None:
            self.refined.learned(k, first)
        if clipped is not None:
            clipped[0] += omega
        return 0

    def unlearn(self, dict row, Py_ssize_t k, double omega):
        """Unlearn a row of class k where no check of ``moments.downdate`` finds anything.

        Return whether that was so; otherwise the moments stay as they are.
        """
        cdef StepSolver s = self.scorer
        if omega <= 0.0 or self.learn_only or s.spec.decays or s.spec.pooled_rows >= 0.0:
            return False
        if self.categories is not None:
            return False
        if not self.fill_dict(row):
            return False
        if self.downdate is None:
            self.downdate = RowDowndate(s.s.d)
        if not self.downdate.begin(&s.s, k, &self.x[0], omega):
            return False
        if not (
            self.keeps_digits()
            and self.downdate.is_definite(&s.s, &s.U[0, 0], s.width, &s.tiny[0])
        ):
            self.downdate.restore(&s.s)
            return False
        self.downdate.complete(&s.s)
        self.discard_solution()
        return True

    cdef bint keeps_digits(self) noexcept:
        """Return whether ``solver.scores.precision_loss`` is surely too small for a warning.

        The inverse of K + b has no diagonal entry above 1/b.
        """
        cdef StepSolver s = self.scorer
        cdef Py_ssize_t d = s.s.d, j, k, q
        cdef double total, centre, own, size, off
        cdef double* error = &s.tiny[0]
        s.weigh()
        s.scale()
        relative_error(&s.s, error)
        for q in range(1 if s.spec.together else s.problems):
            total = 0.0
            for k in range(s.c):
                total += s.a[q, k]
            for j in range(d):
                centre = own = size = 0.0
                for k in range(s.c):
                    centre += s.a[q, k] / total * s.mean[k, j]
                for k in range(s.c):
                    off = s.mean[k, j] - centre
                    own += s.a[q, k] * (s.s.C[k * s.s.size + j * (s.s.stride + 1)] / s.n[k])
                    size += s.a[q, k] * off * off
                size = (size + own) / s.v[j]
                own = own / s.v[j] if s.spec.together else size
                off = error[j] * size
                if 2.0 * error[j] > WARN_RELATIVE_ERROR:
                    return False
                if own > EPS * size and off < 1e-14 * own:
                    continue
                if 2.0 * off > WARN_RELATIVE_ERROR * s.b:
                    return False
        return True

    def best(self, row):
        """Return the position of the predicted class of a row; -1 if the problem is singular."""
        self.fill(row)
        return self.winner()

    def reasons(self, dict row, Py_ssize_t at):
        """Return the contribution of each feature to the score of the class at a position.

        A negative position is that of the predicted class. None if there are no coefficients.
        """
        cdef Py_ssize_t j, k, q
        cdef double sign, total = 0.0, centre
        cdef StepSolver s = self.scorer
        self.fill(row)
        if s.spec.pooled_rows >= 0.0 or self.score():
            return None
        if self.categories is not None and self.update_link():
            return None
        if at < 0:
            at = self.winner()
        q = at if s.problems > 1 else 0
        sign = -1.0 if s.c == 2 and at == 0 else 1.0
        for k in range(s.c):
            total += s.spec.factor[k] * (s.N[k] > 0.0 if s.spec.balanced else s.N[k])
        result = {}
        for j in range(self.count):
            centre = 0.0
            for k in range(s.c):
                if s.N[k] > 0.0:
                    centre += (
                        s.spec.factor[k] * (1.0 if s.spec.balanced else s.N[k]) * s.mean[k, j]
                    )
            centre = self.x[j] - s.anchor[j] - centre / total
            result[self.names[j]] = sign * self.coef[q, j] * centre
        if self.categories is not None:
            centre = 0.0
            for j in range(s.c):
                k = s.spec.order[j]
                centre += (1.0 if s.spec.balanced else s.N[k]) * self.linked.effect[j] / total
            if self.category >= 0:
                centre -= self.categories.effect(self.category, &self.coef[0, 0])
            result[self.field] = -sign * centre
        return result

    def scores(self, row):
        """Return the scores of a row; None if the problem is singular."""
        self.fill(row)
        return None if self.score() else list(self.f)

    cdef Py_ssize_t winner(self) noexcept:
        """Return the index of ``classes.argmax_classes``, for classes that were all seen."""
        cdef Py_ssize_t q, best = 0
        if self.score():
            return -1
        if self.scorer.c == 1:
            return 0
        if self.f.shape[0] == 1:
            return self.f[0] > 0.0
        for q in range(self.f.shape[0]):
            if self.f[q] > self.f[best]:
                best = q
        return best

    def probabilities(self, row, bint stream):
        """Return the probability of each class; None where only ``solver/link.py`` can."""
        cdef Py_ssize_t k
        self.fill(row)
        if self.scorer.spec.pooled_rows >= 0.0 or self.scorer.c > MAX_CLASSES_CACHED:
            return None
        if self.score() or self.update_link():
            return None
        self.linked.probabilities(&self.f[0], stream, &self.p[0])
        return [self.p[k] for k in range(self.scorer.c)]

    cdef int update_link(self) except -1:
        """Compute the link of the solution; return whether only ``solver/link.py`` can."""
        if self.linked is None:
            from counterpoise.solver.link import nodes

            kind = EventLink if self.categories is None else CategoryLink
            self.linked = kind(self.scorer, *nodes())
        if self.unlinked:
            if self.linked.update(self.coef, self.offset):
                return 1
            self.unlinked = False
        return 0

    cdef int score(self) noexcept:
        """Compute f, the scores of x; return whether the problem is singular."""
        cdef Py_ssize_t q, j, d = self.x.shape[0]
        cdef double f
        cdef double* w
        cdef double* x = &self.x[0]
        cdef double* anchor = self.scorer.s.anchor
        if self.learn_only:
            return 1
        if self.scorer.spec.pooled_rows >= 0.0:  # these have no coefficients
            return self.scorer.score(x, &self.f[0])
        if self.old and self.solve():
            return 1
        for q in range(self.offset.shape[0]):
            f = self.offset[q]
            w = &self.coef[q, 0]
            for j in range(d):
                f += w[j] * (x[j] - anchor[j])
            self.f[q] = f
        if self.category >= 0:
            self.f[0] += self.categories.effect(self.category, &self.coef[0, 0])
        return 0

    cdef int solve(self) noexcept:
        """Solve for the coefficients of every problem; return whether one of them is singular."""
        cdef int failed = 1
        cdef StepSolver s = self.scorer
        s.weigh()
        s.scale()
        if not s.spec.together:
            failed = self.solve_each()
        elif self.refined is None or self.refined.all_weights(self.coef, self.offset):
            failed = s.all_weights(self.coef, self.offset)
        else:
            failed = 0
        if self.refined is not None:
            self.refined.pending = 0
        self.old = failed != 0
        return failed

    cdef int solve_each(self) noexcept:
        cdef Py_ssize_t q
        cdef StepSolver s = self.scorer
        for q in range(s.problems):
            if s.problems > 1 and s.N[s.spec.order[q]] == 0.0:
                self.offset[q] = -1.0
                self.coef[q, :] = 0.0
            elif self.refined is None or self.refined.weights(
                q, &self.coef[q, 0], &self.offset[q]
            ):
                if s.weights(q, &self.coef[q, 0], &self.offset[q]):
                    return 1
        if self.categories is not None:
            self.categories.score_origin(&self.coef[0, 0], self.offset[0])
        return 0
