"""Signals into calls that succeed or fail: the model is bit-identical to before or to after.

``benchmarks/proofs/kills.py`` sends 10,000 of them.
"""

import contextlib
import copy
import signal
import sys
import time

import numpy as np
import pandas as pd
import pytest
from builders import stream

from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.encoding.vocabulary import Vocabulary
from counterpoise.online import AROW, LS, RLS
from counterpoise.river import BalancedRidgeClassifier as River

X, y = stream(40, 3, 2, minority=0.4)
MORE, LABELS = stream(12, 3, 3, seed=1)  # brings a class that is new
BAD = MORE.copy()
BAD[-1, 2] = np.nan
ROW, EVENT = MORE[0], dict(enumerate(MORE[0].tolist()))
FRAME = pd.DataFrame(MORE, columns=["a", "b", "c"])


def fit_ridge(**options):
    return BalancedRidgeClassifier(**options).partial_fit(X, y)


def fit_auto():
    return AutoClassifier(candidates=("linear",), ridges=(1.0, 0.1)).partial_fit(X, y)


def river(**options):
    model = River(**options)
    for x, label in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(enumerate(x)), label)
    return model


def with_shops():
    model = River(columns={"shop": "many:5"})
    for i, (x, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        model.learn_one({**dict(enumerate(x)), "shop": i % 7}, label)
    model.predict_one(EVENT)
    return model


def single():
    model = fit_ridge()
    model.learn_one(X[0], y[0])
    model.predict_one(X[0])
    return model


# What is called on which model.
CALLS = {
    "new class": (fit_ridge, lambda m: m.partial_fit(MORE, LABELS)),
    "the first chunk": (BalancedRidgeClassifier, lambda m: m.partial_fit(FRAME, LABELS)),
    "a chunk with NaN": (fit_ridge, lambda m: m.partial_fit(BAD, LABELS)),
    "labels of another type": (fit_ridge, lambda m: m.partial_fit(MORE, LABELS.astype(str))),
    "fit": (fit_ridge, lambda m: m.fit(FRAME, LABELS)),
    "fit with NaN": (fit_ridge, lambda m: m.fit(BAD, LABELS)),
    "fading": (lambda: fit_ridge(half_life=5.0), lambda m: m.partial_fit(MORE, LABELS)),
    "unlearn": (fit_ridge, lambda m: m.unlearn(X[:9], y[:9])),
    "unlearn a class": (fit_ridge, lambda m: m.unlearn(X[y == 1], y[y == 1])),
    "unlearn unknown rows": (fit_ridge, lambda m: m.unlearn(MORE, LABELS)),
    "progressive": (fit_ridge, lambda m: m.progressive_scores(MORE, LABELS)),
    "warm-up": (lambda: fit_ridge(feature_map="poly2"), lambda m: m.partial_fit(MORE, LABELS)),
    "progressive in a warm-up": (
        lambda: fit_ridge(feature_map="poly2"),
        lambda m: m.progressive_scores(MORE[:4], LABELS[:4]),
    ),
    "one row": (single, lambda m: m.learn_one(ROW, 0)),
    "one row of a new class": (single, lambda m: m.learn_one(ROW, 7)),
    "wider": (fit_ridge, lambda m: m._engine.add_features(["a", "b", "c", "d", "e"])),
    "merge": (fit_ridge, lambda m: m.merge(m)),
    "auto": (fit_auto, lambda m: m.partial_fit(MORE, LABELS)),
    "auto with NaN": (fit_auto, lambda m: m.partial_fit(BAD, LABELS)),
    "auto fitted with NaN": (fit_auto, lambda m: m.fit(BAD, LABELS)),
    "rule": (lambda: RLS().fit(X, y), lambda m: m.partial_fit(MORE, LABELS % 2)),
    "rule with a strange label": (lambda: AROW().fit(X, y), lambda m: m.partial_fit(MORE, LABELS)),
    "rule fitted with NaN": (lambda: LS().fit(X, y), lambda m: m.fit(BAD, LABELS % 2)),
    "event": (river, lambda m: m.learn_one(EVENT, 0)),
    "event of a new feature": (river, lambda m: m.learn_one({**EVENT, "new": 1.0}, 0)),
    "event of a new label": (river, lambda m: m.learn_one(EVENT, "new")),
    "event with NaN": (river, lambda m: m.learn_one({**EVENT, "bad": np.nan}, "new")),
    "event of a category": (with_shops, lambda m: m.learn_one({**EVENT, "shop": 2}, 0)),
    "event of a new category": (with_shops, lambda m: m.learn_one({**EVENT, "shop": 9}, 0)),
    "event of a new category with NaN": (
        with_shops,
        lambda m: m.learn_one({**EVENT, "shop": 9, 0: np.nan}, 0),
    ),
    "many events": (river, lambda m: m.learn_many(FRAME, LABELS)),
    "unlearned event": (river, lambda m: m.unlearn_one(dict(enumerate(X[0].tolist())), int(y[0]))),
    "unlearned unknown event": (river, lambda m: m.unlearn_one({**EVENT, 0: 1e9}, 0)),
    "mapped event": (lambda: river(feature_map="poly2"), lambda m: m.learn_one(EVENT, "new")),
}
CACHES = {"_open", "_columns", "_cached_params", "solved", "imputed", "single_event", "storage"}


def image(thing):
    """All that a model is, without what it only remembers to be quick."""
    if isinstance(thing, Vocabulary):  # its list may be longer, for a later vocabulary
        return thing.rows, thing.size, thing.values
    if isinstance(thing, np.ndarray):
        values = thing.tolist() if thing.dtype == object else np.ascontiguousarray(thing).tobytes()
        return str(thing.dtype), thing.shape, values
    if isinstance(thing, dict):
        return [(k, image(v)) for k, v in thing.items() if k not in CACHES]
    if isinstance(thing, (list, tuple)):
        return [image(v) for v in thing]
    if hasattr(thing, "__slots__") and hasattr(thing, "__getstate__") and not callable(thing):
        return [(k, image(getattr(thing, k))) for k in sorted(thing.__slots__) if k not in CACHES]
    if hasattr(thing, "__dict__") and not callable(thing):
        return [(k, image(v)) for k, v in sorted(thing.__dict__.items()) if k not in CACHES]
    return repr(thing)


def can_predict(model):
    """Return whether a model that has learned rows still predicts."""
    if isinstance(model, River):
        return model.predict_one(EVENT) is not None
    return len(model.predict(np.zeros((1, model.n_features_in_)))) == 1


def outcomes(name):
    """Return a model, and images of it before and after the call."""
    make, call = CALLS[name]
    model = make()
    done = copy.deepcopy(model)
    with contextlib.suppress(ValueError):
        call(done)
    return model, image(copy.deepcopy(model)), image(done)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::counterpoise.errors.PrecisionWarning")
def test_an_interrupt_at_any_line_finds_the_model_before_or_after(name):
    """Interrupts are raised at every line, or at 250 lines, of our modules and contextlib."""
    start, before, after = outcomes(name)
    call = CALLS[name][1]

    def run_until_line(at):
        """Lines that ran until the call ended or was interrupted."""
        model, lines = copy.deepcopy(start), [0]

        def tracer(frame, event, argument):
            path = frame.f_code.co_filename
            if not ("counterpoise" in path or "contextlib" in path) or "tests" in path:
                return None
            if path.endswith("vocabulary.py"):  # a tracer, unlike a signal, leaves its lock closed
                return None
            if event == "line":
                lines[0] += 1
                if lines[0] == at:
                    raise KeyboardInterrupt
            return tracer

        sys.settrace(tracer)
        try:
            call(model)
        except (KeyboardInterrupt, ValueError):
            pass
        finally:
            sys.settrace(None)
        found = image(model)
        assert found in (before, after), f"different from before and after, at line {at}"
        if found == before and start.__dict__.get("state_") is not None:
            assert can_predict(model)
        return lines[0]

    lines = run_until_line(0)
    for at in range(1, lines + 1, max(1, lines // 250)):
        run_until_line(at)


class SignalInterrupt(KeyboardInterrupt):
    """A signal was received."""


def strike(name, wanted, rng):
    """Send real signals into a call until ``wanted`` of them have interrupted it.

    A timer sends them at a random moment of the call. Return the number of interrupted calls, and
    the number of these that left the model unchanged.
    """
    start, before, after = outcomes(name)
    call, hits, undone = CALLS[name][1], 0, 0

    armed = False

    def handler(number, frame):
        if armed:  # a signal may be handled long after the timer was stopped
            raise SignalInterrupt

    previous = signal.signal(signal.SIGALRM, handler)
    try:
        start_time = time.perf_counter()
        with contextlib.suppress(ValueError):
            call(copy.deepcopy(start))
        length = time.perf_counter() - start_time
        while hits < wanted:
            model, inside, was_hit = copy.deepcopy(start), False, False
            try:
                armed = inside = True
                signal.setitimer(signal.ITIMER_REAL, max(rng.uniform(0.0, length), 1e-6))
                with contextlib.suppress(ValueError):
                    call(model)
                armed = inside = False
            except SignalInterrupt:
                was_hit = inside
                hits += was_hit
            armed = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            found = image(model)
            assert found in (before, after), f"{name}: a model was lost"
            undone += was_hit and found == before
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)
    return hits, undone


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::counterpoise.errors.PrecisionWarning")
def test_real_signals_lose_no_model(name):
    strike(name, 20, np.random.default_rng(0))
