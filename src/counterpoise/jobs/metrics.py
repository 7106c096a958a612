"""Progressive metrics: each row is predicted before it is learned.

Rows are scored in pieces, each as long as what precedes it but no longer than a chunk, by a model
that has learned all that precedes the piece. Looking changes nothing that is learned.
"""

from __future__ import annotations

import json
import os

from counterpoise.encoding.encoding import Encoded
from counterpoise.evaluate.confusion import Confusion
from counterpoise.jobs.models import Model
from counterpoise.jobs.recent import progressive
from counterpoise.jobs.store import Window
from counterpoise.streams import DataError


def score(model: Model, before: int, rows: Encoded, into: Confusion) -> None:
    """Predict rows before a model that has learned ``before`` of them learns these, and count."""
    for piece, f, scores in progressive(model, before, rows):
        into.add(rows.y[piece], scores.classes.best(f))


class MetricsFile:
    """JSON lines, one for every so many rows.

    Parameters
    ----------
    path : str
        The file, which may exist: lines about rows that were not saved are cut off.
    model : str
        The model file, which each line names.
    every : int
        Rows between two lines, rounded up to whole chunks.
    rows : int
        Rows ever learned, those forgotten since included, so that the lines stay in order.
    window : Window, optional
        What the model file knows that the lines do not say yet. With it, lines come out as they
        would have if nobody had disturbed the run.
    """

    def __init__(
        self, path: str, model: str, every: int, rows: int, window: Window | None = None
    ) -> None:
        self.path, self.model, self.every = path, model, every
        self.window = Confusion()
        self._written = rows
        if window is not None:
            self._written = window.rows
            self.window.counts = {(true, said): n for true, said, n in window.counts}
        if os.path.exists(path):
            self._cut(self._written)

    def write(self, rows: int, last: bool = False) -> None:
        """Write a line if one is due after so many rows ever learned, or if it is the last."""
        due = rows // self.every > self._written // self.every
        if not (due or (last and rows > self._written)):
            return
        line = json.dumps({"model": self.model, "rows": rows, **self.window.plain()}) + "\n"
        with open(self.path, "ab", buffering=0) as file:
            file.write(line.encode())
        self.window, self._written = Confusion(), rows

    def unsaid(self, rows: int) -> Window | None:
        """Return what the model file is to know, now that the lines so far are on the disk.

        ``rows`` were ever learned. None if the last line is about the last of them.
        """
        if os.path.exists(self.path):
            with open(self.path, "ab") as file:
                os.fsync(file.fileno())
        if rows == self._written:
            return None
        counts = sorted((true, said, n) for (true, said), n in self.window.counts.items())
        return Window(self._written, tuple(counts))

    def _cut(self, rows: int) -> None:
        """Cut lines off the end that are about rows that were not saved, and half a line."""
        keep = 0
        with open(self.path, "rb") as file:
            for line in file:
                whole = line.endswith(b"\n")
                try:
                    found = json.loads(line) if whole else {}
                    ours = not whole or (found["model"] == self.model and found["rows"] >= 0)
                except (ValueError, KeyError, TypeError):
                    ours = False
                if not ours or (keep == 0 and not whole):
                    raise DataError(
                        f"{self.path} is not a metrics file of {self.model}; name another file"
                    )
                if not whole or found["rows"] > rows:
                    break
                keep += len(line)
        os.truncate(self.path, keep)
