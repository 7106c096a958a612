"""A read-only service: predictions of a model file, which it reads again when it has changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from counterpoise.errors import DataError
from counterpoise.serve.writer import INSPECT, PREDICT
from counterpoise.tables.delayed_labels import drop_id
from counterpoise.tables.event_chunks import texts_by_id
from counterpoise.tables.event_store import PredictionSettings, answer_events, predictor_of
from counterpoise.tables.model import TableModel
from counterpoise.tables.predict import Predictor


class Replica:
    """Backend that follows a model file and stores nothing."""

    def __init__(
        self,
        path: str,
        id: str,  # noqa: A002
        loop: asyncio.AbstractEventLoop,
        settings: PredictionSettings,
    ) -> None:
        self.id = id
        self.problem: str | None = None
        self._path, self._loop, self._settings = path, loop, settings
        self._pool = ThreadPoolExecutor(1, "replica")
        self._file: tuple[int, int, int] | None = None
        self._refresh()

    def submit(self, kind: str, rows: Sequence[Any]) -> asyncio.Future[Any]:
        """Return the future answer of a request, which must not change anything."""
        if kind not in (PREDICT, INSPECT):
            future: asyncio.Future[Any] = self._loop.create_future()
            future.set_exception(DataError("the service is read-only; send this to the writer"))
            return future
        return self._loop.run_in_executor(self._pool, self._answer, kind, rows)

    def stop(self) -> None:
        """Answer all requests that have come, and end."""
        self._pool.shutdown()

    def _answer(self, kind: str, rows: Sequence[Any]) -> list[Any]:
        self._refresh()
        if kind == INSPECT:
            return [self.description]
        texts = texts_by_id(self.id, rows)
        return [row.answer for row in answer_events(self._predictor, self._model, self.id, texts)]

    def _refresh(self) -> None:
        """Read the model file if it is another one than before; keep the old model if it is bad."""
        found = os.stat(self._path)
        now = found.st_ino, found.st_size, found.st_mtime_ns
        if now == self._file:
            return
        columns = drop_id({}, self.id, self._path)
        model = TableModel.open(self._path, columns, {}).require_learned()
        self._model, self._file = model, now
        self._predictor: Predictor = predictor_of(model, self._settings)
        classes = {str(name): n for name, n in model.class_counts.items()}
        version = model.store_mark.hash[:16] or "0" * 16
        self.status: dict[str, Any] = {"version": version, "classes": classes, "quality": {}}
        used = model.encoding.columns
        kinds = sorted(model.encoding.kinds.items())
        self.description = {
            **self.status,
            "id": self.id,
            "label": used.label,
            "positive": str(model.positive),
            "features": len(model.encoding.features),
            "columns": {name: kind for name, kind in kinds if used.feature(name)},
            "quality": [],
        }
