"""Progressive calibration of a micro-batch: the counts that one machine would have found.

Rows are in the order of the partitions. One pass counts them, which fixes the boundaries. A second
pass gathers the moments of the rows between two boundaries, so that the driver can solve the
scoring model of each boundary. A third pass scores the rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.encoding.encoding import Encoding
from counterpoise.exact.blas import one_thread
from counterpoise.exact.calibration import Calibration
from counterpoise.exact.progressive_calibration import (
    LabelOrder,
    ProgressiveCalibration,
    after_boundary,
    counts_of,
)
from counterpoise.exact.scores import Scores
from counterpoise.exact.state import State
from counterpoise.spark.fit import Segments, learned_parts, rows_of
from counterpoise.spark.frames import Plan
from counterpoise.spark.tasks import batch_of, large_types, number, raise_first, words_of

COUNT = "part long, error string, rows long"
SCORED = "part long, error string, segment long, found binary"


def learned_progressively(
    plan: Plan, encoding: Encoding, options: Mapping[str, Any], before: BalancedRidgeClassifier
) -> tuple[BalancedRidgeClassifier | None, int]:
    """Learn a frame after a model, and score its rows before they are learned.

    Parameters
    ----------
    plan : Plan
        The frame.
    encoding : Encoding
        How its columns become features.
    options : mapping
        Parameters of the classifier.
    before : BalancedRidgeClassifier
        The model so far, with room for the features; it need not be fitted, and stays as it is.

    Returns
    -------
    BalancedRidgeClassifier or None
        The model with all rows; None if there is no row.
    int
        Rows that were left out because values are missing.
    """
    old: State | None = before.state_ if before.__sklearn_is_fitted__() else None
    now = ProgressiveCalibration()
    if old is not None:
        now = old.progressive or ProgressiveCalibration.start(old)
    starts, total = _starts(plan, encoding, now.rows)
    cuts = [max(now.until, now.rows)]
    while cuts[-1] < total:
        cuts.append(after_boundary(cuts[-1]))
    segments = Segments(starts, tuple(cuts))
    parts, dropped = learned_parts(plan, encoding, options, segments)
    if not parts:
        return None, dropped
    state, models = old, dict[int, Scores | None]()
    result = before
    for segment, model in sorted(parts.items()):
        if segment:
            models[segment] = None if state is None else state.scoring_model(model.options_)
        elif now.scores is not None:
            models[segment] = now.scores
        result = model if state is None else result.merge(model)
        state = result.state_
    assert state is not None
    models = {
        k: None if one is None else replace(one, fixed=state.fixed) for k, one in models.items()
    }
    found = _scored(plan, encoding, segments, models)
    calibration = None if old is None else old.calibration
    for segment in sorted(parts):
        if segment:
            counted, now = now.renewed(models[segment])
            calibration = counted if calibration is None else calibration.merged(counted)
        for n, counts, order, first in found[segment]:
            now = now.with_counts(n, counts, now.order.followed(order, first))
    result.state_ = state.recalibrated(calibration, now)
    return result, dropped


def _starts(plan: Plan, encoding: Encoding, rows: int) -> tuple[dict[int, int], int]:
    """Return the number of rows before each partition, after so many, and before the end."""
    large, read = large_types(plan.df), plan.read

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = number()
        try:
            n = sum(len(one.y) for one, _ in rows_of(batches, read, encoding))
        except ValueError as error:
            yield batch_of(COUNT, [(part, words_of(error), 0)], large)
            return
        yield batch_of(COUNT, [(part, "", n)], large)

    found = sorted(plan.df.mapInArrow(count, COUNT).collect(), key=lambda row: row["part"])
    raise_first([row["error"] for row in found if row["error"]])
    starts: dict[int, int] = {}
    for row in found:
        starts[row["part"]] = rows
        rows += row["rows"]
    return starts, rows


def _scored(
    plan: Plan,
    encoding: Encoding,
    segments: Segments,
    models: Mapping[int, Scores | None],
) -> dict[int, list[tuple[int, Calibration, LabelOrder, list[Any]]]]:
    """Return number, counts and label order of rows by segment, in order, with the first label."""
    large, read = large_types(plan.df), plan.read

    def score(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part, at, found = number(), 0, []
        try:
            with one_thread():
                for one, _ in rows_of(batches, read, encoding):
                    X, y, weight = one.X, one.y, one.weight
                    for segment, rows in segments.split(part, at, len(y)):
                        scores, mine, counts = models.get(segment), y[rows], Calibration.empty()
                        if scores is not None:
                            w = None if weight is None else weight[rows]
                            counts = counts_of(scores, scores.of(X[rows]), mine, w)
                        order = LabelOrder().with_rows(mine)
                        value = pickle.dumps((len(mine), counts, order, mine[:1].tolist()))
                        found.append((part, "", segment, value))
                    at += len(y)
        except ValueError as error:
            found = [(part, words_of(error), 0, b"")]
        if found:
            yield batch_of(SCORED, found, large)

    rows = plan.df.mapInArrow(score, SCORED).collect()
    raise_first([row["error"] for row in rows if row["error"]])
    result: dict[int, list[Any]] = {}
    for row in sorted(rows, key=lambda row: row["part"]):  # stable: in the order of each partition
        result.setdefault(row["segment"], []).append(pickle.loads(bytes(row["found"])))
    return result
