"""counterpoise export: a model for others."""

from __future__ import annotations

from typing import Annotated

import typer

from counterpoise.cli import options as opt
from counterpoise.cli import words

KINDS = {"json": "json", "onnx": "onnx", "joblib": "sklearn"}


def export(
    model: Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")],
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="File to write: .json, .onnx or .joblib.", metavar="FILE"
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="json, onnx or sklearn; by default as the output is named, or json."),
    ] = None,
) -> None:
    """Export coefficients (JSON), an ONNX graph, or a fitted scikit-learn pipeline (joblib).

    The model was learned in a shell or saved from Python. Every export has both probabilities.

    JSON goes to standard output by default. ONNX needs the extra: pip install 'counterpoise[onnx]'.
    A joblib file is code to whoever loads it: give it to those who trust you.

    Example: counterpoise export fraud.safetensors --output fraud.onnx
    """
    kind = to
    if kind is None:
        kind = "json" if output is None else KINDS.get(output.rsplit(".", 1)[-1], "")
    if kind not in KINDS.values():
        raise opt.bad(
            "--to", "say json, onnx or sklearn, or name the output .json, .onnx or .joblib"
        )
    if output is None and kind != "json":
        raise opt.bad("--output", f"name a file for {kind}")

    import io
    import json

    from counterpoise.atomic import writing
    from counterpoise.jobs.export import exportable
    from counterpoise.jobs.store import require_learned
    from counterpoise.printable import finite

    stored = require_learned(exportable(model), model)
    if kind == "json":
        from counterpoise.jobs.export.json import coefficients

        data = (json.dumps(finite(coefficients(stored)), indent=2) + "\n").encode()
    elif kind == "onnx":
        from counterpoise.jobs.export.onnx import graph

        data = graph(stored)
    else:
        import joblib

        from counterpoise.jobs.export.pipeline import fitted

        buffer = io.BytesIO()
        joblib.dump(fitted(stored), buffer)
        data = buffer.getvalue()
    if output is None:
        print(data.decode(), end="")
    else:
        with writing(output, "the export") as file:
            file.write(data)
        words.say(f"{output}: {len(stored.encoding.features):,} features")
