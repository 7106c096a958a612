"""Digest of a ledger: hashes by which any change of the file is detected."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from xxhash import xxh3_128_hexdigest, xxh3_128_intdigest

MAX_COUNT = (1 << 31) - 1  # rows of a table
SUMS = 1 << 128  # hashes of heads are added modulo this


@dataclass
class Contents:
    """Everything in a ledger except the cells: values as JSON has them.

    Attributes
    ----------
    meta : dict of str to object
        Settings, columns and counters.
    labels, segments : list
        Values by number.
    inputs : dict of str to object
        Records of what was learned.
    """

    meta: dict[str, Any] = field(default_factory=dict)
    labels: list[Any] = field(default_factory=list)
    segments: list[Any] = field(default_factory=list)
    inputs: dict[str, Any] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """Hash of all of it."""
        texts = [
            sorted((name, json.dumps(value)) for name, value in self.meta.items()),
            list(map(json.dumps, self.labels)),
            list(map(json.dumps, self.segments)),
            [(name, json.dumps(value)) for name, value in self.inputs.items()],
        ]
        return xxh3_128_hexdigest(json.dumps(texts).encode())


@dataclass(frozen=True)
class Digest:
    """Digest of a whole ledger.

    Attributes
    ----------
    buckets : int
        Number of buckets.
    heads : int
        Sum of the hashes of their heads, modulo 2**128.
    counts : tuple of int
        Numbers of labels, segments and inputs.
    contents : str
        Hash of everything except the cells.
    """

    buckets: int = 0
    heads: int = 0
    counts: tuple[int, int, int] = (0, 0, 0)
    contents: str = ""

    @property
    def text(self) -> str:
        """Digest as it is stored."""
        return json.dumps([self.buckets, f"{self.heads:032x}", *self.counts, self.contents])

    @classmethod
    def read(cls, text: str) -> Digest:
        """Return the digest of a text; raise ValueError if it is not one."""
        buckets, heads, labels, segments, inputs, contents = json.loads(text)
        result = cls(int(buckets), int(heads, 16), (labels, segments, inputs), contents)
        counts = (result.buckets, *result.counts)
        if result.text != text or any(type(one) is not int or not 0 <= one < MAX_COUNT
                                      for one in counts):  # fmt: skip
            raise ValueError("its digest is not one")
        return result


def hash_heads(bucket: tuple[int, bytes]) -> int:
    """Return the hash of the heads of a bucket, with its start."""
    return xxh3_128_intdigest(bucket[1], bucket[0] % (1 << 64))
