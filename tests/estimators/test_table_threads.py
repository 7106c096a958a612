"""Threads: frames are read in the thread of the caller, and a prediction has one snapshot."""

import copy
import sqlite3
import threading

import numpy as np
import pandas as pd
import pytest

from counterpoise import (
    AutoClassifier,
    BalancedRidgeClassifier,
    CostSensitiveClassifier,
    TableClassifier,
)


def payments(rows=60, first=0):
    """Rows whose categories depend on ``first``: later rows have new ones."""
    rng = np.random.default_rng(first)
    label = rng.random(rows) < 0.4
    town = [f"t{first + i % 5}" for i in range(rows)]
    amount = rng.normal(size=rows) + label
    return pd.DataFrame({"town": town, "amount": amount, "y": np.where(label, "y", "n")})


def pieces(frame, rows=20):
    for start in range(0, len(frame), rows):
        yield frame[start : start + rows]


@pytest.mark.slow
def test_chunks_of_a_database_are_learned(tmp_path):
    frame = payments()
    with sqlite3.connect(tmp_path / "t.db") as connection:
        frame.to_sql("t", connection, index=False)
        chunks = pd.read_sql("SELECT * FROM t", connection, chunksize=7)
        model = TableClassifier().partial_fit(chunks, "y")
        predicted = model.predict(pd.read_sql("SELECT * FROM t", connection, chunksize=7))
    connection.close()
    assert model.class_count_.sum() == len(frame)
    assert predicted.tolist() == model.predict(frame).tolist()


def test_an_iterable_is_read_in_the_thread_of_its_caller():
    threads = set()

    def record_threads(frame):
        for piece in pieces(frame):
            threads.add(threading.get_ident())
            yield piece

    model = TableClassifier().fit(record_threads(payments()), "y")
    model.partial_fit(record_threads(payments()), "y")
    model.unlearn(record_threads(payments()), "y")
    model.predict_proba(record_threads(payments()))
    assert threads == {threading.get_ident()}


CALLS = {
    "decision_function": lambda model, rows: model.decision_function(rows),
    "predict": lambda model, rows: model.predict(rows),
    "predict_proba": lambda model, rows: model.predict_proba(rows),
    "predict_stream_proba": lambda model, rows: model.predict_stream_proba(rows),
    "transform": lambda model, rows: model.transform(rows),
    "explain": lambda model, rows: model.explain(rows).values,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "kind", ["linear", "risk", pytest.param("choosing", marks=pytest.mark.slow)]
)
def test_a_prediction_has_one_snapshot_while_another_thread_learns(kind, call):
    inner = {
        "linear": None,
        "choosing": AutoClassifier(kept_rows=64),
        "risk": CostSensitiveClassifier(BalancedRidgeClassifier(), costs={"y": 5.0}),
    }[kind]
    model = TableClassifier(inner).fit(payments(), "y")
    rows = payments()[["town", "amount"]]
    expected = CALLS[call](model, rows)
    learned = threading.Event()

    def learn():
        model.partial_fit(payments(first=3), "y")
        learned.set()

    def yield_while_learning():
        """Yield half of the rows, let another thread learn new categories, and yield the rest."""
        yield rows[:30]
        thread = threading.Thread(target=learn)
        thread.start()
        thread.join()
        yield rows[30:]

    found = CALLS[call](model, yield_while_learning())
    assert learned.is_set()
    np.testing.assert_array_equal(found, expected)
    assert len(model.feature_columns_) > len(set(rows["town"])) + 1


def test_a_copy_shares_the_values_whose_caches_a_prediction_fills():
    model = TableClassifier().fit(payments(), "y")._model
    other = copy.deepcopy(model)
    assert other.encoding is model.encoding
    assert other.estimator is not model.estimator


@pytest.mark.slow
def test_predictions_never_fail_while_another_thread_learns_new_categories():
    model = TableClassifier().fit(payments(), "y")
    rows = payments()[["town", "amount"]]
    over, failures, predictions = threading.Event(), [], [0, 0]

    def predict(which):
        while not over.is_set():
            try:
                assert np.isfinite(model.predict_proba(rows)).all()
                predictions[which] += 1
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=predict, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for first in range(5, 105, 5):
        model.partial_fit(payments(20, first), "y")
    while not all(predictions):
        pass
    over.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert model._model.encoding.vocabularies["town"].size > 100
