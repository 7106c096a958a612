"""Rows beside a ledger: what a fresh model would learn of a selection."""

import numpy as np
import pyarrow as pa

from counterpoise import BalancedRidgeClassifier
from counterpoise.encoding.columns import Feature
from counterpoise.ledger.synthetic import payments
from counterpoise.ledger.time_buckets import text

DAY = 86_400


class Beside:
    """All rows of a made-up year, with features as the ledger names them."""

    def __init__(self, tables, time="at", label="fraud", segments=("country",)):
        whole = pa.concat_tables(tables, promote_options="default")
        at = whole[time].cast(pa.timestamp("s")).cast(pa.int64()).to_numpy()
        self.day = at // DAY
        self.y = np.array(whole[label].to_pylist())
        self.segment = {name: np.array(whole[name].to_pylist()) for name in segments}
        columns = {}
        for name in whole.column_names:
            if name in (time, label):
                continue
            if name in segments:
                for value in np.unique(self.segment[name]).tolist():
                    feature = Feature(name, "category", value)
                    columns[feature.name] = (self.segment[name] == value).astype(float)
            else:
                columns[name] = whole[name].fill_null(0.0).to_numpy()
        self.names = list(columns)
        self.X = np.column_stack(list(columns.values()))

    def fresh(self, weight, **options):
        """A model that learned just the rows of positive weight."""
        rows = weight > 0
        return BalancedRidgeClassifier(**options).fit(self.X[rows], self.y[rows], weight[rows])


def distance(model, names, fresh, X):
    """Largest difference of weights, in units of deviations of the features, and constants."""
    wanted = np.zeros(len(names))
    at = {name: j for j, name in enumerate(names)}
    wanted[[at[name] for name in model.names_]] = model.coef_[0]
    spread = np.maximum(X.std(axis=0), np.finfo(float).tiny)
    off = np.abs((wanted - fresh.coef_[0]) * spread).max()
    centre = X.mean(axis=0)
    constant = wanted @ centre + model.intercept_[0]
    constant -= fresh.coef_[0] @ centre + fresh.intercept_[0]
    return float(max(off, abs(constant)))


def same_weights(model, names, fresh, X, tolerance=1e-10):
    """Raise unless weights and constants agree."""
    off = distance(model, names, fresh, X)
    assert off <= tolerance, off


def random_selection(rng, beside):
    """Arguments of model(), and the weights of the rows that they mean."""
    first, last = beside.day.min(), beside.day.max() + 1
    span = int(rng.integers(20, last - first + 1))
    begin = int(rng.integers(first, last - span + 1))
    named, inside = {}, np.ones(len(beside.day), dtype=bool)
    if rng.random() < 0.7:
        named["since"] = text(begin * DAY)
        inside &= beside.day >= begin
    if rng.random() < 0.7:
        named["until"] = text((begin + span) * DAY)
        inside &= beside.day < begin + span
    for name, values in beside.segment.items():
        known = np.unique(values[inside]).tolist()
        some = rng.choice(known, int(rng.integers(1, len(known) + 1)), replace=False).tolist()
        way = rng.integers(0, 4)
        if way == 0 and len(some) < len(known):
            named["where"] = {name: {"not": some}}
            inside &= ~np.isin(values, some)
        elif way == 1:
            named["where"] = {name: some}
            inside &= np.isin(values, some)
        elif way == 2:
            named["where"] = {name: some[0]}
            inside &= values == some[0]
    if rng.random() < 0.4:
        out = rng.choice(np.arange(begin, begin + span), 3).tolist()
        named["exclude"] = [text(day * DAY) for day in out]
        inside &= ~np.isin(beside.day, out)
    weight = inside.astype(float)
    if rng.random() < 0.5 and inside.any():
        half_life = float(rng.uniform(3.0, 100.0))
        named["half_life"] = half_life if rng.random() < 0.5 else f"{half_life!r}d"
        age = beside.day[inside].max() - beside.day[inside]
        weight[inside] = 2.0 ** (-age / half_life)
    return named, weight


def cut_into_days(X, y, days=90, seed=1):
    """Rows as a table of so many days and three towns, and the rows beside it."""
    rng = np.random.default_rng(seed)
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    day = np.sort(rng.integers(0, days, len(y)))
    at = (day * DAY + rng.integers(0, DAY, len(y))).astype("datetime64[s]")
    table = pa.table({"at": at, "town": rng.choice(["a", "b", "c"], len(y)), **columns, "y": y})
    return table, Beside([table], label="y", segments=("town",))


def a_year(**options):
    """Tables of payments, and the rows beside them."""
    tables = payments(**options)
    return tables, Beside(tables)
