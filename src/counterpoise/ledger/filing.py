"""A model of a ledger as a model file, which ``predict`` and the others take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.encoding.encoding import Encoding
from counterpoise.jobs.file import save
from counterpoise.jobs.learn import CHUNK_ROWS, rarest
from counterpoise.jobs.lock import locked
from counterpoise.jobs.store import Stored
from counterpoise.ledger.book import Beside


def write(path: str, model: BalancedRidgeClassifier, encoding: Encoding) -> None:
    """Write a model with what is known of its columns; it has no record of inputs."""
    at = {feature.name: j for j, feature in enumerate(encoding.features)}
    mine = encoding.only(np.array([at[name] for name in model.names_], dtype=np.intp))
    assert isinstance(encoding.columns, Beside)
    known = {feature.column for feature in mine.features}
    columns = encoding.columns.of_a_model()
    # A column that is 0 in every row of the selection may be there when rows are predicted.
    others = {f.column for f in encoding.features} - known
    columns = replace(columns, drop=tuple(sorted({*columns.drop, *others})))
    told: dict[str, Any] = {}
    for name in ("keep", "numeric", "categorical", "time"):
        told[name] = tuple(one for one in getattr(columns, name) if one not in others)
    counts = dict(zip(model.classes_.tolist(), model.class_count_.tolist(), strict=True))
    stored = Stored(
        model, replace(mine, columns=replace(columns, **told)), {}, CHUNK_ROWS, rarest(counts)
    )
    with locked(path):
        save(path, stored)
