"""Numbers of the last hour by minute, and the last alerts, for the page of the service."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterpoise.evaluate.metrics import Confusion
from counterpoise.tables.event_store import EventStore
from counterpoise.tables.inspect import standardized_coefficients

MAX_MINUTES, MAX_ALERTS, MAX_COEFFICIENTS = 60, 30, 12
SMOOTHED_MINUTES = 10  # over which rates and quality are summed
SLOW_SECONDS = 10.0  # between two times that coefficients and ages are computed
MAX_AGED_EVENTS = 200_000  # pending events whose ages are counted
AGES = (("under an hour", 3_600.0), ("under a day", 86_400.0), ("under a week", 604_800.0))
IS_ALERT = '"alert": true'


@dataclass
class Minute:
    """Counts of one minute."""

    at: int  # since 1970
    events: int = 0
    labels: int = 0
    alerts: int = 0  # that got their labels
    hits: int = 0  # of them, positive ones
    positive: int = 0  # labels
    risk: float = 0.0  # sum of the probabilities that were predicted for them
    confusion: Confusion = field(default_factory=Confusion)


class Monitor:
    """Counts by minute, and what the page shows."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._positive = str(store.model.positive)
        self._minutes: deque[Minute] = deque(maxlen=MAX_MINUTES)
        self._alerts: deque[dict[str, Any]] = deque(maxlen=MAX_ALERTS)
        self._slow: dict[str, Any] = {}
        self._slow_time = -SLOW_SECONDS
        store.on_label = self.add_label

    def _now(self) -> Minute:
        at = int(time.time() // 60)
        if not self._minutes or self._minutes[-1].at != at:
            self._minutes.append(Minute(at))
        return self._minutes[-1]

    def add_answers(self, texts: Sequence[str]) -> None:
        """Count events by their answers."""
        self._now().events += len(texts)
        for text in texts:
            if IS_ALERT in text:
                self._alerts.append(json.loads(text))

    def add_label(self, answer: Mapping[str, Any], label: Any) -> None:
        """Count a label of an event with this answer."""
        minute, is_positive = self._now(), str(label) == self._positive
        minute.labels += 1
        if answer.get("prediction") is None:
            return
        minute.positive += is_positive
        minute.risk += answer.get(f"proba_stream_{self._positive}") or 0.0
        minute.confusion.add(np.array([label]), np.array([answer["prediction"]]))
        if answer.get("alert"):
            minute.alerts += 1
            minute.hits += is_positive

    def show(self) -> dict[str, Any]:
        """Return what the page shows."""
        self._now()
        store, now = self._store, time.monotonic()
        if now - self._slow_time > SLOW_SECONDS:
            self._slow, self._slow_time = self._compute_slow(), now
        pending = set(store.find_pending([one[store.id] for one in self._alerts]))
        alerts = [one for one in reversed(self._alerts) if one[store.id] in pending]
        minutes = list(self._minutes)
        return {
            "id": store.id,
            "label": store.model.encoding.columns.label,
            "positive": self._positive,
            "pending": len(store),
            "waiting": store.waiting_labels,
            "learned": store.learned_ids,
            "version": store.version,
            "classes": {str(name): n for name, n in store.model.class_counts.items()},
            "minutes": [_describe(minutes[: k + 1]) for k in range(len(minutes))],
            "alerts": alerts,
            **self._slow,
        }

    def _compute_slow(self) -> dict[str, Any]:
        """Return the largest coefficients, and pending events by age."""
        names, weights, _ = standardized_coefficients(self._store.model)
        coefficients: list[Any] = []
        if weights is not None and len(weights) == 1:
            order = np.argsort(-np.abs(weights[0]))[:MAX_COEFFICIENTS]
            coefficients = [[names[j], float(weights[0, j])] for j in order.tolist()]
        ages = Counter[str]()
        if len(self._store) <= MAX_AGED_EVENTS:
            now = time.time()
            for added in self._store.pending_times():
                age = now - added
                ages[next((name for name, limit in AGES if age < limit), "older")] += 1
        return {"coefficients": coefficients, "ages": dict(ages)}


def _describe(minutes: Sequence[Minute]) -> dict[str, Any]:
    """Return the numbers of the last of some minutes, and its quality with those before it."""
    last, total = minutes[-1], Confusion()
    recent = minutes[-SMOOTHED_MINUTES:]
    for one in recent:
        total.merge(one.confusion)
    labels, alerts = sum(one.labels for one in recent), sum(one.alerts for one in recent)
    positive = sum(one.positive for one in recent)
    return {
        "at": last.at * 60,
        "events": last.events,
        "labels": last.labels,
        "g_mean": total.g_mean() if labels else None,
        "precision": sum(one.hits for one in recent) / alerts if alerts else None,
        "risk": sum(one.risk for one in recent) / labels if labels else None,
        "observed": positive / labels if labels else None,
    }
