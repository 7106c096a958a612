"""What the parameters of a TableClassifier say: of the columns, and of the model inside."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from counterpoise import validate
from counterpoise.choosing.classifier import ChoosingClassifier
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.encoding.columns import Columns
from counterpoise.jobs.begin import require_clock
from counterpoise.jobs.models import Model
from counterpoise.risk import RiskClassifier

LISTS = ("drop", "keep", "numeric", "categorical", "time", "date", "classes")
POLICIES = ("mean", "indicate", "drop", "error")


def wanted(model: Any, label: str) -> Columns:
    """Return what is wanted of the columns; raise if a parameter has no meaning."""
    for name in LISTS:
        value = getattr(model, name)
        if isinstance(value, str) or not all(isinstance(one, str) for one in value):
            raise ValueError(f"{name}={value!r} must be a list of names")
    validate.one_of(model, "missing", POLICIES)
    validate.one_of(model, "decimal", (".", ","))
    if model.time_format is not None and "%" not in model.time_format:
        raise ValueError(f"time_format={model.time_format!r} is not like %d.%m.%Y")
    for name, count in (model.hashed or {}).items():
        if type(count) is not int or not 1 <= count <= 2**32:
            raise ValueError(f"hashed[{name!r}] is {count!r}; it must be a number of features")
    if not 0 <= validate.whole(model.seed, "seed") < 2**32:
        raise ValueError(f"seed={model.seed!r} must be below 2**32")
    told = [*model.numeric, *model.categorical, *model.time, *model.date, *(model.hashed or {})]
    twice = [name for name in told if told.count(name) > 1]
    if twice:
        raise ValueError(f"column {twice[0]!r} cannot be two things at once")
    return Columns(
        **{name: tuple(sorted(set(getattr(model, name)))) for name in LISTS},
        label=label,
        weight=model.weight,
        hashed=dict(model.hashed or {}),
        seed=int(model.seed),
        missing=model.missing,
        decimal=model.decimal,
        time_format=model.time_format,
        clock=model.clock,
    )


def chunk_rows(model: Any) -> int:
    """Return how many rows are learned at a time; raise if that has no meaning."""
    rows = model.chunk_rows
    if not isinstance(rows, (int, np.integer)) or not 1 <= rows <= 10**7:
        raise ValueError(f"chunk_rows={rows!r} must be a whole number from 1 to 10,000,000")
    return int(rows)


def prototype_of(estimator: Any, columns: Columns) -> Model:
    """Return the model inside, with nothing learned, for these columns."""
    if isinstance(estimator, RiskClassifier):
        validate.factors(estimator, "costs")
        estimator = estimator.inner()
    if estimator is None:
        estimator = BalancedRidgeClassifier()
    if not isinstance(estimator, (BalancedRidgeClassifier, ChoosingClassifier)):
        raise TypeError(
            f"estimator is a {type(estimator).__name__}; it must be a BalancedRidgeClassifier, a "
            "ChoosingClassifier or a RiskClassifier"
        )
    found: Model = clone(estimator)
    found.check()
    require_clock(found, columns)
    return found
