"""Files and streams to chunks of columns, in constant memory.

- ``source``: open CSV, TSV, JSON Lines, LIBSVM, Parquet or Arrow, compressed or not
- ``Chunk``: columns of some rows
- ``ReadPosition``: how far an input was read, and its hash

Needs the extra ``cli``: ``pip install 'counterpoise[cli]'``.
"""

from counterpoise.readers.chunk import Chunk, ReadPosition
from counterpoise.readers.formats import source

__all__ = ["Chunk", "ReadPosition", "source"]
