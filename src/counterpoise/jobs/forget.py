"""Inputs forgotten: their rows are read again and subtracted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.encoding.encoding import Encoded, Encoding
from counterpoise.exact.filling import Fill
from counterpoise.exact.moments import Moments
from counterpoise.jobs.learn import Learner
from counterpoise.jobs.store import undecided
from counterpoise.streams import Chunk, DataError, Mark, Source
from counterpoise.streams.bytes import lasting
from counterpoise.streams.chunk import changed


def forget(learner: Learner, source: Source, key: str, watch: Callable[[Source, int], None]) -> int:
    """Subtract the rows of an input, as if they had never been learned, and return their number.

    The input must still begin as it did. The learner is changed only if all goes well, and not
    saved; ``watch`` is told of the rows of each chunk.
    """
    model, encoding = learner.model, learner.encoding
    if key.startswith("-"):
        raise DataError("standard input cannot be read twice; forget needs a file")
    if os.path.exists(source.path) and not lasting(source.path):
        raise DataError(f"{source.name} cannot be read twice; forget needs a file")
    if model is None or not learner.identify(source, key):
        known = ", ".join(learner.records) or "nothing"
        raise DataError(
            f"{source.name} was never learned, under this or any other name; the learned inputs "
            f"are {known}"
        )
    record = learner.records[key]
    if not isinstance(model, BalancedRidgeClassifier):
        raise undecided(learner.path)
    model.require_forgettable()
    wanted, rows = encoding.columns.wanted, learner.chunk_rows
    source.verify(record.mark, wanted)

    def chunks() -> Iterator[Chunk]:
        left, kinds = record.mark.rows, encoding.columns.read(encoding.kinds)
        for chunk in source.chunks(rows, Mark(), kinds, wanted, left):
            chunk = chunk.head(left)
            yield chunk
            watch(source, chunk.rows)
            left -= chunk.rows
            if not left:
                break

    strange = changed(source.name, record.mark)
    encoded = (encoding.learn(chunk, lenient=True) for chunk in chunks())
    taken_back(learner, encoded, record.times, strange)
    del learner.records[key]
    learner.forgotten += record.mark.rows
    learner.finish()
    return record.mark.rows


def taken_back(
    learner: Learner,
    rows: Iterable[tuple[Encoded, Encoding]],
    times: int,
    strange: DataError,
) -> None:
    """Subtract encoded rows, with their encoding, which count so many times.

    Records stay as they are; the learner is changed only if all goes well. ``strange`` is raised if
    rows have features or labels that were never learned.
    """
    model, encoding = learner.model, learner.encoding
    if not isinstance(model, BalancedRidgeClassifier):
        raise undecided(learner.path)
    known = model.classes_.tolist()
    gone, d = None, len(encoding.features)
    held = np.zeros(d, dtype=np.int64)
    for encoded, after in rows:
        if encoded.held[d:].any() or after.labels != encoding.labels:
            raise strange
        held += encoded.held[:d]
        if encoded.X.shape[0]:
            part = model.gathered(encoded.X[:, :d], encoded.y, encoded.weight)
            gone = part if gone is None else gone.follow(part)
    if gone is not None:
        names = [feature.name for feature in encoding.features]
        model.forget_moments(repeated(gone, times), model.terms(names))
    learner.window = None  # it may be about these rows
    if learner.held is not None:
        learner.held = learner.held - times * held
        at = model.leave_out(learner.held <= 0)
        learner.held, learner.encoding = learner.held[at], encoding.only(at)
        model.fill_in(Fill.of(*learner.encoding.fill))
    if model.classes_.tolist() != known:
        learner.recent = None


def repeated(moments: Moments, times: int) -> Moments:
    """Return the moments of rows that count so many times, by doubling."""
    if times == 1:
        return moments
    half = repeated(moments, times // 2)
    twice = half + half
    return twice + moments if times % 2 else twice
