# cython: language_level=3, boundscheck=False, wraparound=False
# cython: cdivision=True, initializedcheck=False
"""Row loops of the online rules: the compiled shadows of the ``step`` methods.

A rule is its step and the form of its covariance: how that gives a variance, shrinks and is
rescaled. One loop, :class:`Kernel`, drives them all: it scores a row by the model as it is, then
lets the model learn the row whose label has just arrived. State comes last and is changed in place.
Of symmetric matrices only the lower triangle is kept up to date within the loop.
"""

from libc.math cimport HUGE_VAL, NAN, fabs, fmax, fmin, frexp, ldexp, sqrt
from scipy.linalg.cython_blas cimport daxpy, ddot, dgemm, dgemv, dger, drot, dsyr
from scipy.linalg.cython_lapack cimport dgesv, dpotrf, dpotrs

cdef int ONE = 1
cdef int MIN_ENTRIES_FOR_BLAS = 24  # below, a loop is faster
# As in counterpoise.online.confidence_weighted:
cdef double MIN_VARIANCE = 1e-300, MIN_TYPICAL_VARIANCE = 2.0**-32, MAX_WEIGHT = 2.0**60
cdef int MAX_EXPONENT_GAP = 24, MAX_RATIO_EXPONENT = 10
cdef int MAX_FACTOR_EXPONENT = 16, MAX_EXPONENT = 300
cdef enum:
    EXPONENTS = 2400  # more than a float has


cdef extern from "kernels.h" nogil:
    void in_units(const double* x, Py_ssize_t d, double* unit, double* r)
    double largest_in_units(const double* w, Py_ssize_t d, const double* unit)


cdef struct Rule


cdef struct Form:
    double (*variance)(Rule*, const double*) noexcept nogil
    void (*shrink)(Rule*, const double*, double, double) noexcept nogil
    void (*respread)(Rule*, const double*, double, double) noexcept nogil
    void (*rescale)(Rule*, int) noexcept nogil


cdef struct Rule:
    int d
    const double* p     # parameters, in the order of the Python class
    double* work        # workspace: vectors of d, then matrices of d * d
    double* stored      # rows seen so far of each class, where a rule keeps them
    Py_ssize_t room     # rows of each class that fit into it
    double* w
    double* S           # covariance: its d * d root, or d if diagonal; or second moments
    double* z           # first moments; of CW, units of the columns
    double* n           # counts of the negative and the positive class
    Form* form          # of the covariance


ctypedef void (*Step)(Rule*, const double*, double, double, double) noexcept nogil


cdef inline double dot(int d, const double* a, const double* b) noexcept nogil:
    return ddot(&d, <double*> a, &ONE, <double*> b, &ONE)


cdef inline void add(int d, double alpha, const double* x, double* y) noexcept nogil:
    daxpy(&d, &alpha, <double*> x, &ONE, y, &ONE)


# Covariances. ``variance`` is v = x'Sx. ``shrink``, which comes after it, is S^-1 <- S^-1 + c x x'
# and leaves Sx with the old S in work[:d]; ``respread`` makes that Sx with the new S. ``rescale``
# changes the unit of CW.

cdef double root_variance(Rule* r, const double* x) noexcept nogil:
    """S = R'R, R upper triangular: v = |Rx|^2. Rx stays in work[d:]."""
    cdef double* f = r.work + r.d
    cdef int j
    for j in range(r.d):
        f[j] = dot(r.d - j, r.S + j * r.d + j, x + j)
    return dot(r.d, f, f)


cdef void root_shrink(Rule* r, const double* x, double c, double v) noexcept nogil:
    """Carlson's update: a factor stays a factor, so S stays positive definite whatever is rounded.

    Each step turns a row of R against Sx scaled by sqrt(c / before): a rotation, if c is positive.
    """
    cdef double* Sx = r.work
    cdef double* f = r.work + r.d
    cdef double* row
    cdef double before, after = 1.0, keep, take, give, scale, entry
    cdef int d = r.d, i, j, left
    if 1.0 + c * v <= 0.0:  # only a row that is taken away can do this
        r.w[0] = NAN
        return
    scale = sqrt(fabs(c))
    for i in range(d):
        Sx[i] = 0.0
    for j in range(d - 1, -1, -1):
        if f[j] == 0.0:
            continue
        before = after
        after = before + c * f[j] * f[j]
        keep, give = sqrt(before / after), scale * f[j] / sqrt(after)
        row, left = r.S + j * d + j, d - j
        if c > 0.0 and left > MIN_ENTRIES_FOR_BLAS:
            drot(&left, Sx + j, &ONE, row, &ONE, &keep, &give)
            continue
        take = give if c > 0.0 else -give
        for i in range(left):
            entry = row[i]
            row[i] = keep * entry - take * Sx[j + i]
            Sx[j + i] = keep * Sx[j + i] + give * entry
    if scale > 0.0:
        for i in range(d):
            Sx[i] *= sqrt(after) / scale


cdef void root_respread(Rule* r, const double* x, double c, double v) noexcept nogil:
    cdef int j
    for j in range(r.d):
        r.work[j] /= 1.0 + c * v


cdef inline int _exponent(double x) noexcept nogil:
    cdef int exponent = 0
    frexp(x, &exponent)
    return exponent


cdef void _moves(
    int d, const double* g, const double* size, int anchor, int limit, int* power, int* lift
) noexcept nogil:
    """Compute how far each row of R, and w along it, move: see confidence_weighted.rescale."""
    cdef int[EXPONENTS] to
    cdef int half = EXPONENTS // 2, low = anchor, high = anchor, e, j, last, place
    for j in range(d):
        power[j] = _exponent(size[j])
        lift[j] = power[j]
        if fabs(g[j]) >= ldexp(1.0, MAX_RATIO_EXPONENT):
            lift[j] = _exponent(fabs(g[j]) * size[j])
        low, high = min(low, power[j]), max(high, lift[j])
    for e in range(low, high + 1):
        to[half + e] = 0
    for j in range(d):
        to[half + power[j]] = to[half + lift[j]] = 1
    last, place = anchor, 0
    for e in range(anchor + 1, high + 1):
        if to[half + e]:
            place += min(MAX_EXPONENT_GAP, e - last)
            last, to[half + e] = e, place
    last, place = anchor, 0
    for e in range(anchor - 1, low - 1, -1):
        if to[half + e]:
            place -= min(MAX_EXPONENT_GAP, last - e)
            last, to[half + e] = e, max(-MAX_EXPONENT, place)
    to[half + anchor] = 0
    for j in range(d):
        if lift[j] == power[j]:
            power[j] = lift[j] = min(limit, to[half + power[j]]) - power[j]
        else:
            power[j] = min(limit, to[half + power[j]]) - power[j]
            lift[j] = min(MAX_EXPONENT, to[half + lift[j]]) - lift[j]


cdef void root_rescale(Rule* r, int anchor) noexcept nogil:
    cdef double* g = r.work
    cdef double* rest = r.work + r.d
    cdef double* size = r.work + 2 * r.d
    cdef int* power = <int*> (r.work + 3 * r.d)
    cdef int* lift = power + r.d
    cdef double* row
    cdef int d = r.d, i, j
    for j in range(d):
        rest[j] = r.w[j]
    for j in range(d):  # w = R'g
        row = r.S + j * d
        size[j] = largest_in_units(row + j, d - j, r.z + j)
        g[j] = rest[j] / row[j]
        add(d - j, -g[j], row + j, rest + j)
    _moves(d, g, size, anchor, MAX_FACTOR_EXPONENT, power, lift)
    for j in range(d):
        r.w[j] = ldexp(r.w[j], -anchor)
    for j in range(d):
        row = r.S + j * d
        if lift[j] != -anchor:
            add(d - j, (ldexp(1.0, lift[j]) - ldexp(1.0, -anchor)) * g[j], row + j, r.w + j)
        for i in range(j, d):
            row[i] = ldexp(row[i], power[j])


cdef double diagonal_variance(Rule* r, const double* x) noexcept nogil:
    cdef double v = 0.0
    cdef int j
    for j in range(r.d):
        r.work[j] = r.S[j] * x[j]
        v += r.work[j] * x[j]
    return v


cdef void diagonal_shrink(Rule* r, const double* x, double c, double v) noexcept nogil:
    cdef int j
    for j in range(r.d):
        r.S[j] /= 1.0 + c * r.work[j] * x[j]


cdef void drop_shrink(Rule* r, const double* x, double c, double v) noexcept nogil:
    cdef double factor = c / (1.0 + c * v)
    cdef int j
    for j in range(r.d):
        r.S[j] -= factor * r.work[j] * r.work[j]


cdef void diagonal_respread(Rule* r, const double* x, double c, double v) noexcept nogil:
    cdef int j
    for j in range(r.d):
        r.work[j] = r.S[j] * x[j]


cdef void diagonal_rescale(Rule* r, int anchor) noexcept nogil:
    cdef double* g = r.work
    cdef double* size = r.work + 2 * r.d
    cdef int* power = <int*> (r.work + 3 * r.d)
    cdef int* lift = power + r.d
    cdef int j
    for j in range(r.d):
        size[j] = sqrt(r.S[j])
        g[j] = r.w[j] / size[j]
        size[j] = largest_in_units(size + j, 1, r.z + j)
    _moves(r.d, g, size, anchor, MAX_EXPONENT, power, lift)
    for j in range(r.d):
        r.w[j] = ldexp(r.w[j], lift[j])
        r.S[j] = ldexp(r.S[j], 2 * power[j])


cdef Form ROOT, DIAGONAL, DROP
ROOT.variance, ROOT.shrink = root_variance, root_shrink
ROOT.respread, ROOT.rescale = root_respread, root_rescale
DIAGONAL.variance, DIAGONAL.shrink = diagonal_variance, diagonal_shrink
DIAGONAL.respread, DIAGONAL.rescale = diagonal_respread, diagonal_rescale
DROP = DIAGONAL
DROP.shrink = drop_shrink


# First-order rules.

cdef void perceptron(Rule* r, const double* x, double y, double f, double omega) noexcept nogil:
    """Parameter: whether a score of 0 is a mistake for either class."""
    if y * f <= 0.0 if r.p[0] > 0.0 else (f >= 0.0) != (y > 0.0):
        add(r.d, y, x, r.w)


cdef void pa(Rule* r, const double* x, double y, double f, double omega) noexcept nogil:
    """Parameters: the cap of the step, and what is added to the squared norm."""
    cdef double loss = 1.0 - y * f, s
    if loss > 0.0:
        s = dot(r.d, x, x) + r.p[1]
        if s > 0.0:
            add(r.d, fmin(r.p[0], loss / s) * y, x, r.w)


# Second-order rules.

cdef void cw_variance(Rule* r, const double* x, double y, double f, double omega) noexcept nogil:
    cdef double phi = r.p[0], m = y * f, v = r.form.variance(r, x), q, root, alpha
    if v > MIN_VARIANCE and m < phi * v:
        q = 1.0 + 2.0 * phi * m
        root = sqrt(q * q + 8.0 * phi * (phi * v - m))
        if q > 0.0:  # the same without a difference of near numbers
            alpha = 2.0 * (phi * v - m) / (v * (root + q))
        else:
            alpha = (root - q) / (4.0 * phi * v)
        r.form.shrink(r, x, 2.0 * alpha * phi, v)
        add(r.d, alpha * y, r.work, r.w)


cdef inline double _hard(double phi, double m, double v) noexcept nogil:
    """The step of the standard-deviation form, which SCW-I caps."""
    cdef double phi2 = phi * phi, psi = 1.0 + phi2 / 2.0, xi = 1.0 + phi2
    return fmax(0.0, (-m * psi + sqrt(m * m * phi2 * phi2 / 4.0 + v * phi2 * xi)) / (v * xi))


cdef inline double _confide(
    Rule* r, const double* x, double y, double phi, double alpha, double v
) noexcept nogil:
    """Move by alpha and shrink so that the constraint of CW and SCW holds; the new v."""
    cdef double avp = alpha * v * phi
    cdef double root_u = 2.0 * v / (avp + sqrt(avp * avp + 4.0 * v))
    r.form.shrink(r, x, alpha * phi / root_u, v)
    add(r.d, alpha * y, r.work, r.w)
    return root_u * root_u


cdef void cw_deviation(Rule* r, const double* x, double y, double f, double omega) noexcept nogil:
    cdef double phi = r.p[0], m = y * f, v = r.form.variance(r, x)
    if v > MIN_VARIANCE and phi * sqrt(v) > m:
        v = _confide(r, x, y, phi, _hard(phi, m, v), v)
        if r.form.variance != root_variance:  # only of a full covariance v is then what it should
            v = r.form.variance(r, x)
        in_units(x, r.d, r.z, r.work)
        v /= fmax(dot(r.d, r.work, r.work), MIN_VARIANCE)
        if MIN_VARIANCE < v < MIN_TYPICAL_VARIANCE or (
            MAX_WEIGHT < largest_in_units(r.w, r.d, r.z) < HUGE_VAL
        ):
            r.form.rescale(r, _exponent(sqrt(v)))


cdef void scw(Rule* r, const double* x, double y, double f, double omega) noexcept nogil:
    """Parameters: phi, C, whether the loss is squared."""
    cdef double phi = r.p[0], m = y * f, v = r.form.variance(r, x), n, phi2, root, alpha
    if v > MIN_VARIANCE and phi * sqrt(v) > m:
        if r.p[2] > 0.0:
            phi2 = phi * phi
            n = v + 1.0 / (2.0 * r.p[1])
            root = phi * sqrt(phi2 * m * m * v * v + 4.0 * n * v * (n + v * phi2))
            alpha = (root - (2.0 * m * n + phi2 * m * v)) / (2.0 * (n * n + n * v * phi2))
            alpha = fmax(0.0, alpha)
        else:
            alpha = fmin(r.p[1], _hard(phi, m, v))
        _confide(r, x, y, phi, alpha, v)


cdef void arow(Rule* r, const double* x, double y, double f, double omega) noexcept nogil:
    cdef double loss = 1.0 - y * f, v
    if loss > 0.0:
        v = r.form.variance(r, x)
        r.form.shrink(r, x, 1.0 / r.p[0], v)
        add(r.d, loss / (v + r.p[0]) * y, r.work, r.w)


cdef void acog(Rule* r, const double* x, double y, double f, double omega) noexcept nogil:
    """Parameters: learning rate, gamma, rho or -1 for running counts, whether the loss is II."""
    cdef double c = 1.0 / r.p[1], rho = 1.0, slope = 1.0, loss, v
    r.n[y > 0.0] += 1.0
    if y > 0.0:
        rho = r.p[2] if r.p[2] > 0.0 else r.n[0] / r.n[1]
    loss = rho - y * f
    if r.p[3] > 0.0:
        loss, slope = rho * (1.0 - y * f), rho
    if loss > 0.0:
        v = r.form.variance(r, x)
        r.form.shrink(r, x, c, v)
        r.form.respread(r, x, c, v)
        add(r.d, r.p[0] * slope * y, r.work, r.w)


# The least-squares family.

cdef inline void _weighted(Rule* r, const double* x, double error, double omega) noexcept nogil:
    """One row of weight omega joins weighted ridge regression, eq. (5) and (6)."""
    cdef double v = r.form.variance(r, x)
    r.form.shrink(r, x, omega, v)
    add(r.d, omega * error / (1.0 + omega * v), r.work, r.w)


cdef void rls(Rule* r, const double* x, double y, double f, double omega) noexcept nogil:
    if omega > 0.0:
        _weighted(r, x, y - f, omega)


cdef void ar_rls(Rule* r, const double* x, double y, double f, double omega) noexcept nogil:
    """Parameter: whether classes are balanced."""
    cdef int k = y > 0.0
    r.n[k] += 1.0
    _weighted(r, x, y - f, (r.n[0] + r.n[1]) / (2.0 * r.n[k]) if r.p[0] > 0.0 else 1.0 / r.n[k])


cdef void ir_rls(Rule* r, const double* x, double y, double f, double omega) noexcept nogil:
    cdef int k = y > 0.0
    cdef double m = r.n[k], delta
    cdef double* mine = r.stored + k * r.room * r.d
    cdef Py_ssize_t i
    if m > 0.0:
        delta = -1.0 / (m * (m + 1.0))
        for i in range(<Py_ssize_t> m):
            _weighted(r, mine + i * r.d, y - dot(r.d, mine + i * r.d, r.w), delta)
    _weighted(r, x, y - dot(r.d, x, r.w), 1.0 / (m + 1.0))
    for i in range(r.d):
        mine[(<Py_ssize_t> m) * r.d + i] = x[i]
    r.n[k] = m + 1.0


cdef void nr_rls(Rule* r, const double* x, double y, double f, double omega) noexcept nogil:
    """Algorithm 1. Parameter: whether to symmetrise. S is P, then the moments of both classes."""
    cdef int k = y > 0.0, d = r.d, dd = r.d * r.d, i, j, info
    cdef double beta, one = 1.0, zero = 0.0, scale
    cdef double* P = r.S
    cdef double* Sk = r.S + (1 + k) * dd
    cdef double* g = r.work
    cdef double* h = r.work + d
    cdef double* A = r.work + 2 * d
    cdef double* M = A + dd
    cdef int* pivots = <int*> (M + dd)
    r.n[k] += 1.0
    beta = 1.0 / r.n[k]
    # A = beta S P, then (I - A)^-1 A
    dgemm(b"N", b"N", &d, &d, &d, &beta, Sk, &d, P, &d, &zero, A, &d)
    for i in range(dd):
        M[i] = -A[i]
    for i in range(d):
        M[i * d + i] += 1.0
    dgesv(&d, &d, M, &d, pivots, A, &d, &info)
    if info:
        for i in range(d):
            r.w[i] = NAN
        return
    # G^-1 = P + P (I - A)^-1 A
    for i in range(dd):
        M[i] = P[i]
    dgemm(b"N", b"N", &d, &d, &d, &one, M, &d, A, &d, &one, P, &d)
    # P = G^-1 - beta G^-1 x x' G^-1 / (1 + beta x' G^-1 x)
    dgemv(b"N", &d, &d, &one, P, &d, <double*> x, &ONE, &zero, g, &ONE)
    dgemv(b"T", &d, &d, &one, P, &d, <double*> x, &ONE, &zero, h, &ONE)
    scale = -beta / (1.0 + beta * dot(d, x, g))
    dger(&d, &d, &scale, g, &ONE, h, &ONE, P, &d)
    if r.p[0] > 0.0:
        for i in range(d):
            for j in range(i):
                P[i * d + j] = P[j * d + i] = 0.5 * (P[i * d + j] + P[j * d + i])
    # S <- S + beta (x x' - S), z <- z + beta (y x - z), w = P (z+ + z-)
    for i in range(d):
        for j in range(d):
            Sk[i * d + j] += beta * (x[i] * x[j] - Sk[i * d + j])
        r.z[k * d + i] += beta * (y * x[i] - r.z[k * d + i])
    for i in range(d):
        g[i] = r.z[i] + r.z[d + i]
    dgemv(b"N", &d, &d, &one, P, &d, g, &ONE, &zero, r.w, &ONE)


cdef void batch(Rule* r, const double* x, double y, double f, double omega) noexcept nogil:
    """Solve least squares after every row. Parameters: b, tau, eta, whether classes are balanced."""
    cdef int k = y > 0.0, d = r.d, dd = r.d * r.d, i, j, info
    cdef double* R = r.work
    cdef double weight, target, one = 1.0
    if omega == 0.0:
        return
    r.n[k] += omega
    dsyr(b"U", &d, &omega, <double*> x, &ONE, r.S + k * dd, &d)
    add(d, omega, x, r.z + k * d)
    for i in range(dd):
        R[i] = 0.0
    for i in range(d):
        r.w[i] = 0.0
        R[i * d + i] = r.p[0]
    for k in range(2):
        if r.n[k] > 0.0:
            weight = 1.0 / r.n[k] if r.p[3] > 0.0 else 1.0
            target = r.p[1] + (r.p[2] if k else -r.p[2])
            for i in range(d):
                for j in range(i + 1):
                    R[i * d + j] += weight * r.S[k * dd + i * d + j]
            add(d, weight * target, r.z + k * d, r.w)
    dpotrf(b"U", &d, R, &d, &info)
    if info:
        for i in range(d):
            r.w[i] = NAN
        return
    i = 1
    dpotrs(b"U", &d, &i, R, &d, r.w, &d, &info)


cdef class Kernel:
    """The loop of one rule.

    Step t writes the score of row t into ``scores`` and then learns row ``t - delay``. A call takes
    the steps from ``start`` to ``stop``.
    """

    cdef Step step
    cdef Form* form
    cdef Py_ssize_t mirrored

    def __call__(
        self,
        const double[:, ::1] X,
        const double[::1] y,
        const double[::1] weight,
        Py_ssize_t delay,
        double[::1] scores,
        const double[::1] parameters,
        double[::1] work,
        double[::1] stored,
        double[::1] w,
        double[::1] S,
        double[::1] z,
        double[::1] n,
        Py_ssize_t start,
        Py_ssize_t stop,
    ):
        cdef Rule r
        cdef Py_ssize_t rows = X.shape[0], i, t
        cdef const double* x
        r.d = <int> w.shape[0]
        r.p = &parameters[0]
        r.work = &work[0]
        r.stored = &stored[0]
        r.room = stored.shape[0] // (2 * r.d)
        r.w = &w[0]
        r.S = &S[0]
        r.z = &z[0]
        r.n = &n[0]
        r.form = self.form
        with nogil:
            for t in range(start, stop):
                if t < rows:
                    scores[t] = dot(r.d, &X[t, 0], r.w)
                i = t - delay
                if i >= 0:
                    x = &X[i, 0]
                    self.step(
                        &r, x, y[i], scores[i] if delay == 0 else dot(r.d, x, r.w), weight[i]
                    )
            for i in range(self.mirrored):
                _mirror(r.S + i * r.d * r.d, r.d)


cdef void _mirror(double* S, Py_ssize_t d) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(d):
        for j in range(i):
            S[j * d + i] = S[i * d + j]


cdef Kernel _kernel(Step step, Form* form, Py_ssize_t mirrored=0):
    cdef Kernel kernel = Kernel.__new__(Kernel)
    kernel.step, kernel.form, kernel.mirrored = step, form, mirrored
    return kernel


cdef dict _second_order(Step step):
    return {"full": _kernel(step, &ROOT), "diagonal": _kernel(step, &DIAGONAL)}


PERCEPTRON = _kernel(perceptron, NULL)
PA = _kernel(pa, NULL)
CW = {"variance": _second_order(cw_variance), "deviation": _second_order(cw_deviation)}
SCW = _second_order(scw)
AROW = _second_order(arow)
AROW["diagonal-drop"] = _kernel(arow, &DROP)
ACOG = _second_order(acog)
RLS = _kernel(rls, &ROOT)
AR_RLS = _kernel(ar_rls, &ROOT)
IR_RLS = _kernel(ir_rls, &ROOT)
NR_RLS = _kernel(nr_rls, NULL)
BATCH = _kernel(batch, NULL, 2)
