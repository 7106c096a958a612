"""Ten million events through river's face: what is learned, and what is said, stays exact.

At random moments of the stream the score of the next event is compared with that of a refit, which
learns all rows so far anew from their moments in bulk and solves them by the classifier's own
solver. In the end the moments are compared with those of all rows in bulk.
"""

import sys
import time

import numpy as np

from benchmarks import report
from counterpoise import BalancedRidgeClassifier
from counterpoise.moments.moments import Moments
from counterpoise.river import BalancedRidgeClassifier as RiverFace

LOOKS, CHUNK = 1_000, 10_000
STREAMS = ((10_000_000, 20), (200_000, 60))  # events and features: weights of wide rows follow


class Stream:
    """Drifting means, mixed features, units from 1e-3 to 1e3, offsets up to 1e6."""

    def __init__(self, d):
        rng = np.random.default_rng(3)
        self.mixed = np.eye(d) + 0.3 * rng.standard_normal((d, d))
        self.units = 10.0 ** rng.integers(-3, 4, d)
        self.offsets = 10.0 ** rng.integers(0, 7, d)
        self.names = [f"f{j}" for j in range(d)]

    def chunk(self, i):
        """Chunk i: rows, and labels with a minority of 1 %."""
        rng, d = np.random.default_rng([7, i]), len(self.names)
        y = (rng.random(CHUNK) < 0.01).astype(int)
        if i == 0:
            y[:2] = 0, 1
        X = rng.standard_normal((CHUNK, d)) @ self.mixed + y[:, None]
        X += np.sin(i / 50.0 + np.arange(d))
        return X * self.units + self.offsets, y


def relative(one, two):
    """Largest relative distance of means and scatters, class by class, in deviations."""
    where = {label: k for k, label in enumerate(one.labels.tolist())}
    worst = 0.0
    for k, label in enumerate(two.labels.tolist()):
        j = where[label]
        size = np.sqrt(np.diagonal(two.C[k]))
        worst = max(worst, float(np.abs((one.C[j] - two.C[k]) / np.outer(size, size)).max()))
        apart = (one.anchor - two.anchor) + one.mean[j] - two.mean[k]
        worst = max(worst, float(np.abs(apart / size * np.sqrt(two.n[k])).max()))
    return worst


def prove(events, d, looks):
    """Learn so many events; worst distances of moments and scores, and events a second."""
    stream, rng = Stream(d), np.random.default_rng(11)
    moments_to_look = np.sort(rng.choice(np.arange(1_000, events), looks, replace=False))
    model, bulk, worst, wrong, seconds = RiverFace(), None, 0.0, 0, 0.0
    at = 0
    for i in range(events // CHUNK):
        X, y = stream.chunk(i)
        rows, labels = X.tolist(), y.tolist()
        dicts = [dict(zip(stream.names, row, strict=True)) for row in rows]
        start, done = time.process_time(), 0
        while done < CHUNK:
            stop = CHUNK
            if at < looks and moments_to_look[at] < (i + 1) * CHUNK:
                stop = int(moments_to_look[at]) - i * CHUNK
                at += 1
            for event, label in zip(dicts[done:stop], labels[done:stop], strict=True):
                model.predict_one(event)
                model.learn_one(event, label)
            if stop < CHUNK:
                seconds += time.process_time() - start
                seen = Moments.of(X[:stop], y[:stop]) if stop else None
                if bulk is not None:
                    seen = bulk if seen is None else bulk + seen
                refit = BalancedRidgeClassifier().partial_fit(X[:2], [0, 1])
                refit._engine.state = refit._engine.state._with(moments=seen)
                g = refit.decision_function(X[stop : stop + 1])[0]
                found = model._open.events.scores_array(X[stop])[0]
                worst = max(worst, abs(found - g) / (1.0 + abs(g)))
                wrong += model.predict_one(dicts[stop]) != int(g > 0) and abs(g) > 1e-8
                start = time.process_time()
            done = stop
        seconds += time.process_time() - start
        more = Moments.of(X, y)
        bulk = more if bulk is None else bulk + more
    return relative(model._state.moments, bulk), worst, wrong, events / seconds


if __name__ == "__main__":
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0  # of the events: less, for a trial
    rows = []
    for events, d in STREAMS:
        events = int(events * share)
        moments, scores, wrong, rate = prove(events, d, LOOKS)
        assert moments <= 1e-10, moments
        assert scores <= 1e-8, scores
        assert wrong == 0, wrong
        rows.append([f"{events:,}", d, f"{moments:.0e}", f"{scores:.0e}", wrong, f"{rate:,.0f}"])
    report.write(
        "events_proof",
        "Ten million events, exact to the end",
        "Events through river's face, `predict_one` then `learn_one` on each; 1 % minority, means "
        "that drift, units from 1e-3 to 1e3, offsets up to 1e6. The largest distance of the "
        "moments from those of all rows in bulk, in deviations, which must stay below 1e-10; of "
        f"scores from a refit's at {LOOKS:,} random moments, below 1e-8 of 1 + |f|; how many of "
        "these labels differ; and events a second of processor time. "
        + report.machine("numpy", "river"),
        report.table(["events", "d", "moments", "scores", "labels", "events a second"], rows),
    )
