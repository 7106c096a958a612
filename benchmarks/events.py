"""A million events, one by one: memory stays flat, and what is learned is what bulk learns."""

import gc
import time

import numpy as np
import psutil
import report

from counterpoise import BalancedRidgeClassifier
from counterpoise.exact.moments import Moments
from counterpoise.river import BalancedRidgeClassifier as RiverFace

EVENTS, D = 1_000_000, 20


def stream():
    rng = np.random.default_rng(0)
    y = (rng.random(EVENTS) < 0.01).astype(int)
    return rng.standard_normal((EVENTS, D)) + y[:, None], y


def resident():
    gc.collect()
    return psutil.Process().memory_info().rss / 1e6


def through_river(X, y, look):
    """Learn every event, predicting every `look`-th; memory at some events, and the moments."""
    names = [f"f{j}" for j in range(D)]
    model, memory, start = RiverFace(), {}, time.perf_counter()
    for i in range(EVENTS):
        x = dict(zip(names, X[i].tolist(), strict=True))
        if i % look == 0:
            model.predict_one(x)
        model.learn_one(x, int(y[i]))
        if i + 1 in (10_000, 100_000, EVENTS):
            memory[i + 1] = resident()
    return model._moments, memory, EVENTS / (time.perf_counter() - start)


def through_arrays(X, y):
    model = BalancedRidgeClassifier().partial_fit(X[:2], y[:2])
    memory = {}
    for i in range(2, EVENTS):
        model.predict_one(X[i])
        model.learn_one(X[i], y[i])
        if i + 1 in (10_000, 100_000, EVENTS):
            memory[i + 1] = resident()
    return model.state_.moments, memory


def distance(one, two):
    """Largest relative distance of the scatters, class by class."""
    where = {label: k for k, label in enumerate(one.labels.tolist())}
    return max(
        np.linalg.norm(one.C[where[label]] - two.C[k]) / np.linalg.norm(two.C[k])
        for k, label in enumerate(two.labels.tolist())
    )


if __name__ == "__main__":
    X, y = stream()
    bulk = Moments.of(X, y)
    always, memory_river, rate = through_river(X, y, 1)
    seldom, _, _ = through_river(X, y, 1000)
    rows, memory_rows = through_arrays(X, y)
    same = np.array_equal(always.C, seldom.C) and np.array_equal(always.mean, seldom.mean)
    report.write(
        "events",
        "A million events, one by one",
        f"{EVENTS:,} events, d = {D}, 1 % minority, `predict_one` then `learn_one` on each. "
        + report.machine("numpy", "river"),
        report.table(
            ["resident memory, MB, after", "10,000 events", "100,000", "1,000,000"],
            [
                ["river face, dicts", *[f"{mb:.1f}" for mb in memory_river.values()]],
                ["learn_one on arrays", *[f"{mb:.1f}" for mb in memory_rows.values()]],
            ],
        ),
        f"Relative distance of the moments to those learned in bulk: {distance(always, bulk):.0e} "
        f"through dicts, {distance(rows, bulk):.0e} through arrays. Predicting at every event or "
        f"at every thousandth leaves {'bit-identical' if same else 'DIFFERENT'} moments. "
        f"{rate:,.0f} events per second through dicts, making the dicts included.",
    )
