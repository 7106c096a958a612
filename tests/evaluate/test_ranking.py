"""Metrics of an order: scikit-learn's, from one sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as theirs

from counterpoise.evaluate.metrics import Ranking


@given(
    st.lists(st.tuples(st.booleans(), st.integers(-4, 4)), min_size=2, max_size=60),
    st.floats(0.0, 1.0),
)
def test_metrics_of_an_order_are_those_of_scikit_learn(rows, rate):
    y, f = np.array([a for a, _ in rows]), np.array([b for _, b in rows]) / 3.0  # with ties
    y[:2] = False, True
    ours = Ranking.of(y, f)
    # Sums of at most 60 shares: rounding only.
    same = {"rel": 1e-12, "abs": 1e-14}
    assert ours.roc_auc() == pytest.approx(theirs.roc_auc_score(y, f), **same)
    assert ours.average_precision() == pytest.approx(theirs.average_precision_score(y, f), **same)
    wrong, found, _ = theirs.roc_curve(y, f, drop_intermediate=False)
    assert ours.recall_within(rate) == pytest.approx(found[wrong <= rate].max(), **same)
    precision, recall, _ = theirs.precision_recall_curve(y, f)
    mine = ours.curve()
    np.testing.assert_allclose(mine[0], precision, rtol=1e-12)
    np.testing.assert_allclose(mine[1], recall, rtol=1e-12)


def test_scores_may_be_infinite_and_positives_absent():
    """A class that was not seen yet scores −∞."""
    ranking = Ranking.of(np.array([True, False, True]), np.array([-np.inf, 0.0, np.inf]))
    assert ranking.roc_auc() == 0.5
    nobody = Ranking.of(np.zeros(3, dtype=bool), np.arange(3.0))
    assert nobody.recall.tolist() == [1.0, 1.0, 1.0]  # as scikit-learn has it, with a warning
    assert nobody.precision.tolist() == [0.0, 0.0, 0.0]
