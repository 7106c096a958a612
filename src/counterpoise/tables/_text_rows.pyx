# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Rows of numbers and text as lines of text, many at a time."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

cdef extern from "shortest.h" nogil:
    int MIN_POWER
    int MAX_POWER
    int LONGEST_DOUBLE
    int write_double(double x, const uint64_t* powers, char* out)

cdef uint64_t POWERS[2 * 617]  # high and low word of the 128 leading bits of each power of ten


cdef void fill_powers():
    """Fill the powers of ten, rounded up; each begins with a bit of 1."""
    cdef Py_ssize_t i
    for i in range(MAX_POWER - MIN_POWER + 1):
        power = i + MIN_POWER
        above, below = 10 ** max(power, 0), 10 ** max(-power, 0)
        # floor of log2 of the power
        bits = above.bit_length() - 1 if power >= 0 else -(below - 1).bit_length()
        shift = 127 - bits
        value = -(-(above << max(shift, 0)) // (below << max(-shift, 0)))
        POWERS[2 * i], POWERS[2 * i + 1] = value >> 64, value & 0xffffffffffffffff


fill_powers()

cdef struct Column:
    const double* x  # (n,) numbers; NULL in other columns
    const int64_t* integers  # (n,); NULL in other columns
    const int32_t* ends  # (n + 1,) where each text ends in the next field; the first is a start
    const unsigned char* text
    const unsigned char* valid  # (n,) 0 where a value is missing; NULL if there is none


cdef int write_integer(int64_t value, char* out) noexcept nogil:
    """Write an integer as text, and return its length."""
    cdef char digits[20]
    cdef uint64_t left = -<uint64_t> value if value < 0 else <uint64_t> value
    cdef int i, sign = value < 0, size = 0
    while size == 0 or left:
        digits[size] = <char> (48 + left % 10)
        left = left // 10
        size += 1
    out[0] = b"-"
    for i in range(size):
        out[sign + i] = digits[size - 1 - i]
    return sign + size


def join_rows(list columns, Py_ssize_t n, int delimiter):
    """Return n lines of columns with a delimiter between them; a missing value is empty.

    A column is a tuple of numbers (n,), floats or integers, None and None, or of None, ends (n + 1,)
    and bytes; then flags (n,) of the values that exist, or None.
    """
    cdef Py_ssize_t i, j, m = len(columns), room = 1
    cdef const double[::1] x
    cdef const int64_t[::1] integers
    cdef const int32_t[::1] ends
    cdef const unsigned char[::1] text, valid
    cdef Column* all_columns
    cdef Column* one
    cdef char* at
    cdef char* start
    cdef int32_t size
    if not n or not m:
        return b""
    all_columns = <Column*>calloc(m, sizeof(Column))
    if all_columns == NULL:
        raise MemoryError
    try:
        for j in range(m):
            one, (numbers, ends_, text_, valid_) = &all_columns[j], columns[j]
            room += n
            if numbers is not None:
                if numbers.dtype.kind == "f":
                    x = numbers
                    one.x = &x[0]
                else:
                    integers = numbers
                    one.integers = &integers[0]
                room += n * LONGEST_DOUBLE
            else:
                ends, text = ends_, text_
                one.ends = &ends[0]
                one.text = &text[0] if text.shape[0] else NULL
                room += ends[n] - ends[0]
            if valid_ is not None:
                valid = valid_
                one.valid = &valid[0]
        result = PyBytes_FromStringAndSize(NULL, room)
        start = at = PyBytes_AS_STRING(result)
        with nogil:
            for i in range(n):
                for j in range(m):
                    one = &all_columns[j]
                    if one.valid == NULL or one.valid[i]:
                        if one.x != NULL:
                            at += write_double(one.x[i], POWERS, at)
                        elif one.integers != NULL:
                            at += write_integer(one.integers[i], at)
                        else:
                            size = one.ends[i + 1] - one.ends[i]
                            memcpy(at, one.text + one.ends[i], size)
                            at += size
                    at[0] = delimiter
                    at += 1
                at[-1] = b"\n"
        return result[: at - start]
    finally:
        free(all_columns)
