"""Rows forgotten: they are read again and subtracted, whole inputs or those that are meant."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from counterpoise.arrays import Counts
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.encoding.encoding import Encoded, Encoding
from counterpoise.exact.calibration import Calibration
from counterpoise.exact.filling import Fill
from counterpoise.exact.moments import Moments
from counterpoise.jobs import gone
from counterpoise.jobs.joined import Joined, JoinedChunk
from counterpoise.jobs.learn import Learner
from counterpoise.jobs.store import Apart, Record, undecided
from counterpoise.jobs.where import Where
from counterpoise.streams import Chunk, DataError, Mark, Source
from counterpoise.streams.bytes import lasting
from counterpoise.streams.chunk import changed

Watch = Callable[[Source, int], None]


@dataclass(eq=False)
class Taken:
    """Rows that were read again, to be subtracted.

    Attributes
    ----------
    moments : Moments, optional
        Theirs; None of no row.
    held : ndarray of shape (d,)
        How many of them hold each feature.
    places : list of int
        Their numbers within the input, from 0.
    again : list of tuple
        Rows, old labels and weights, if they are to be learned again.
    mark : Mark
        How far the input was read.
    problem : DataError, optional
        Why the rows of a pipe cannot be subtracted.
    """

    moments: Moments | None
    held: Counts
    places: list[int]
    again: list[tuple[Any, Any, Any]]
    mark: Mark
    problem: DataError | None = None


def forget(learner: Learner, source: Source, key: str, watch: Watch) -> int:
    """Subtract the rows of an input, as if they had never been learned, and return their number.

    The input must still begin as it did. The learner is changed only if all goes well, and not
    saved; ``watch`` is told of the rows of each chunk.
    """
    record = _recorded(learner, source, key)
    model = forgettable(learner)
    learner.window = None  # it may be about these rows
    taken = read_again(learner, source, record, None, watch)
    rows = record.mark.rows - record.dropped - gone.count(record.gone)
    if isinstance(source, Joined) and len(taken.places) < rows:
        raise DataError(
            f"{source.name}: {rows - len(taken.places):,} of its rows have no event in the files "
            "that were given; give the files of all their events"
        )
    known = model.classes_.tolist()
    _subtract(learner, model, taken, record.times)
    del learner.records[key]
    learner.forgotten += record.mark.rows
    _settle(learner, known)
    learner.finish()
    return record.mark.rows - gone.count(record.gone)


def forget_where(
    learner: Learner,
    source: Source,
    key: str,
    where: Where,
    watch: Watch,
    to: Any = None,
) -> int:
    """Subtract the rows of an input that are meant, and return their number.

    Those that were taken back before do not count again. With ``to``, a label, they are learned
    again with this label instead of their own; rows that have it are left as they are.
    """
    record = _recorded(learner, source, key)
    model = forgettable(learner)
    taken = read_again(learner, source, record, where, watch, to)
    if taken.moments is None:
        return 0
    learner.window = None
    known = model.classes_.tolist()
    _subtract(learner, model, taken, record.times)
    learner.records[key] = replace(record, gone=gone.with_more(record.gone, taken.places))
    if to is not None:
        for X, _, weight in taken.again:
            weight = np.ones(X.shape[0]) if weight is None else weight
            model.learn_judged(
                X, np.full(X.shape[0], to), record.times * weight, Calibration.empty()
            )
        if learner.held is not None:
            learner.held = learner.held + record.times * taken.held
        more = record.times * len(taken.places)
        learner.apart = replace(learner.apart, rows=learner.apart.rows + more)
    _settle(learner, known)
    learner.finish()
    return len(taken.places)


def forget_pipe(learner: Learner, source: Source, where: Where | None, watch: Watch) -> int:
    """Subtract rows that come from a pipe, with their labels, and return their number.

    If they are all that was learned from standard input under a name, its record goes too. Else
    their hash is kept, so that the same rows are not taken back twice.
    """
    model = forgettable(learner)
    taken = read_again(learner, source, None, where, watch)
    digest = f"{taken.mark.hash} {'' if where is None else sorted(where.values.items())}".strip()
    if digest in learner.apart.hashes:
        raise DataError(f"{source.name}: these rows were forgotten before; nothing was changed")
    if taken.problem is not None:
        raise taken.problem
    if taken.moments is None:
        return 0
    learner.window = None
    known = model.classes_.tolist()
    whole = [
        key
        for key, record in learner.records.items()
        if key.startswith("-")
        and where is None
        and (record.mark.rows, record.mark.hash) == (taken.mark.rows, taken.mark.hash)
        and record.times == 1
        and not record.gone
    ]
    _subtract(learner, model, taken, 1)
    if whole:
        learner.forgotten += learner.records.pop(whole[0]).mark.rows
    else:
        rows, hashes = learner.apart.rows - len(taken.places), learner.apart.hashes
        learner.apart = Apart(rows, (*hashes, digest))
    _settle(learner, known)
    learner.finish()
    return len(taken.places)


def forgettable(learner: Learner) -> BalancedRidgeClassifier:
    """Return the model, or raise if rows cannot be taken back."""
    if learner.model is None:
        raise DataError(f"{learner.path} has learned nothing")
    if not isinstance(learner.model, BalancedRidgeClassifier):
        raise undecided(learner.path)
    learner.model.require_forgettable()
    return learner.model


def read_again(
    learner: Learner,
    source: Source,
    record: Record | None,
    where: Where | None,
    watch: Watch,
    keeps: Any = None,
) -> Taken:
    """Read the rows of an input that are to be subtracted.

    ``record`` says how far the input was learned, and which rows were taken back; None of a pipe.
    ``where`` says which rows are meant; None for all. Rows whose label is ``keeps`` stay.
    """
    model, encoding = learner.model, learner.encoding
    assert isinstance(model, BalancedRidgeClassifier)
    columns, d = encoding.columns, len(encoding.features)
    if record is not None:
        source.verify(record.mark, columns.wanted)

    def wanted(name: str) -> bool:
        return columns.wanted(name) or (where is not None and name in where.values)

    until = None if record is None else record.mark.rows
    result = Taken(None, np.zeros(d, dtype=np.int64), [], [], Mark())
    kinds = columns.read(encoding.kinds)
    kinds = kinds if where is None else where.kinds(kinds)
    for chunk in source.chunks(learner.chunk_rows, Mark(), kinds, wanted, until):
        places = _places(chunk)
        meant = np.ones(chunk.rows, dtype=bool) if where is None else where.of(chunk)
        if record is not None:
            meant &= (places < record.mark.rows) & ~gone.among(record.gone, places)
        result.mark = chunk.mark
        watch(source, chunk.rows)
        if not meant.any():
            continue
        part = chunk.only(meant)
        encoded, after = encoding.learn(part, lenient=True)
        if encoded.held[d:].any() or (after.labels == "int") != (encoding.labels == "int"):
            if record is not None:
                raise changed(source.name, record.mark)
            result.problem = result.problem or DataError(
                f"{source.name}, row {chunk.first + int(meant.argmax())} or one after it: it has "
                "a category or a column that was never learned; give rows as they were learned"
            )
            continue  # to its end: the same rows may have been forgotten before
        kept = encoded.kept.copy()
        stays = np.zeros(len(encoded.y), dtype=bool) if keeps is None else encoded.y == keeps
        if stays.any():
            kept[np.flatnonzero(kept)[stays]] = False
            part = part.only(kept)
            encoded, _ = encoding.learn(part, lenient=True)
            meant[np.flatnonzero(meant)[~kept]] = False
            kept = encoded.kept
        if not encoded.X.shape[0]:
            continue
        result.held += encoded.held[:d]
        result.places += places[meant][kept].tolist()
        X = encoded.X[:, :d]
        moments = model.gathered(X, encoded.y, encoded.weight)
        result.moments = moments if result.moments is None else result.moments.follow(moments)
        if keeps is not None:
            result.again.append((X, encoded.y, encoded.weight))
    return result


def _recorded(learner: Learner, source: Source, key: str) -> Record:
    """What was learned from an input, or raise if nothing was, or it cannot be read again."""
    if key.startswith("-"):
        raise DataError("standard input cannot be read twice; forget needs a file")
    if os.path.exists(source.path) and not lasting(source.path):
        raise DataError(f"{source.name} cannot be read twice; forget needs a file")
    if learner.model is None or not learner.identify(source, key):
        known = ", ".join(learner.records) or "nothing"
        raise DataError(
            f"{source.name} was never learned, under this or any other name; the learned inputs "
            f"are {known}"
        )
    return learner.records[key]


def _subtract(learner: Learner, model: BalancedRidgeClassifier, taken: Taken, times: int) -> None:
    """Take rows back from the moments and the counts."""
    if taken.moments is not None:
        names = [feature.name for feature in learner.encoding.features]
        model.forget_moments(repeated(taken.moments, times), model.terms(names))
    if learner.held is not None:
        learner.held = learner.held - times * taken.held


def _settle(learner: Learner, known: list[Any]) -> None:
    """Leave out what no row has any more."""
    model = learner.model
    assert isinstance(model, BalancedRidgeClassifier)
    if learner.held is not None:
        at = model.leave_out(learner.held <= 0)
        learner.held, learner.encoding = learner.held[at], learner.encoding.only(at)
        model.fill_in(Fill.of(*learner.encoding.fill))
    if model.classes_.tolist() != known:
        learner.recent = None


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
    known, d = model.classes_.tolist(), len(encoding.features)
    taken = Taken(None, np.zeros(d, dtype=np.int64), [], [], Mark())
    for encoded, after in rows:
        if encoded.held[d:].any() or (after.labels == "int") != (encoding.labels == "int"):
            raise strange
        taken.held += encoded.held[:d]
        if encoded.X.shape[0]:
            part = model.gathered(encoded.X[:, :d], encoded.y, encoded.weight)
            taken.moments = part if taken.moments is None else taken.moments.follow(part)
    _subtract(learner, model, taken, times)
    learner.window = None  # it may be about these rows
    _settle(learner, known)


def _places(chunk: Chunk) -> Any:
    """The numbers of rows within their input, from 0, of shape (rows,)."""
    if isinstance(chunk, JoinedChunk):
        return chunk.first - 1 + np.array(chunk.places, dtype=np.intp)
    return np.arange(chunk.first - 1, chunk.first - 1 + chunk.rows)


def repeated(moments: Moments, times: int) -> Moments:
    """Return the moments of rows that count so many times, by doubling."""
    if times == 1:
        return moments
    half = repeated(moments, times // 2)
    twice = half + half
    return twice + moments if times % 2 else twice
