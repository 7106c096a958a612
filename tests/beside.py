"""Rows beside a ledger: what a fresh model would learn of a selection."""

import numpy as np
import pyarrow as pa

from counterpoise import BalancedRidgeClassifier
from counterpoise.encoding.columns import Feature
from counterpoise.ledger.demo import payments

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


def same_weights(model, names, fresh, X, tolerance=1e-10):
    """Whether weights, in units of deviations of the features, and the constant agree."""
    wanted = np.zeros(len(names))
    at = {name: j for j, name in enumerate(names)}
    wanted[[at[name] for name in model.names_]] = model.coef_[0]
    spread = np.maximum(X.std(axis=0), np.finfo(float).tiny)
    off = np.abs((wanted - fresh.coef_[0]) * spread).max()
    centre = X.mean(axis=0)
    constant = wanted @ centre + model.intercept_[0]
    constant -= fresh.coef_[0] @ centre + fresh.intercept_[0]
    assert max(off, abs(constant)) <= tolerance, (off, constant)


def a_year(**options):
    """Tables of payments, and the rows beside them."""
    tables = payments(**options)
    return tables, Beside(tables)
