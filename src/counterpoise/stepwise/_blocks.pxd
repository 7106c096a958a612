cdef struct Block:
    int m, d, D, rows
    double b
    double* c           # centre (d), 1 / s_0 (d)
    double* s
    double* nu          # class means (2 D)
    double* n           # simulated counts (2), (2), fading (2), weights of rows by class (2)
    double* N
    double* past
    double* row_alpha
    double* mean        # simulated means and diagonals (2 d)
    double* Cjj
    double* low         # simulated extremes (d)
    double* high
    double* faded       # fading of each row of the block (m)
    double* weight      # weight of each row in the preconditioner (m)
    double* alpha       # weights of M_0 and M_1 (m + 1) x 2
    double* Z           # y_k M_k e_0 (2 D)
    double* S           # M_0, M_1 and Phi' over each other: (2 D + m) x D, by columns
    double* P           # R_0^-1 and (R_0^-1 Phi)' over each other: (D + m) x D
    double* L           # Cholesky factor of 1 / weight + Phi' P Phi: m x m
    double* PPhi        # D x m
    double* Phi
    double* Psi
    double* W           # weight of row j in model i: m x m
    double* q           # D x m
    double* rho
    double* z
    double* w
    double* r           # residual, preconditioned residual, direction, image of the direction
    double* p
    double* u
    double* Au
    double* T           # (2 D + m) x m
    double* rp          # r'p of each column, and the level at which it is done (m)
    double* done


cdef void carve(Block* k, double* at) noexcept
cdef double dot(int n, const double* a, const double* b) noexcept nogil
cdef void product(
    int rows, int columns, int inner, double alpha, const double* A, int lda,
    const double* B, int ldb, double beta, double* C, int ldc
) noexcept nogil
cdef int factorise(Block* k) noexcept nogil
cdef int gradients(Block* k, double tolerance) noexcept nogil
