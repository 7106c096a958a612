"""An engine is one class: an estimator names it, and one entry stores it."""

import numpy as np
import pytest

from counterpoise import BalancedRidgeClassifier
from counterpoise.engine.ridge import RidgeModel
from counterpoise.modelfile import engines


class TwiceModel(RidgeModel):
    """Ridge model that learns each row as if it came twice."""

    kind = "TwiceClassifier"

    def learn(self, X, y, weight=None, *more, **options):
        super().learn(X, y, np.full(len(y), 2.0), *more, **options)


class TwiceClassifier(BalancedRidgeClassifier):
    _engine_class = TwiceModel


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setitem(engines.KINDS, TwiceModel.kind, engines.ridge_format(TwiceModel))
    rng = np.random.default_rng(0)
    y = (rng.random(200) < 0.3).astype(int)
    return rng.normal(size=(200, 3)) + y[:, None], y


def test_a_new_engine_learns_in_its_own_way(rows):
    X, y = rows
    twice = BalancedRidgeClassifier().fit(np.concatenate([X, X]), np.concatenate([y, y]))
    model = TwiceClassifier().fit(X, y)
    # Two orders of the same sums.
    np.testing.assert_allclose(model.coef_, twice.coef_, rtol=1e-12)


def test_a_saved_engine_continues_in_its_own_way(rows, tmp_path):
    X, y = rows
    model = TwiceClassifier().partial_fit(X[:100], y[:100])
    model.save(tmp_path / "model")
    again = TwiceClassifier.load(tmp_path / "model")
    for one in (model, again):
        one.partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_array_equal(again.class_count_, 2 * np.bincount(y))
    assert again.merge(model).class_count_.sum() == 800
