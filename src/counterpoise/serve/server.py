"""The process of a service: it listens, and saves the model when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from counterpoise.errors import DataError
from counterpoise.serve import openapi
from counterpoise.serve.app import LOOPBACK, Limits, Service
from counterpoise.serve.replica import Replica
from counterpoise.serve.tokens import Tokens
from counterpoise.serve.writer import Writer, inspect
from counterpoise.tables.event_store import EventStore, PredictionSettings

SWITCH_SECONDS = 0.001  # after which another thread runs: the writer must not delay the loop


@dataclass(frozen=True)
class ServerSettings:
    """Address, callers and limits of a service."""

    host: str = "127.0.0.1"
    port: int = 8080
    tokens: Tokens | None = None
    limits: Limits = field(default_factory=Limits)
    audit: str | None = None  # file of erasures
    save_seconds: float = 60.0  # between two times that the model is saved
    expire_seconds: float | None = None  # after which events and labels are deleted


def serve_store(
    store: EventStore,
    settings: ServerSettings,
    on_start: Callable[[Any, str], None] = lambda *_: None,
) -> None:
    """Serve a store until a signal comes, and close it.

    ``on_start`` gets the server and its address.
    """

    def start(loop: asyncio.AbstractEventLoop) -> Service:
        writer = Writer(store, loop, settings.save_seconds, settings.expire_seconds)
        document = openapi.document(inspect(store))
        writer.start()
        return Service(writer, document, settings.tokens, settings.limits, settings.audit)

    with contextlib.closing(store):
        _serve(start, settings, on_start)


def serve_file(
    path: str,
    id: str,  # noqa: A002
    predictions: PredictionSettings,
    settings: ServerSettings,
    on_start: Callable[[Any, str], None] = lambda *_: None,
) -> None:
    """Serve predictions of a model file, and follow it, until a signal comes."""

    def start(loop: asyncio.AbstractEventLoop) -> Service:
        replica = Replica(path, id, loop, predictions)
        document = openapi.document(replica.description)
        return Service(replica, document, settings.tokens, settings.limits)

    _serve(start, settings, on_start)


def _serve(
    start: Callable[[asyncio.AbstractEventLoop], Service],
    settings: ServerSettings,
    on_start: Callable[[Any, str], None],
) -> None:
    """Listen until a signal comes."""

    async def run() -> None:
        service = start(asyncio.get_running_loop())
        try:
            config = uvicorn.Config(
                service,
                http="httptools",
                lifespan="off",
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=10,
                timeout_keep_alive=60,
            )
            server = uvicorn.Server(config)
            service.is_closing = lambda: server.should_exit
            host, port = listener.getsockname()[:2]
            on_start(server, f"http://{f'[{host}]' if ':' in host else host}:{port}")
            await server.serve([listener])
        finally:
            await asyncio.to_thread(service.backend.stop)

    require_private(settings)
    with _listen(settings.host, settings.port) as listener, _quiet_signals():
        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(run())
        finally:
            sys.setswitchinterval(before)


def require_private(settings: ServerSettings) -> None:
    """Raise if a service without tokens would listen to other machines."""
    if settings.tokens is None and not _is_loopback(settings.host):
        raise DataError(
            "without tokens the service listens on loopback addresses only; "
            f"got {settings.host!r}; name a file of tokens"
        )


def _is_loopback(host: str) -> bool:
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot listen on {host}, port {port}: {reason}; choose another") from None


@contextlib.contextmanager
def _quiet_signals() -> Iterator[None]:
    """Let signals that end the server not end the process before the model is saved."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    for one in before:
        signal.signal(one, lambda *_: None)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes the event loop: uvloop where it exists."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
