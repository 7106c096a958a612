# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Hash table of texts, which finds the cells of a column without an object for each."""

import os

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define PREFETCH(place) __builtin_prefetch(place)
    #else
    #define PREFETCH(place) ((void)0)
    #endif
    """
    void PREFETCH(const void* place) noexcept nogil

cdef enum:
    ROWS = 16  # whose slots and texts are fetched from memory at the same time

cdef struct Slot:
    uint32_t tag  # upper bits of the hash
    int32_t code  # position of the text from 1; 0 of an empty slot
    int64_t start  # where the size (4 bytes) and the bytes of the text begin

# So that texts of an untrusted input cannot have been chosen to share slots.
cdef uint64_t SEED = int.from_bytes(os.urandom(8), "little")


cdef inline uint64_t hash_text(const unsigned char* text, Py_ssize_t size) noexcept nogil:
    cdef uint64_t h = SEED ^ (<uint64_t>size * 0x9e3779b97f4a7c15u), word
    while True:
        word = 0
        memcpy(&word, text, 8 if size > 8 else size)
        h = (h ^ word) * <uint64_t>0x9e3779b97f4a7c15u
        h = (h ^ h >> 32) * <uint64_t>0xd6e8feb86659fd93u
        h ^= h >> 29
        if size <= 8:
            return h
        text += 8
        size -= 8


cdef class TextIndex:
    """Positions from 1 of texts in the order in which they were added; it grows alone.

    It is not stored: a pickled index is empty.
    """

    cdef Slot* slots  # as many as a power of two, at most half of them taken
    cdef unsigned char* text
    cdef Py_ssize_t capacity, text_capacity
    cdef int64_t end
    cdef readonly Py_ssize_t count

    def __reduce__(self):
        return TextIndex, ()

    def __dealloc__(self):
        free(self.slots)
        free(self.text)

    def extend(self, list values):
        """Add texts, none of which is in the index."""
        cdef uint32_t size
        cdef bytes data
        cdef Slot slot
        self._reserve(self.count + len(values))
        for value in values:
            data = value.encode("utf-8", "surrogatepass")
            size = len(data)
            if self.end + 4 + size > self.text_capacity:
                self._reserve_text(2 * (self.end + 4 + size))
            memcpy(self.text + self.end, &size, 4)
            memcpy(self.text + self.end + 4, <const unsigned char*>data, size)
            slot.start, slot.code = self.end, self.count + 1
            self._insert(slot)
            self.end += 4 + size
            self.count += 1

    cdef int _reserve_text(self, Py_ssize_t size) except -1:
        found = <unsigned char*>realloc(self.text, size)
        if found == NULL:
            raise MemoryError
        self.text, self.text_capacity = found, size
        return 0

    cdef int _reserve(self, Py_ssize_t count) except -1:
        """Make space for the slots of this many texts."""
        cdef Py_ssize_t capacity = self.capacity or 64, before = self.capacity, i
        cdef Slot* old = self.slots
        while capacity < 2 * count:
            capacity *= 2
        if capacity > before:
            slots = <Slot*>calloc(capacity, sizeof(Slot))
            if slots == NULL:
                raise MemoryError
            self.slots, self.capacity = slots, capacity
            for i in range(before):
                if old[i].code:
                    self._insert(old[i])
            free(old)
        return 0

    cdef void _insert(self, Slot slot) noexcept:
        """Put the slot of a text that is stored into the first free place."""
        cdef uint32_t size
        memcpy(&size, self.text + slot.start, 4)
        cdef uint64_t h = hash_text(self.text + slot.start + 4, size)
        cdef Py_ssize_t mask = self.capacity - 1, at = h & mask
        while self.slots[at].code:
            at = (at + 1) & mask
        slot.tag = h >> 32
        self.slots[at] = slot

    def find(
        self,
        const int32_t[::1] ends,
        const unsigned char[::1] text,
        const unsigned char[::1] valid,
        double[::1] codes,
    ):
        """Write the position of each of n texts, 0 of one that is not in the index or not valid.

        ``ends`` (n + 1,) is where each text ends in ``text``, after a start. ``valid`` may be None.
        """
        cdef Py_ssize_t first = 0, i, j, at, n = codes.shape[0], mask = self.capacity - 1, rows
        cdef uint32_t size, found
        cdef uint64_t h
        cdef uint64_t[ROWS] hashes
        cdef const unsigned char* data
        cdef const unsigned char* whole = &text[0] if text.shape[0] else NULL
        cdef const unsigned char* own
        if not self.count:
            codes[:] = 0.0
            return
        with nogil:
            while first < n:
                rows = min(<Py_ssize_t>ROWS, n - first)
                for j in range(rows):
                    i = first + j
                    hashes[j] = hash_text(whole + ends[i], ends[i + 1] - ends[i])
                    PREFETCH(&self.slots[hashes[j] & mask])
                for j in range(rows):
                    PREFETCH(self.text + self.slots[hashes[j] & mask].start)
                for j in range(rows):
                    i = first + j
                    codes[i] = 0.0
                    if valid is not None and not valid[i]:
                        continue
                    data, size, h = whole + ends[i], ends[i + 1] - ends[i], hashes[j]
                    at = h & mask
                    while self.slots[at].code:
                        if self.slots[at].tag == <uint32_t>(h >> 32):
                            own = self.text + self.slots[at].start
                            memcpy(&found, own, 4)
                            if found == size and not memcmp(own + 4, data, size):
                                codes[i] = self.slots[at].code
                                break
                        at = (at + 1) & mask
                first += rows
