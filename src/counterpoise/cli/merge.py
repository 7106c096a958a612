"""counterpoise merge: one model of several."""

from __future__ import annotations

from typing import Annotated

import typer

from counterpoise.cli import options as opt


def merge(
    models: Annotated[list[str], typer.Argument(help="Model files.", metavar="MODELS")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Model file to write.", metavar="FILE")
    ],
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Merge models that have learnt the same file.")
    ] = False,
    positive: opt.Positive = None,
) -> None:
    """Make one model of several, as if it had learnt everything that they have.

    Example: counterpoise merge eu.safetensors us.safetensors --output world.safetensors
    """
    if len(models) < 2:
        raise opt.bad("MODELS", "give two at least")

    from counterpoise.cli.app import say
    from counterpoise.cli.learn import counts_of
    from counterpoise.learner import locked
    from counterpoise.shards import merged, moved
    from counterpoise.stored import save, stored_model

    with locked(output):
        whole = moved(stored_model(models[0]), models[0], output)
        for path in models[1:]:
            other = moved(stored_model(path), path, output)
            whole = merged(whole, other, (models[0], path), allow_overlap, positive)
        save(output, whole)
    say(f"{output}: {counts_of(whole.model)}")
