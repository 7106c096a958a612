from libc.stdint cimport uint64_t


cdef extern from "kernels.h" nogil:
    void rank_one(const double* r, Py_ssize_t d, double* C, Py_ssize_t stride)


cdef struct MomentsView:
    Py_ssize_t c
    Py_ssize_t d
    Py_ssize_t stride       # of a row of C
    Py_ssize_t size         # of C of one class
    double* anchor
    double* delta           # workspace
    double* n
    double* weight_remainder
    double* min_row_weight
    double* N
    double* stream
    double* mean
    double* C
    double* max_scatter
    double* removed
    double* nonconstant_weight
    uint64_t* row_hashes


cdef MomentsView view(moments) except *


cpdef void decay(a, double share) except *


cdef double best_anchor(const MomentsView* s, const MomentsView* b, Py_ssize_t j) noexcept nogil


cdef void learn_row(
    MomentsView* s, Py_ssize_t k, const double* x, double omega, double entering, double keep
) noexcept nogil
