# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Row loops of columns with many categories: weights and sums of features, by category.

State comes first and is changed in place. No signal interrupts a call.
"""


def sum_rows(
    double[::1] n,
    double[:, ::1] sums,
    const double[:, ::1] X,
    const Py_ssize_t[::1] rows,
    const Py_ssize_t[::1] index,
    const double[::1] weight,
    const double[::1] origin,
):
    """Add the weights, and the features relative to an origin, of rows to those of categories.

    ``index`` has the category of each row of X, −1 for none.
    """
    cdef Py_ssize_t d = origin.shape[0], i, j, r, at
    cdef double w
    cdef double* total
    cdef const double* x
    with nogil:
        for i in range(rows.shape[0]):
            r = rows[i]
            at = index[r]
            if at < 0:
                continue
            w = weight[r]
            n[at] += w
            if d:
                total = &sums[at, 0]
                x = &X[r, 0]
                for j in range(d):
                    total[j] += w * (x[j] - origin[j])


def add_columns(list steps):
    """Run :func:`add_column` with each of these arguments, in one step."""
    for step in steps:
        add_column(*step)


def add_column(
    double[:, ::1] n,
    double[:, :, ::1] sums,
    const double[:, :] more,
    const double[:, :, :] more_sums,
    const Py_ssize_t[::1] slot,
    const Py_ssize_t[::1] at,
    const double[::1] shift,
    const double[::1] factor,
):
    """Scale each class by a factor, then add class j of a sample to class ``slot[j]``.

    Category i of the sample is category ``at[i]``. Its sums are relative to another origin, which
    differs by ``shift``.
    """
    cdef Py_ssize_t d = shift.shape[0], i, j, k, f
    cdef double w
    with nogil:
        for k in range(n.shape[0]):
            if factor[k] != 1.0:
                for i in range(n.shape[1]):
                    if n[k, i] != 0.0:
                        n[k, i] *= factor[k]
                        for f in range(d):
                            sums[k, i, f] *= factor[k]
        for j in range(slot.shape[0]):
            k = slot[j]
            for i in range(at.shape[0]):
                w = more[j, i]
                if w != 0.0:
                    n[k, at[i]] += w
                    for f in range(d):
                        sums[k, at[i], f] += more_sums[j, i, f] + w * shift[f]
