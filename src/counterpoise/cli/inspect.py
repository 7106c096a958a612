"""counterpoise inspect: what is in a model file."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from counterpoise.cli.table import Json, show, show_json

ENDS = 4  # inputs shown at either end of a long list


def inspect(
    model: Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")],
    most: Annotated[int, typer.Option(help="Weights, or features, to show.", metavar="N")] = 15,
    as_json: Json = False,
) -> None:
    """Show classes, counts, options, the largest weights, and what was learned from where.

    Weights are for features of standard deviation 1. Two classes, or several with --multi-class
    ovr, have standard errors and 95 % intervals of them, unless there is a map, --pooling or
    --half-life. They assume rows that are normal within each class. Mean and standard deviation
    of these features over all rows follow, and the mean of each class. A model with --pooling has
    no weights: mean and standard deviation of each class are shown instead, of the features in
    which the classes differ most. The calibration error is how far the stream's probabilities
    of rows that were scored before they were learned were from what was observed, and how far they
    are as corrected. Of many inputs the first and the last are shown; --json has
    all of them.

    Example: counterpoise inspect fraud.safetensors
    """
    from counterpoise.jobs.begin import shown
    from counterpoise.jobs.file import stored_model
    from counterpoise.jobs.inspect import described

    found = described(stored_model(model))
    if as_json:
        show_json(found)
        return
    what = "term" if found["options"]["features"] else "feature"
    facts: list[list[Any]] = [
        [f"{what}s", len(found["densities" if found["weights"] is None else "weights"])],
        ["ridge used", found["ridge"]],
        ["condition number", found["condition"]],
        *([["positive class", found["positive"]]] if found["positive"] else []),
        *_calibration(found["calibration"]),
        *([f"rows clipped by {name}", rows] for name, rows in found["clipped"].items() if rows),
        *_certain(found),
        *([name, shown(value)] for name, value in found["options"].items()),
        *([name, shown(value)] for name, value in found["columns"].items() if _said(name, value)),
    ]
    show(["what", "value"], facts)
    print()
    if found["candidates"]:
        shares = found["shares"]
        judged = [[name, *best, shares.get(name)] for name, best in found["candidates"].items()]
        judged += [
            [name, f"dropped after {rows:,} rows", "", ""]
            for name, rows in found["dropped"].items()
        ]
        show(["candidate", "G-mean", "at ridge", "share of the average"], judged)
        print()
    show(["class", "weight"], [[str(k), v] for k, v in found["classes"].items()])
    print()
    inputs = [[key, r["rows"], r["dropped"]] for key, r in found["inputs"].items()]
    show(["learned from", "rows", "of which dropped"], _folded(inputs))
    print()
    if found["weights"] is None:
        head = [
            what,
            *(f"{of} of {label}" for label in found["scores"] for of in ("mean", "spread")),
        ]
        rows = [
            [name, *(x for pair in zip(one["mean"], one["deviation"], strict=True) for x in pair)]
            for name, one in found["densities"].items()
        ]
        show(head, rows[:most])
        return
    show(*_weights(found, what, most))
    if found["means"]:
        print()
        show(*_means(found, what, most))


def _weights(found: dict[str, Any], what: str, most: int) -> tuple[list[str], list[list[Any]]]:
    """The largest weights, with their standard errors and intervals if there are any."""
    head, rows = [what], [[name] for name in list(found["weights"])[:most]]
    for q, label in enumerate(found["scores"]):
        head.append(f"for {label}")
        head += ["std. error", "95 % from", "to"] if found["errors"] else []
        for row in rows:
            row.append(found["weights"][row[0]][q])
            if found["errors"]:
                row += [found["errors"][row[0]][q], *found["intervals"][row[0]][q]]
    return head, rows


def _means(found: dict[str, Any], what: str, most: int) -> tuple[list[str], list[list[Any]]]:
    """Mean and standard deviation of the same features, over all rows and of each class."""
    head = [what, "mean", "std. deviation", *(f"mean of {label}" for label in found["means_of"])]
    rows: list[list[Any]] = []
    for name in list(found["weights"])[:most]:
        one = found["means"][name]
        rows.append([name, one["mean"], one["deviation"], *one["by_class"]])
    return head, rows


def _calibration(found: dict[str, Any] | None) -> list[list[Any]]:
    """Return the calibration error, if rows were scored."""
    if found is None:
        return []
    return [
        ["calibration rows", found["rows"]],
        ["calibration error", found["error"]],
        ["as corrected", found["corrected"]],
    ]


def _certain(found: dict[str, Any]) -> list[list[Any]]:
    """What the standard errors assume, or why there are none."""
    if found["errors"] is None:
        note = found["note"] or ""
        return [["standard errors", note.replace("No standard errors", "none").rstrip(".")]] * bool(
            note
        )
    return [["standard errors", "for rows that are independent, and normal within each class"]]


def _folded(inputs: list[list[Any]]) -> list[list[Any]]:
    """The first and the last inputs, and the sums of those between them if there are many."""
    if len(inputs) <= 2 * ENDS + 1:
        return inputs
    between = inputs[ENDS:-ENDS]
    sums = [sum(row[j] for row in between) for j in (1, 2)]
    return [*inputs[:ENDS], [f"({len(between):,} more)", *sums], *inputs[-ENDS:]]


def _said(name: str, value: Any) -> bool:
    """Whether somebody has said something of the columns."""
    return bool(value) and (name, value) != ("decimal", ".")
