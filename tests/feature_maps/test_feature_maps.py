"""Polynomials: the reference values, the counts, and scikit-learn's conventions."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import data_set
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from counterpoise import BalancedRidgeClassifier
from counterpoise.feature_maps import Polynomial, ReducedPolynomial, terms

VECTORS = json.loads((Path(__file__).parents[1] / "vectors.json").read_text())["feature_maps"]
MAPS = {"reduced_multivariate": ReducedPolynomial, "full_multivariate": Polynomial}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_terms_are_the_reference_values(name, order):
    mapped = MAPS[name](order).fit_transform([VECTORS["x"]])
    assert [1.0, *mapped[0].tolist()] == VECTORS[name][str(order)]  # a constant comes first there


@pytest.mark.parametrize("make", MAPS.values())
@pytest.mark.parametrize("order", range(1, 7))
def test_names_and_counts_fit_the_terms(make, order):
    x = np.random.default_rng(order).random((5, 3))
    mapped = make(order).fit(x)
    names = mapped.get_feature_names_out()
    reduced = make is ReducedPolynomial
    assert len(names) == len(set(names)) == mapped.transform(x).shape[1]
    assert len(names) + 1 == terms(3, order, reduced)


@pytest.mark.parametrize("make", MAPS.values())
def test_each_name_says_what_its_column_is(make):
    x = np.random.default_rng(0).random((4, 2))
    mapped = make(6).fit(x)
    for name, column in zip(mapped.get_feature_names_out(), mapped.transform(x).T, strict=True):
        product = np.ones(4)
        for factor in name.split(" "):
            base, _, power = factor.partition("^")
            value = x.sum(axis=1) if base == "Σ" else x[:, int(base[1:])]
            product *= value ** int(power or 1)
        assert np.allclose(column, product, rtol=1e-14)  # a few products in another order


@pytest.mark.parametrize("order", [0, -1, 1.5, True, "2"])
def test_an_order_that_is_none_is_refused(order):
    with pytest.raises(ValueError, match="order must be an integer"):
        ReducedPolynomial(order).fit([[1.0]])


def test_an_order_may_come_from_numpy_and_must_stay_one():
    mapped = ReducedPolynomial(np.int64(2)).fit([[1.0, 2.0]])
    assert mapped.transform([[1.0, 2.0]]).shape == (1, 8)
    for make in MAPS.values():
        with pytest.raises(ValueError, match="order must be an integer"):
            make(2).fit([[1.0]]).set_params(order=0).transform([[1.0]])
    with pytest.raises(ValueError, match="order must be an integer"):
        terms(5, 0, reduced=True)


@pytest.mark.parametrize("make", MAPS.values())
def test_powers_that_overflow_are_refused(make):
    with pytest.raises(ValueError, match=r"terms of (rm6|poly6) overflow"):
        make(6).fit_transform([[1e60, 1.0]])


def test_a_feature_called_sum_is_not_the_sum():
    names = (
        ReducedPolynomial(2).fit(pd.DataFrame({"sum": [1.0], "b": [2.0]})).get_feature_names_out()
    )
    assert len(set(names)) == len(names)


@parametrize_with_checks([Polynomial(), ReducedPolynomial(3)])
def test_conventions(estimator, check):
    check(estimator)


def test_a_pipeline_learns_chunks_as_it_learns_the_whole():
    X, y = data_set("pima-diabetes")
    mapped = ReducedPolynomial(3).fit(X)
    whole = make_pipeline(ReducedPolynomial(3), BalancedRidgeClassifier()).fit(X, y)
    model = BalancedRidgeClassifier()
    for part in np.array_split(np.arange(len(X)), 7):
        model.partial_fit(mapped.transform(X[part]), y[part])
    # Equal to rounding; the third powers of raw units are nearly collinear.
    assert np.allclose(
        whole.decision_function(X), model.decision_function(mapped.transform(X)), atol=1e-6
    )
