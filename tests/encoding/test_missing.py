"""Missing numbers are filled by the mean, independent of chunks."""

import numpy as np
import pandas as pd
import pytest

from counterpoise import TableClassifier


def late_column(kind):
    """Rows of which the first 120 do not have a value in one column."""
    rng = np.random.default_rng(1)
    y = rng.random(300) < 0.3
    value = rng.normal(size=300) + y + 5.0
    if kind == "datetime":
        value = pd.Timestamp("2024-03-01") + pd.to_timedelta(86400.0 * value, unit="s")
    late = pd.Series(value).where(np.arange(300) >= 120)
    return pd.DataFrame({"late": late, "a": rng.normal(size=300) + y, "y": y.astype(int)})


@pytest.mark.parametrize("kind", ["number", "datetime"])
def test_values_that_come_late_do_not_depend_on_chunks(kind):
    table = late_column(kind)
    models = [
        TableClassifier(label="y", columns={"late": kind}, chunk_rows=rows).partial_fit(table)
        for rows in (300, 50, 120)
    ]
    X = table.drop(columns="y")
    whole, *others = (model.predict_proba(X) for model in models)
    for p in others:
        np.testing.assert_allclose(p, whole, atol=1e-8)
    left = models[1].unlearn(table[:100]).predict_proba(X)
    again = TableClassifier(label="y", columns={"late": kind}).partial_fit(table[100:])
    np.testing.assert_allclose(left, again.predict_proba(X), atol=1e-6)
