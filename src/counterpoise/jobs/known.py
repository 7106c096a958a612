"""Inputs known again by their content: a hash of what was learned of them, not their path."""

from __future__ import annotations

import os
from collections.abc import Mapping

from counterpoise.encoding.encoding import Encoding
from counterpoise.errors import Remedy
from counterpoise.jobs.store import Record
from counterpoise.streams import Chunk, DataError, Mark, Source

SURELY = 16  # rows that are the same in two files not by chance


def recognised(
    source: Source,
    key: str,
    records: Mapping[str, Record],
    encoding: Encoding,
    folder: str,
    present: Mapping[str, Source] | None = None,
) -> str | None:
    """Under which name an input was learned, wholly or in part.

    ``key`` is its name now, ``folder`` that of the model file, which names are relative to, and
    ``present`` the inputs of the same command by name: they keep their records. None if it was
    never learned.
    """
    mine = key if key in records else None
    if not records or not os.path.isfile(source.path):  # a pipe is read once
        return mine
    wanted = encoding.columns.wanted
    starts = source.starts(wanted)
    if mine is not None and records[key].begins_like(starts):
        return mine
    for other, record in records.items():
        if not record.begins_like(starts):
            continue
        try:
            source.verify(record.mark, wanted)
        except DataError:
            continue  # it only begins like that one
        named = (present or {}).get(other)
        if named is not None and os.path.isfile(named.path):
            left = named.left
            still = record.begins_like(named.starts(wanted))
            named.left = left
            if still:
                continue  # that one is here too, under its own name
        elif present is not None and _chance(
            source, os.path.join(folder, other), record.mark, encoding
        ):
            continue
        return other
    return mine


def require_unknown(chunk: Chunk, records: Mapping[str, Record]) -> None:
    """Raise if the first rows of an input are those of another that was learned."""
    for other, record in records.items():
        if record.begins_like(chunk.starts):
            raise DataError(
                f"{chunk.source} begins with the same rows as {other}, which was already learned",
                Remedy("to learn them again, use {}", "allow_overlap", True),
            )


def _chance(source: Source, path: str, mark: Mark, encoding: Encoding) -> bool:
    """Whether an input may begin with the few rows of another by chance: both are there."""
    apart = os.path.isfile(path) and not os.path.samefile(path, source.path)
    if mark.rows >= SURELY or not mark.size or not apart:
        return False
    with open(path, "rb") as one, open(source.path, "rb") as two:
        if one.read(mark.size) != two.read(mark.size):
            return False  # it is that one, moved, and another has its name now
    left, columns = source.left, encoding.columns
    kinds = columns.read({**columns.told, **encoding.kinds})
    plain = getattr(source, "source", source)  # so that no id is claimed
    first = next(iter(plain.chunks(mark.rows + 1, Mark(), kinds, columns.wanted)), None)
    source.left = left
    return first is not None and first.rows > mark.rows  # or it is a copy
