# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""One event at a time: a row is learned immediately, coefficients are solved when needed."""

from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from libc.math cimport exp2, fabs
from libc.string cimport memset

from counterpoise.stepwise._link cimport EventLink
from counterpoise.moments._moments cimport decay
from counterpoise.stepwise._refine cimport RefinedSolver
from counterpoise.stepwise._step_solver cimport StepSolver

from counterpoise import validation

cdef double MAX_ABS_VALUE = validation.MAX_ABS_VALUE
cdef Py_ssize_t MAX_CLASSES_CACHED = 16  # of which inverses and links are kept
cdef Py_ssize_t MIN_FEATURES_TO_REFINE = 48  # below, elimination is faster (benchmarks/speed/events.py)


cdef class Events:
    """A solver for rows that are dicts of features, or arrays.

    ``columns`` has the index of each feature; ``names`` lists them in that order. One that is
    ``learn_only`` has no scores: these need the slower solver.
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

    def __init__(self, StepSolver scorer, list names, bint learn_only=False):
        import numpy as np

        self.scorer = scorer
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
        self.refined = RefinedSolver(scorer) if wide and few and not learn_only else None

    def changed(self):
        """Note that the moments have changed."""
        self.old = self.unlinked = True
        if self.refined is not None:
            self.refined.discard()

    cdef bint fill(self, dict row) except -1:
        """Copy a dict into the row; return whether every feature has a column."""
        cdef Py_ssize_t j = 0, d = self.x.shape[0]
        cdef bint complete = True
        cdef double number
        memset(&self.x[0], 0, d * sizeof(double))
        for name, value in row.items():
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

    def learn(self, dict row, Py_ssize_t k, double omega):
        """Learn a row of class k, unless it has a feature without a column; return whether."""
        if not self.fill(row):
            return False
        if omega > 0.0:
            self.take(&self.x[0], k, omega)
        return True

    cpdef learn_array(
        self, const double[::1] row, Py_ssize_t k, double omega, double[::1] clipped=None
    ):
        """Learn a row of class k; where a map clips it, its weight is added to a count."""
        self.check(row)
        if omega > 0.0:
            self.take(&row[0], k, omega)
            if clipped is not None:
                clipped[0] += omega

    def learn_at(
        self, row, Py_ssize_t k, double omega, double life, double t, moments,
        double[::1] clipped=None,
    ):
        """Learn a row of class k and of time t, where weights halve in ``life`` seconds.

        A dict that has a feature without a column is not learned; return whether it was.
        """
        cdef const double[::1] array
        cdef double[::1] when = moments.when
        if type(row) is dict:
            if not self.fill(row):
                return False
            array = self.x
        else:
            array = row
            self.check(array)
        if omega > 0.0:
            if t > when[0]:
                decay(moments, exp2((when[0] - t) / life))
                when[0] = t
                if self.refined is not None:
                    self.refined.discard()
            self.take(&array[0], k, omega * exp2((t - when[0]) / life))
            if clipped is not None:
                clipped[0] += omega
        return True

    def all_seen(self):
        """Return whether every class has a weight."""
        cdef Py_ssize_t k
        for k in range(self.scorer.n.shape[0]):
            if self.scorer.n[k] == 0.0:
                return False
        return True

    def learn_plain(self, x, Py_ssize_t k, double omega):
        """Learn a row of class k, if it is an array of float64 in order; return whether."""
        cdef const double[::1] row
        try:
            row = x
        except (BufferError, TypeError, ValueError):
            return False
        self.learn_array(row, k, omega)
        return True

    cdef void take(self, const double* x, Py_ssize_t k, double omega) noexcept:
        cdef bint first = self.scorer.n[k] == 0.0
        self.scorer.learn_weighted(x, k, omega)
        self.old = self.unlinked = True
        if self.refined is not None:
            self.refined.learned(k, first)

    def best(self, dict row):
        """Return the position of the predicted class of a row; -1 if the problem is singular."""
        self.fill(row)
        return self.winner(&self.x[0])

    def best_array(self, const double[::1] row):
        """Return the position of the predicted class of a row; -1 if the problem is singular."""
        self.check(row)
        return self.winner(&row[0])

    def reasons(self, dict row, Py_ssize_t at):
        """Return the contribution of each feature to the score of the class at a position.

        A negative position is that of the predicted class. None if there are no coefficients.
        """
        cdef Py_ssize_t j, k, q
        cdef double sign, total = 0.0, centre
        cdef StepSolver s = self.scorer
        self.fill(row)
        if s.spec.pooled_rows >= 0.0 or self.score(&self.x[0]):
            return None
        if at < 0:
            at = self.winner(&self.x[0])
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
        return result

    def scores_array(self, const double[::1] row):
        """Return the scores of a row; None if the problem is singular."""
        self.check(row)
        return None if self.score(&row[0]) else list(self.f)

    def probabilities(self, dict row, bint stream):
        """Return the probability of each class; None where only ``solver/link.py`` can."""
        self.fill(row)
        return self.linked_probabilities(&self.x[0], stream)

    def probabilities_array(self, const double[::1] row, bint stream):
        """Return the probability of each class; None where only ``solver/link.py`` can."""
        self.check(row)
        return self.linked_probabilities(&row[0], stream)

    cdef Py_ssize_t winner(self, const double* x) noexcept:
        """Return the index of ``classes.argmax_classes``, for classes that were all seen."""
        cdef Py_ssize_t q, best = 0
        if self.score(x):
            return -1
        if self.scorer.c == 1:
            return 0
        if self.f.shape[0] == 1:
            return self.f[0] > 0.0
        for q in range(self.f.shape[0]):
            if self.f[q] > self.f[best]:
                best = q
        return best

    cdef linked_probabilities(self, const double* x, bint stream):
        cdef Py_ssize_t k
        if self.scorer.spec.pooled_rows >= 0.0 or self.scorer.c > MAX_CLASSES_CACHED:
            return None
        if self.score(x):
            return None
        if self.linked is None:
            from counterpoise.solver.link import nodes

            self.linked = EventLink(self.scorer, *nodes())
        if self.unlinked:
            if self.linked.update(self.coef, self.offset):
                return None
            self.unlinked = False
        self.linked.probabilities(&self.f[0], stream, &self.p[0])
        return [self.p[k] for k in range(self.scorer.c)]

    cdef int score(self, const double* x) noexcept:
        """Compute the scores of a row, into f; return whether there are none."""
        cdef Py_ssize_t q, j, d = self.x.shape[0]
        cdef double f
        cdef double* w
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
        return 0

    cdef int check(self, const double[::1] row) except -1:
        cdef Py_ssize_t j
        if row.shape[0] != self.x.shape[0]:
            raise ValueError(f"a row has {row.shape[0]} features, expected {self.x.shape[0]}")
        for j in range(row.shape[0]):
            if not fabs(row[j]) <= MAX_ABS_VALUE:
                validation.number(j, row[j])
        return 0
