# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""One event at a time: a row is learnt at once, weights are solved when somebody looks."""

from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from libc.math cimport fabs, isfinite
from libc.string cimport memset

from counterpoise._progressive cimport Scorer

cdef double LARGEST = 1e100


cdef class Events:
    """A scorer that takes rows as dicts of features, or as arrays.

    ``columns`` says where each feature stands; ``names`` lists them in that order.
    """

    cdef Scorer scorer
    cdef dict columns
    cdef list names
    cdef double[::1] x, offset
    cdef double[:, ::1] coef
    cdef public bint stale

    def __init__(self, Scorer scorer, list names):
        import numpy as np

        self.scorer = scorer
        self.names = names
        self.columns = {name: j for j, name in enumerate(names)}
        self.x = np.zeros(scorer.s.d)
        self.coef = np.zeros((scorer.problems, scorer.s.d))
        self.offset = np.zeros(scorer.problems)
        self.stale = True

    cdef bint fill(self, dict row) except -1:
        """Copy a dict into the row; returns whether every feature has a column."""
        cdef Py_ssize_t j = 0, d = self.x.shape[0]
        cdef bint known = True
        cdef double number
        memset(&self.x[0], 0, d * sizeof(double))
        for name, value in row.items():
            if PyFloat_CheckExact(value):
                number = PyFloat_AS_DOUBLE(value)
            else:
                number = convert(name, value)
            if not fabs(number) <= LARGEST:
                raise ValueError(refusal(name, number))
            # Features mostly come in the order of the columns: then no look-up is needed.
            if not (j < d and self.names[j] is name):
                column = self.columns.get(name)
                if column is None:
                    known = False
                    continue
                j = column
            self.x[j] = number
            j += 1
        return known

    def learn(self, dict row, Py_ssize_t k, double omega):
        """Learn a row of class k, unless it has a feature without a column; returns whether."""
        if not self.fill(row):
            return False
        if omega > 0.0:
            self.scorer.learn_weighted(&self.x[0], k, omega)
            self.stale = True
        return True

    def learn_array(self, const double[::1] row, Py_ssize_t k, double omega):
        """Learn a row of class k."""
        self.check(row)
        if omega > 0.0:
            self.scorer.learn_weighted(&row[0], k, omega)
            self.stale = True

    def scores(self, dict row):
        """Scores of a row by weights that are up to date; None if the problem is singular."""
        self.fill(row)
        return self.dots(&self.x[0])

    def scores_array(self, const double[::1] row):
        """Scores of a row by weights that are up to date; None if the problem is singular."""
        self.check(row)
        return self.dots(&row[0])

    cdef dots(self, const double* x):
        cdef Py_ssize_t q, j, d = self.x.shape[0]
        cdef double f
        if self.stale and self.solve():
            return None
        result = []
        for q in range(self.offset.shape[0]):
            f = self.offset[q]
            for j in range(d):
                f += self.coef[q, j] * (x[j] - self.scorer.anchor[j])
            result.append(f)
        return result

    cdef int solve(self) noexcept:
        cdef Py_ssize_t q, j
        cdef Scorer s = self.scorer
        s.weigh()
        s.scale()
        for q in range(s.problems):
            j = s.recipe.order[q]
            if s.problems > 1 and s.N[j] == 0.0:
                self.offset[q] = -1.0
                self.coef[q, :] = 0.0
            elif s.weights(q, &self.coef[q, 0], &self.offset[q]):
                return 1
        self.stale = False
        return 0

    cdef int check(self, const double[::1] row) except -1:
        cdef Py_ssize_t j
        if row.shape[0] != self.x.shape[0]:
            raise ValueError(f"a row has {row.shape[0]} features, expected {self.x.shape[0]}")
        for j in range(row.shape[0]):
            if not fabs(row[j]) <= LARGEST:
                raise ValueError(refusal(j, row[j]))
        return 0


cdef double convert(name, value) except? -1.0:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"feature {name!r} is {value!r}, not a number; encode it first, for example with "
            "river.preprocessing.OneHotEncoder"
        ) from None


def refusal(name, double number):
    """What to say of a number that cannot be learnt."""
    if isfinite(number):
        return f"feature {name!r} is {number:g}, beyond {LARGEST:g}: its square would overflow"
    what = "NaN" if number != number else f"{number}"
    return f"feature {name!r} is {what}; leave the feature out (absent means 0), or drop the event"
