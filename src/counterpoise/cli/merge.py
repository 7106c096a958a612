"""counterpoise merge: one model of several."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from counterpoise.cli import options as opt
from counterpoise.cli import words
from counterpoise.cli.table import Json


def merge(
    models: Annotated[list[str], typer.Argument(help="Model files.", metavar="MODELS")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Model file to write.", metavar="FILE")
    ],
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Merge models that have learned the same file.")
    ] = False,
    positive: opt.Positive = None,
    as_json: Json = False,
) -> None:
    """Make one model of several, as if it had learned everything that they have.

    Example: counterpoise merge eu.safetensors us.safetensors --output world.safetensors
    """
    if len(models) < 2:
        raise opt.bad("MODELS", "give at least two")

    from counterpoise.cli.learn import counts_of, show_summary
    from counterpoise.jobs.file import save, stored_model
    from counterpoise.jobs.learn import rarest
    from counterpoise.jobs.lock import locked
    from counterpoise.jobs.merge import merged, moved, require_own_stores
    from counterpoise.streams import DataError

    with locked(output):
        notes = require_own_stores(models, output)
        whole = moved(stored_model(models[0]), models[0], output)
        for path in models[1:]:
            other = moved(stored_model(path), path, output)
            whole = merged(whole, other, (models[0], path), allow_overlap, positive)
        counts = dict(
            zip(whole.model.classes_.tolist(), whole.model.class_count_.tolist(), strict=True)
        )
        if whole.positive is None and positive is not None:
            raise DataError(
                f"--positive is {positive!r}, which is not one of {', '.join(map(str, counts))}"
            )
        if whole.positive is None and len(counts) > 1:
            whole = replace(whole, positive=rarest(counts))
        save(output, whole)
    for note in notes:
        words.say(note)
    words.say(f"{output}: {counts_of(whole.model)}")
    if as_json:
        inputs = {key: {"rows": record.mark.rows} for key, record in whole.records.items()}
        show_summary(output, whole.model, inputs, positive=whole.positive)
