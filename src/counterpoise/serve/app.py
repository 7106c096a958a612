"""Endpoints, as an ASGI application.

Requests are checked by hand, given to the writer, and answered after its commit.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import orjson
import pyarrow as pa

from counterpoise.errors import ConflictError, DataError, finite, printable
from counterpoise.readers.chunk import ReadPosition
from counterpoise.readers.columnar import ArrowBytes
from counterpoise.serve import openapi
from counterpoise.serve.metrics import Metrics
from counterpoise.serve.tokens import ROLES, Caller, Tokens
from counterpoise.serve.writer import (
    ERASE,
    INSPECT,
    LABEL,
    LEARN,
    PREDICT,
    SHOW,
    QueueFullError,
)
from counterpoise.tables.checked_database import StorageError
from counterpoise.tables.event_chunks import to_bytes

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
TABLE_ROWS = 8_192  # of an Arrow stream that are converted at a time
FIELD = re.compile("column '([^']*)'")  # in messages about columns
LOOPBACK = ("localhost", "127.0.0.1", "::1")
EVENTS = "/events/"  # before an id
FOLDER = Path(__file__).parent / "assets"
ASSETS = {
    "/": ("page.html", b"text/html; charset=utf-8"),
    "/page.js": ("page.js", b"text/javascript; charset=utf-8"),
    "/style.css": ("style.css", b"text/css; charset=utf-8"),
}
LIVE_SECONDS, TICK_SECONDS = 2.0, 0.25  # between parts of the stream, and checks of its end
LOCAL_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
RETRY = b"retry-after", b"1"
CONTENT_POLICY = (
    b"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    b"img-src 'self' data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", CONTENT_POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
TITLES = {
    400: "Malformed request",
    401: "No valid token",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Slow request",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported content",
    422: "Unusable data",
    429: "Too many requests",
    500: "Internal error",
    503: "Not available",
}


Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Backend(Protocol):
    """Writer, or read-only replica, that answers requests."""

    status: dict[str, Any]
    problem: str | None

    def submit(self, kind: str, rows: Sequence[Any]) -> asyncio.Future[Any]:
        """Return the future answer of a request."""

    def stop(self) -> None:
        """Answer all requests that have come, and end."""


@dataclass(frozen=True)
class Limits:
    """Limits of requests."""

    body: int = 16 << 20  # bytes
    rows: int = 10_000  # of a batch of JSON
    table_rows: int = 100_000  # of an Arrow stream
    seconds: float = 10.0  # in which a body must arrive
    rate: float = 10_000.0  # requests per second and caller


class ProblemError(Exception):
    """A problem with a request, see RFC 9457."""

    def __init__(self, status: int, detail: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(detail)
        self.status, self.headers = status, headers


class Request:
    """Request as ASGI has it."""

    def __init__(self, scope: Mapping[str, Any], receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.receive = receive
        self._headers = dict(scope["headers"])

    def header(self, name: bytes) -> str:
        """Return a header, or an empty text."""
        value: bytes = self._headers.get(name, b"")
        return value.decode("latin-1")


class Response(NamedTuple):
    """Answer to a request."""

    body: bytes
    status: int = 200
    kind: bytes = JSON.encode()
    headers: tuple[tuple[bytes, bytes], ...] = ()
    stream: Callable[[], Awaitable[bytes]] | None = None  # returns the next part before the body


class Endpoint(NamedTuple):
    """Method, role and function of a path."""

    method: str
    role: str | None  # "any" of the roles, or None for no token
    answer: Callable[[Request, Caller], Awaitable[Response]]


class Service:
    """The endpoints, as an ASGI application."""

    def __init__(
        self,
        backend: Backend,
        document: dict[str, Any],
        tokens: Tokens | None = None,
        limits: Limits | None = None,
        audit: str | None = None,
    ) -> None:
        self.backend = backend
        self._document, self._tokens = document, tokens  # None if every local caller is trusted
        self._limits, self._audit = limits or Limits(), audit
        self._metrics, self._local = Metrics(), Caller("local", frozenset(ROLES))
        self._endpoints = {
            "/predict": Endpoint("POST", "predict", self._predict),
            "/label": Endpoint("POST", "label", self._label),
            "/learn": Endpoint("POST", "label", self._learn),
            EVENTS: Endpoint("DELETE", "admin", self._erase),
            "/model": Endpoint("GET", "any", self._model),
            "/metrics": Endpoint("GET", "any", self._count),
            "/healthz": Endpoint("GET", None, self._health),
            "/readyz": Endpoint("GET", None, self._ready),
            "/openapi.json": Endpoint("GET", None, self._openapi),
            "/docs": Endpoint("GET", None, self._docs),
            "/live": Endpoint("GET", "any", self._live),
            **{path: Endpoint("GET", None, self._asset) for path in ASSETS},
        }
        self._assets = {path: (FOLDER / name).read_bytes() for path, (name, _) in ASSETS.items()}
        self.is_closing: Callable[[], bool] = lambda: False

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request, and report each problem as a document."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close"})
            return
        begin, request = time.perf_counter(), Request(scope, receive)
        path = EVENTS if request.path.startswith(EVENTS) else request.path
        endpoint = self._endpoints.get(path)
        try:
            if endpoint is None:
                path = "other"
                raise ProblemError(404, "no endpoint has this path; see /docs")
            if request.method != endpoint.method:
                text = f"{path} requires the method {endpoint.method}; see /docs"
                raise ProblemError(405, text, (b"allow", endpoint.method.encode()))
            response = await endpoint.answer(request, self._caller(request, endpoint.role))
        except ConnectionError:
            return
        except Exception as error:
            response = _as_problem(error)
        self._metrics.count(path, response.status, time.perf_counter() - begin)
        length = b"content-length", b"%d" % len(response.body)
        lengths = (length,) if response.stream is None else ()
        headers = [(b"content-type", response.kind), *lengths, *response.headers, *HEADERS]
        start = {"type": "http.response.start", "status": response.status, "headers": headers}
        await send(start)
        if response.stream is not None:
            await self._send_stream(response.stream, receive, send)
        await send({"type": "http.response.body", "body": response.body})

    async def _send_stream(
        self, stream: Callable[[], Awaitable[bytes]], receive: Receive, send: Send
    ) -> None:
        """Send parts of a stream until the caller or the service ends it."""
        end = asyncio.ensure_future(_wait_for_end(receive))
        try:
            while not end.done() and not self.is_closing():
                part = await stream()
                await send({"type": "http.response.body", "body": part, "more_body": True})
                for _ in range(round(LIVE_SECONDS / TICK_SECONDS)):
                    if end.done() or self.is_closing():
                        break
                    await asyncio.sleep(TICK_SECONDS)
        finally:
            end.cancel()

    # Callers

    def _caller(self, request: Request, role: str | None) -> Caller:
        """Return the caller, who must have a role."""
        caller = self._local
        if self._tokens is None:
            if not LOCAL_HOST.fullmatch(request.header(b"host")):  # a name on a web page
                raise ProblemError(403, "without tokens the service answers loopback names only")
        elif role is not None:
            scheme, _, token = request.header(b"authorization").partition(" ")
            found = self._tokens.find(token.strip()) if scheme.lower() == "bearer" else None
            if found is None:
                challenge = b"www-authenticate", b"Bearer"
                text = "give a valid token as Authorization: Bearer TOKEN"
                raise ProblemError(401, text, challenge)
            caller = found
            if role != "any" and not caller.has_role(role):
                raise ProblemError(403, f"{caller.name} does not have the role {role!r}")
        if role is not None and not caller.take(self._limits.rate):
            text = f"more than {self._limits.rate:,.0f} requests per second"
            raise ProblemError(429, text, RETRY)
        return caller

    # Content

    async def _read_rows(self, request: Request) -> tuple[list[Any], bool]:
        """Return the rows of a request, and whether it is a batch."""
        kind = request.header(b"content-type").partition(";")[0].strip().lower()
        if kind != JSON:
            raise ProblemError(415, f"the content type must be {JSON}; got {kind[:60]!a}")
        data = await self._read_body(request)
        try:
            content = orjson.loads(data)
        except ValueError as error:
            raise ProblemError(400, f"not JSON: {str(error)[:200]}") from None
        is_batch = isinstance(content, list)
        rows = content if is_batch else [content]
        if not rows:
            raise ProblemError(422, "an empty batch; give at least one object")
        if len(rows) > self._limits.rows:
            raise ProblemError(413, f"{len(rows):,} rows are more than {self._limits.rows:,}")
        return rows, is_batch

    def _read_table(self, data: bytes) -> list[Any]:
        """Return the rows of an Arrow stream, with values as JSON has them."""
        rows: list[Any] = []
        source = ArrowBytes(data, "the input")
        for chunk in source.chunks(TABLE_ROWS, ReadPosition(), {}, lambda name: True):
            rows += pa.table(chunk.columns).to_pylist()
            if len(rows) > self._limits.table_rows:
                most = self._limits.table_rows
                raise ProblemError(413, f"the table has more than {most:,} rows")
        if not rows:
            raise ProblemError(422, "an empty table; give at least one row")
        return rows

    async def _read_body(self, request: Request) -> bytes:
        """Return the content, which must be short and come in time."""
        if request.header(b"content-encoding").lower() not in ("", "identity"):
            raise ProblemError(415, "compressed content is not accepted")
        too_large = ProblemError(413, f"the content is larger than {self._limits.body:,} bytes")
        length = request.header(b"content-length")
        if length.isdigit() and (len(length) > 18 or int(length) > self._limits.body):
            raise too_large
        parts, size, is_late = list[bytes](), 0, False
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def expire() -> None:
            nonlocal is_late
            is_late = True
            task.cancel()

        timer = loop.call_later(self._limits.seconds, expire)
        try:
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionResetError
                part: bytes = message.get("body", b"")
                size += len(part)
                if size > self._limits.body:
                    raise too_large
                if not message.get("more_body"):
                    return part if not parts else b"".join([*parts, part])
                parts.append(part)
        except asyncio.CancelledError:
            if not is_late:
                raise
            task.uncancel()
            text = f"the content did not arrive within {self._limits.seconds:g} seconds"
            raise ProblemError(408, text) from None
        finally:
            timer.cancel()

    # Endpoints

    async def _predict(self, request: Request, caller: Caller) -> Response:
        if request.header(b"content-type").strip().lower() == ARROW:
            data = await self._read_body(request)
            table = await asyncio.to_thread(self._read_table, data)
            answers = await self.backend.submit(PREDICT, table)
            return Response(await asyncio.to_thread(_write_table, answers), kind=ARROW.encode())
        rows, is_batch = await self._read_rows(request)
        texts = await self.backend.submit(PREDICT, rows)
        return Response((f"[{','.join(texts)}]" if is_batch else texts[0]).encode())

    async def _label(self, request: Request, caller: Caller) -> Response:
        return await self._change(request, LABEL)

    async def _learn(self, request: Request, caller: Caller) -> Response:
        return await self._change(request, LEARN)

    async def _change(self, request: Request, kind: str) -> Response:
        rows, is_batch = await self._read_rows(request)
        found = [{"result": one} for one in await self.backend.submit(kind, rows)]
        return _json(found if is_batch else found[0])

    async def _erase(self, request: Request, caller: Caller) -> Response:
        (result,) = await self.backend.submit(ERASE, [request.path.removeprefix(EVENTS)])
        if result is None:
            raise ProblemError(404, "no event has this id")
        if self._audit is not None:
            await asyncio.to_thread(write_audit, self._audit, caller.name, result)
        return _json({"result": "erased", "was": result})

    async def _model(self, request: Request, caller: Caller) -> Response:
        (description,) = await self.backend.submit(INSPECT, [None])
        return _json(description)

    async def _count(self, request: Request, caller: Caller) -> Response:
        text = self._metrics.text(self.backend)
        return Response(text.encode(), kind=b"text/plain; version=0.0.4; charset=utf-8")

    async def _health(self, request: Request, caller: Caller) -> Response:
        return _json({"status": "ok"})

    async def _ready(self, request: Request, caller: Caller) -> Response:
        if self.backend.problem is not None:
            raise ProblemError(503, "the last change could not be written; see the log", RETRY)
        return _json({"status": "ok"})

    async def _openapi(self, request: Request, caller: Caller) -> Response:
        return _json(self._document)

    async def _docs(self, request: Request, caller: Caller) -> Response:
        return Response(openapi.page(self._document).encode(), kind=b"text/html; charset=utf-8")

    async def _asset(self, request: Request, caller: Caller) -> Response:
        return Response(self._assets[request.path], kind=ASSETS[request.path][1])

    async def _live(self, request: Request, caller: Caller) -> Response:
        async def show() -> bytes:
            (found,) = await self.backend.submit(SHOW, [None])
            return b"data: " + orjson.dumps(finite(found)) + b"\n\n"

        await show()  # a problem is a document, not a part of a stream
        return Response(b"", kind=b"text/event-stream", stream=show)


async def _wait_for_end(receive: Receive) -> None:
    """Wait until the caller ends a request."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _write_table(answers: Sequence[str]) -> bytes:
    """Return answers as an Arrow stream."""
    return to_bytes(pa.Table.from_pylist(list(map(orjson.loads, answers))), is_short=True)


def _json(content: Any) -> Response:
    return Response(orjson.dumps(content))


def _problem(status: int, detail: str, headers: tuple[Any, ...] = (), **more: Any) -> Response:
    """Return a problem document."""
    text = printable(detail).encode(errors="replace").decode()
    content = {"title": TITLES.get(status, "Problem"), "status": status, "detail": text, **more}
    return Response(json.dumps(content).encode(), status, b"application/problem+json", headers)


def _as_problem(error: Exception) -> Response:
    """Return the problem document of an error."""
    if isinstance(error, ProblemError):
        return _problem(error.status, str(error), error.headers)
    if isinstance(error, QueueFullError):
        return _problem(503, "too many requests wait; send it again later", (RETRY,))
    if isinstance(error, (StorageError, OSError)):
        text = "the change could not be written; send it again later"
        return _problem(503, text, (RETRY,))
    if isinstance(error, DataError):
        named = FIELD.search(str(error))
        place = {"row": error.row, "field": error.field or (named and named[1])}
        known: dict[str, Any] = {name: value for name, value in place.items() if value is not None}
        return _problem(409 if isinstance(error, ConflictError) else 422, str(error), **known)
    traceback.print_exception(error, file=sys.stderr)
    return _problem(500, "the service has an error of its own; see its log")


def write_audit(path: str, name: str, was: str) -> None:
    """Append a line about an erasure, without the id, to a file that only its owner reads."""
    line = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "by": name, "was": was}
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    descriptor = os.open(path, flags, 0o600)
    try:
        os.write(descriptor, (json.dumps(line) + "\n").encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
