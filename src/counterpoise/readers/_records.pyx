# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Scanners that find the ends of records in a stream of text, independent of how bytes arrive."""

from libc.stdint cimport uint64_t
from libc.string cimport memchr, memset

cdef enum:
    SLOTS = 65536  # for hashes of names of fields; half of them are used


cdef class Records:
    """A scanner: ``take(data, start, wanted)`` continues until ``wanted`` records have ended.

    It returns the index after the last byte that it scanned and the number of records.
    """

    cdef bint begun  # whether bytes have come since the last record ended

    @property
    def is_unfinished(self):
        return self.begun

    @property
    def full(self):  # whether no more records should go into this block
        return False

    @property
    def quote_open(self):
        return False

    @property
    def too_deep(self):  # whether brackets were nested deeper than 64, which may crash parsers
        return False

    def begin(self):
        """Begin a block."""


cdef class Lines(Records):
    """Records that are lines: empty lines, and lines that begin with #, do not count."""

    cdef bint comment

    def take(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t wanted):
        cdef Py_ssize_t i = start, n = data.shape[0], found = 0
        cdef unsigned char c
        with nogil:
            while i < n and found < wanted:
                c = data[i]
                i += 1
                if c == b"\n":
                    found += self.begun
                    self.begun = self.comment = False
                elif not self.begun and not self.comment:
                    self.comment = c == b"#"
                    self.begun = not self.comment and c > b" "
        return i, found


cdef class Cells(Records):
    """Records of delimited text, where a field that begins with a quote may contain line ends."""

    cdef unsigned char delimiter  # the byte between two fields
    cdef bint in_quotes, after_quote, field_start

    def __init__(self, unsigned char delimiter):
        self.delimiter = delimiter
        self.field_start = True

    @property
    def quote_open(self):
        return self.in_quotes

    def take(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t wanted):
        cdef Py_ssize_t i = start, n = data.shape[0], found = 0
        cdef unsigned char c
        cdef const unsigned char* p
        cdef const unsigned char* newline
        if i >= n or wanted <= 0:
            return i, found
        p = &data[0]
        with nogil:
            if not (
                self.in_quotes or self.after_quote
                or memchr(p + i, b'"', n - i) != NULL or memchr(p + i, b"\r", n - i) != NULL
            ):
                while i < n and found < wanted:
                    newline = <const unsigned char*>memchr(p + i, b"\n", n - i)
                    if newline == NULL:
                        self.begun = True
                        self.field_start = p[n - 1] == self.delimiter
                        i = n
                        break
                    found += self.begun or newline > p + i
                    self.begun = False
                    self.field_start = True
                    i = newline - p + 1
            else:
                while i < n and found < wanted:
                    c = p[i]
                    i += 1
                    if self.in_quotes:
                        if c == b'"':
                            self.in_quotes = False
                            self.after_quote = True
                        continue
                    if c == b'"' and (self.field_start or self.after_quote):
                        self.in_quotes = self.begun = True
                        self.field_start = self.after_quote = False
                        continue
                    self.after_quote = False
                    if c == b"\n" or c == b"\r":
                        found += self.begun
                        self.begun = False
                        self.field_start = True
                    else:
                        self.begun = True
                        self.field_start = c == self.delimiter
        return i, found


cdef class Objects(Records):
    """Records that are lines of JSON.

    A block is full when its rows times the different names of fields in it reach ``cells``, because
    each name becomes a column with a cell for each row.
    """

    cdef bint in_string, escaped, deep, key, many
    cdef Py_ssize_t depth, cells, rows, names
    cdef uint64_t hash
    cdef uint64_t slots[SLOTS]

    def __init__(self, Py_ssize_t cells):
        self.cells = cells
        self.begin()

    @property
    def too_deep(self):
        return self.deep

    @property
    def full(self):
        return self.many

    def begin(self):
        """Begin a block: no name was seen."""
        self.many = False
        self.rows = self.names = 0
        memset(self.slots, 0, sizeof(self.slots))

    cdef void see(self) noexcept nogil:
        """Count a name by its hash, if it is new."""
        cdef uint64_t hash = self.hash or 1
        cdef Py_ssize_t i = (hash ^ (hash >> 32)) % SLOTS
        while self.slots[i] != 0:
            if self.slots[i] == hash:
                return
            i = (i + 1) % SLOTS
        if 2 * self.names < SLOTS:
            self.slots[i] = hash
        self.names += 1

    def take(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t wanted):
        """Stop also at the end of a record that is too deep, or when full."""
        cdef Py_ssize_t i = start, n = data.shape[0], found = 0
        cdef unsigned char c
        with nogil:
            while i < n and found < wanted:
                c = data[i]
                i += 1
                if c == b"\n":
                    found += self.begun
                    self.rows += self.begun
                    self.begun = self.in_string = self.escaped = self.key = False
                    self.depth = 0
                    self.many = self.rows * self.names >= self.cells
                    if self.deep or self.many:
                        break
                elif self.escaped:
                    self.escaped = False
                    self.hash = (self.hash ^ c) * <uint64_t>1099511628211
                elif c == b'"':
                    self.in_string = not self.in_string
                    self.begun = True
                    if self.in_string:
                        self.hash = <uint64_t>14695981039346656037
                        self.key = self.depth == 1
                elif self.in_string:
                    self.escaped = c == b"\\"
                    self.hash = (self.hash ^ c) * <uint64_t>1099511628211
                elif c == b":":
                    if self.key and self.depth == 1:
                        self.see()
                    self.key = False
                    self.begun = True
                elif c == b"{" or c == b"[":
                    self.begun = True
                    self.depth += 1
                    self.deep = self.deep or self.depth > 64
                elif c == b"}" or c == b"]":
                    self.begun = True
                    self.depth -= 1
                elif c > b" ":
                    self.begun = True
        return i, found
