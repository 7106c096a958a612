cdef void mirror(double* C, Py_ssize_t stride, Py_ssize_t d) noexcept nogil
