"""Predictions of a model file compared with labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from counterpoise import validate
from counterpoise.arrays import Matrix, Rows
from counterpoise.evaluate.metrics import measure
from counterpoise.evaluate.race import Result
from counterpoise.exact.classes import flat
from counterpoise.jobs.alerts import ByCost
from counterpoise.jobs.inspect import weighed
from counterpoise.jobs.learn import CHUNK_ROWS
from counterpoise.jobs.models import answering
from counterpoise.jobs.ranks import standing
from counterpoise.jobs.store import Stored, sometimes
from counterpoise.jobs.verdict import Verdict
from counterpoise.reasons import Reasons
from counterpoise.streams import DataError, Mark, Source


class Watcher(Protocol):
    """Told of each chunk."""

    def chunk(self, source: Source, rows: int) -> None:
        """Count rows of an input."""
        ...


def judged(
    stored: Stored,
    sources: Iterable[Source],
    watch: Watcher,
    ignore_unknown: bool = False,
    prices: ByCost | None = None,
    explain: int = 0,
) -> Verdict:
    """Compare predictions with labels.

    With ``ignore_unknown``, columns that the model does not know are left out, and so are rows that
    have none of its own. ``prices`` say what mistakes cost. The first rows, ``explain`` of them,
    are explained.
    """
    encoding, model, optional = stored.encoding, stored.model, sometimes(stored)
    true, predicted, scores, skipped, lacking = [], [], [], 0, dict[str, None]()
    risks, costs, needed = [], [], () if prices is None else prices.columns
    apart = None if ignore_unknown else needed
    behind, why = model.scores_, _First(explain)
    for source in sources:
        kinds = encoding.columns.read(encoding.kinds)

        def wanted(name: str) -> bool:
            return name in needed or encoding.columns.wanted(name)

        for chunk in source.chunks(CHUNK_ROWS, Mark(), kinds, wanted):
            encoded = encoding.judge(chunk, apart, optional, answering(stored).state_.mean)
            skipped += int((~encoded.kept).sum())
            lacking |= dict.fromkeys(encoded.lacking)
            if encoded.X.shape[0]:
                f = behind.of(encoded.X)
                true.append(encoded.y)
                predicted.append(behind.classes.best(f))
                scores.append(standing(f, behind))
                p = behind.probabilities(f, stream=True)
                risks.append(p[:, 1:] if p.shape[1] == 2 else p)
                why.take(encoded.X)
                if prices is not None:
                    price = prices.price(chunk, encoded.kept)
                    costs.append(np.broadcast_to(price, len(encoded.y)))
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
    price, alarm = None, 1.0
    if prices is not None:
        price = prices.miss if prices.column is None else np.concatenate(costs)
        alarm = prices.alarm
    return Verdict(
        result, y, np.vstack(risks), price, alarm,
        skipped=skipped, lacking=tuple(lacking), reasons=why.reasons(stored),
    )  # fmt: skip


class _First:
    """The first encoded rows, of which there are to be so many."""

    def __init__(self, rows: int) -> None:
        self._left, self._kept = rows, list[Matrix]()

    def take(self, X: Rows) -> None:
        """Keep rows, if more are wanted."""
        if self._left > 0:
            part = X[: self._left]
            self._kept.append(part.toarray() if sp.issparse(part) else part.copy())
            self._left -= part.shape[0]

    def reasons(self, stored: Stored) -> Reasons | None:
        """Reasons by column, if there are rows."""
        if not self._kept:
            return None
        d = stored.model.n_features_in_  # more than the first rows had, if some came later
        X = np.vstack([np.pad(part, ((0, 0), (0, d - part.shape[1]))) for part in self._kept])
        columns = [feature.column for feature in stored.encoding.features]
        found: Reasons = validate.nameless(stored.model).explain(X)
        return found.grouped(columns)
