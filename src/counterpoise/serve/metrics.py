"""Numbers of the service in the text format of Prometheus."""

from __future__ import annotations

import bisect
from collections import Counter
from typing import Any

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)  # seconds
GAUGES = {
    "pending_events": "Events that wait for their labels.",
    "waiting_labels": "Labels that wait for their events.",
    "learned_events": "Events that were learned through the store.",
    "unsaved_changes": "Changes of the model that its file does not contain yet.",
}


class Metrics:
    """Requests by endpoint, status and duration."""

    def __init__(self) -> None:
        self.requests = Counter[tuple[str, int]]()
        self._durations: dict[str, list[int]] = {}
        self._seconds = Counter[str]()

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests[path, status] += 1
        counts = self._durations.setdefault(path, [0] * (len(BOUNDS) + 1))
        counts[bisect.bisect_left(BOUNDS, seconds)] += 1
        self._seconds[path] += seconds  # type: ignore[assignment]

    def text(self, backend: Any) -> str:
        """Return all numbers."""
        lines: list[str] = []

        def add(name: str, kind: str, about: str, values: dict[str, Any]) -> None:
            lines.append(f"# HELP counterpoise_{name} {about}")
            lines.append(f"# TYPE counterpoise_{name} {kind}")
            lines.extend(f"counterpoise_{name}{label} {value}" for label, value in values.items())

        status = backend.status
        requests = {
            _labels(path=path, status=code): n for (path, code), n in sorted(self.requests.items())
        }
        add("requests_total", "counter", "Requests.", requests)
        self._add_durations(lines)
        for name, about in GAUGES.items():
            if name in status:
                add(name, "gauge", about, {"": status[name]})
        classes = {_labels(label=name): n for name, n in status["classes"].items()}
        add("class_weight", "gauge", "Weight of the learned rows of each class.", classes)
        quality = {
            _labels(label=true, prediction=predicted): n
            for (true, predicted), n in sorted(status["quality"].items(), key=str)
        }
        about = "Labels by the prediction that was given before."
        add("labeled_predictions_total", "counter", about, quality)
        add("ready", "gauge", "1 if the last change was written.", {"": int(not backend.problem)})
        if hasattr(backend, "groups"):
            add("groups_total", "counter", "Groups of requests.", {"": backend.groups})
            rows = {"": backend.grouped_rows}
            add("grouped_rows_total", "counter", "Rows of these groups.", rows)
            seconds = {"": f"{backend.group_seconds:.6f}"}
            add("group_seconds_total", "counter", "Seconds that groups took.", seconds)
        return "\n".join([*lines, ""])

    def _add_durations(self, lines: list[str]) -> None:
        """Add the histogram of durations."""
        name = "counterpoise_request_seconds"
        lines += [f"# HELP {name} Duration of requests.", f"# TYPE {name} histogram"]
        for path, counts in sorted(self._durations.items()):
            total = 0
            for bound, n in zip((*BOUNDS, "+Inf"), counts, strict=True):
                total += n
                lines.append(f"{name}_bucket{_labels(path=path, le=bound)} {total}")
            lines.append(f"{name}_sum{_labels(path=path)} {self._seconds[path]:.6f}")
            lines.append(f"{name}_count{_labels(path=path)} {total}")


def _labels(**values: Any) -> str:
    """Return labels as Prometheus writes them."""
    shown = []
    for name, value in values.items():
        text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        shown.append(f'{name}="{text}"')
    return "{" + ",".join(shown) + "}"
