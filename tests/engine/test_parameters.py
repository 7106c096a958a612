"""Parameters are held until one of them changes, in whichever way."""

from collections import UserDict, deque
from operator import itemgetter

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.engine.parameters import cached_parameters
from counterpoise.feature_maps import Polynomial


class Reader:
    """Counts how often its parameters are read."""

    def __init__(self, *, one=1.0, two=None):
        self.one, self.two, self.times = one, two, 0

    def read(self):
        return cached_parameters(self, itemgetter("one", "two"), Reader.count)

    def count(self):
        self.times += 1
        return self.one, self.two


def test_parameters_are_read_once_and_again_when_one_is_replaced():
    reader = Reader()
    assert reader.read() is reader.read()
    assert reader.times == 1
    reader.one = 2.0
    assert reader.read() == (2.0, None)
    assert reader.times == 2


@pytest.mark.parametrize(
    ("given", "change"),
    [
        ({"a": 1.0}, lambda given: given.update(a=2.0)),
        (UserDict(a=1.0), lambda given: given.update(a=2.0)),
        ([1.0, 2.0], lambda given: given.append(3.0)),
        (deque([1.0]), lambda given: given.append(3.0)),
        (np.array([1.0, 2.0]), lambda given: given.__setitem__(0, 3.0)),
        (Polynomial(2), lambda given: given.set_params(order=3)),
        ([Polynomial(2)], lambda given: given[0].set_params(order=3)),
    ],
    ids=["dict", "mapping", "list", "sequence", "array", "map", "list of maps"],
)
def test_a_change_within_what_was_given_is_seen(given, change):
    reader = Reader(two=given)
    reader.read()
    reader.read()
    assert reader.times == 1
    change(given)
    reader.read()
    assert reader.times == 2


def test_single_rows_follow_a_dict_of_weights_that_changes():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), rng.integers(0, 2, 60)
    weights = {0: 1.0, 1: 1.0}
    model = BalancedRidgeClassifier(class_weight=weights).fit(X, y)
    model.predict_one(X[0])
    weights[1] = 1e6
    assert {model.predict_one(x) for x in X} == {1}


def test_the_averaging_classifier_detects_changed_class_factors():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), rng.integers(0, 2, 60)
    factors = {0: 1.0}
    model = AutoClassifier(candidates=("linear",), class_factors=factors).fit(X, y)
    factors[0] = 2.0
    with pytest.raises(ValueError, match="class_factors and half_life cannot change"):
        model.partial_fit(X, y)


def test_a_plan_may_change_before_the_first_row():
    model = BalancedRidgeClassifier().partial_fit(np.empty((0, 2)), [], classes=[0, 1])
    model.set_params(half_life=10.0)
    with pytest.raises(NotFittedError):
        model.predict_one([1.0, 2.0])
    model.learn_one([1.0, 2.0], 1)
    assert model.predict_one([1.0, 2.0]) == 1
