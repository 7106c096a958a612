"""Predictions of a model file compared with labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from counterpoise.arrays import Labels
from counterpoise.evaluate.metrics import measure
from counterpoise.evaluate.race import Result
from counterpoise.exact.classes import flat
from counterpoise.jobs.inspect import weighed
from counterpoise.jobs.learn import CHUNK_ROWS
from counterpoise.jobs.models import answering
from counterpoise.jobs.ranks import standing
from counterpoise.jobs.store import Stored, sometimes
from counterpoise.streams import DataError, Mark, Source


class Watcher(Protocol):
    """Told of each chunk."""

    def chunk(self, source: Source, rows: int) -> None:
        """Count rows of an input."""
        ...


def judged(
    stored: Stored, sources: Iterable[Source], watch: Watcher, ignore_unknown: bool = False
) -> tuple[Result, Labels, int, list[str]]:
    """Compare predictions with labels.

    With ``ignore_unknown``, columns that the model does not know are left out, and so are rows that
    have none of its own. Return the result without times, the true labels (n,), the number of rows
    left out because values are missing, and the columns that tables did not have, which were 0 as
    in some of the learned rows.
    """
    encoding, model, optional = stored.encoding, stored.model, sometimes(stored)
    true, predicted, scores, skipped, lacking = [], [], [], 0, dict[str, None]()
    behind = model.scores_
    for source in sources:
        wanted, kinds = encoding.columns.wanted, encoding.columns.read(encoding.kinds)
        for chunk in source.chunks(CHUNK_ROWS, Mark(), kinds, wanted):
            apart = None if ignore_unknown else ()
            encoded = encoding.judge(chunk, apart, optional, answering(stored).state_.mean)
            skipped += int((~encoded.kept).sum())
            lacking |= dict.fromkeys(encoded.lacking)
            if encoded.X.shape[0]:
                f = behind.of(encoded.X)
                true.append(encoded.y)
                predicted.append(behind.classes.best(f))
                scores.append(standing(f, behind))
            watch.chunk(source, chunk.rows)
    if not true:
        raise DataError("there are no rows to evaluate")
    y, guess, f = np.concatenate(true), np.concatenate(predicted), np.vstack(scores)
    known = model.classes_.tolist()
    if not np.isin(y, known).any():
        found = ", ".join(map(repr, np.unique(y).tolist()[:5]))
        raise DataError(
            f"no label in column {encoding.columns.label!r} is known to the model: they are "
            f"{found}, and it knows {', '.join(map(repr, known[:5]))}; correct them, or learn such "
            "rows first"
        )
    metrics = measure(y, guess, f, model.classes_)
    terms, weights, _ = weighed(stored)
    result = Result("the model", guess, flat(f), 0, metrics, float("nan"), weights, terms)
    return result, y, skipped, list(lacking)
