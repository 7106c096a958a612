"""counterpoise serve: a model that predicts and learns over HTTP."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

from counterpoise.cli import messages
from counterpoise.cli import options as opt
from counterpoise.cli.learn import missing_store
from counterpoise.cli.predict import AlertOptions, hint_calibration
from counterpoise.errors import DataError

TOKENS = "COUNTERPOISE_TOKENS"


@dataclass
class NetworkOptions:
    """Options of the address and the callers."""

    panel: ClassVar[str] = "Network"
    host: str = opt.option("Address to listen on.", "ADDRESS", default="127.0.0.1")
    port: int = opt.option("Port to listen on; 0 for any.", "N", default=8080, limits=(0, 65535))
    tokens: str | None = opt.option(
        f"File of callers: NAME ROLES HASH in each line (default: the variable {TOKENS}).", "FILE"
    )
    max_body: int = opt.option("Largest request, in MB.", "MB", default=16, limits=(1, 1024))
    max_batch: int = opt.option("Most rows of a request.", "N", default=10_000, limits=opt.POSITIVE)
    max_rate: int = opt.option(
        "Most requests per second of a caller.", "N", default=10_000, limits=opt.POSITIVE
    )

    def read_tokens(self) -> Any:
        """Return the tokens of the file or the environment; None if there are none."""
        from counterpoise.serve.tokens import Tokens

        if self.tokens is not None:
            with open(self.tokens, encoding="utf-8") as file:
                tokens = Tokens(file, self.tokens)
        elif os.environ.get(TOKENS, "").strip():
            tokens = Tokens(os.environ[TOKENS].splitlines(), TOKENS)
        else:
            return None
        if not len(tokens):
            raise DataError(f"--tokens: {self.tokens or TOKENS} has no tokens; add one")
        return tokens


@dataclass
class ServeOptions:
    """Options of events and answers."""

    panel: ClassVar[str] = "Events"
    id: str | None = opt.option("Field that joins events and labels.", "FIELD", "--id")
    keep: bool = opt.option(
        "Keep learned events, so that labels can be revised and events erased.", default=False
    )
    expire: str | None = opt.option(
        "Delete events without labels, and labels without events, after this time.", "90d"
    )
    save_every: str = opt.option("Time between saves of the model.", "60s", default="60s")
    explain: int | None = opt.option(
        "Name the N columns that contribute most to the score.", "N", limits=(1, 100)
    )
    explore: float | None = opt.option(
        "Drop this share of alerts at random, so that their labels come.", "SHARE"
    )
    read_only: bool = opt.option(
        "Store nothing, and follow the model file of another service.", default=False
    )

    def seconds(self, name: str) -> float | None:
        """Return a time in seconds."""
        from counterpoise.moments.decay import parse_time_span

        value = getattr(self, name)
        found = None if value is None else parse_time_span(value)
        if value is not None and found is None:
            option = name.replace("_", "-")
            raise DataError(f"--{option} must be a time such as 60s, 12h or 90d; got {value!r}")
        return found


def serve(
    model: opt.ModelFile,
    *,
    events: ServeOptions,
    network: NetworkOptions,
    alerts: AlertOptions,
) -> None:
    """Serve a model over HTTP: predict events now, learn them when their labels come.

    Events that were predicted are stored next to the model, and an answer leaves when its change is
    on the disk. Without tokens the service listens on loopback addresses only. /docs lists the
    endpoints.

    Example: counterpoise serve fraud.safetensors --id payment --explain 3

    A replica: counterpoise serve fraud.safetensors --id payment --read-only --port 8081
    """
    rule_name, expire, save = (
        alerts.selected_rule(),
        events.seconds("expire"),
        events.seconds("save_every"),
    )
    if rule_name == "top-per-day":
        raise DataError("--top-per-day requires all rows of a day; use --alerts-per-day")
    if events.explore is not None and not 0.0 < events.explore < 1.0:
        raise DataError(f"--explore must be between 0 and 1; got {events.explore:g}")
    if events.explore is not None and not rule_name:
        raise DataError("--explore requires a rule of alerts, such as --threshold")
    if events.read_only and events.id is None:
        raise DataError("--read-only requires --id")
    try:
        from counterpoise.serve.app import Limits
        from counterpoise.serve.server import (
            ServerSettings,
            require_private,
            serve_file,
            serve_store,
        )
    except ModuleNotFoundError as error:
        text = f"serve requires {error.name}: pip install 'counterpoise[serve]'"
        raise DataError(text) from None
    from counterpoise.tables.event_database import has_store
    from counterpoise.tables.event_store import EventStore, PredictionSettings
    from counterpoise.tables.records import PENDING

    settings = ServerSettings(
        network.host,
        network.port,
        network.read_tokens(),
        Limits(network.max_body << 20, network.max_batch, rate=float(network.max_rate)),
        f"{model}.audit",
        save or 60.0,
        expire,
    )
    require_private(settings)
    stored = opt.load_model(model).require_learned()
    positive = opt.select_positive(alerts.positive, stored.class_counts, stored.positive)
    if rule_name == "cost-miss":
        hint_calibration(stored.model)
    rule = alerts.rule(stored, positive) if rule_name else None
    predictions = PredictionSettings(
        rule, events.explain or 0, events.explore or 0.0, str(positive)
    )

    def announce(server: Any, address: str) -> None:
        access = "loopback only, without tokens" if settings.tokens is None else "with tokens"
        messages.info(f"{model}: serving at {address} ({access})")

    if events.read_only:
        serve_file(model, events.id or "", predictions, settings, announce)
        return
    if PENDING in stored.records and not has_store(model):
        messages.info(f"warning: {missing_store(model)}, or continue without its events and ids")
    store = EventStore(model, events.id, events.keep)
    store.set_predictions(predictions)
    serve_store(store, settings, announce)
    messages.info(f"{model}: saved")
