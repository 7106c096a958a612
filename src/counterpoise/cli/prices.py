"""Options that say what mistakes cost, for decisions and for judging them."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import typer

from counterpoise.cli import options as opt
from counterpoise.cli import words

NAME = "cost-miss"
CostMiss = Annotated[
    float | None,
    typer.Option(
        help="What a miss costs: alert where it would cost more than a false alarm.", metavar="COST"
    ),
]
CostAlarm = Annotated[
    float | None, typer.Option(help="What a false alarm costs; 1 by default.", metavar="COST")
]
CostMissColumn = Annotated[
    str | None,
    typer.Option(
        help="Column of the cost of a miss; --cost-miss is for rows without a value.",
        metavar="COLUMN",
    ),
]


class Prices(NamedTuple):
    """What mistakes cost.

    Attributes
    ----------
    alarm : float
        A false alarm.
    miss : float, optional
        Cost of a miss; with a column, of a miss in a row without a value.
    column : str, optional
        Column of what a miss of each row costs.
    """

    alarm: float
    miss: float | None
    column: str | None


def hint_calibration(options: Any) -> None:
    """Print how costs get better probabilities, if a model could be calibrated and is not.

    Parameters
    ----------
    options : object
        Options of the model; those of a ChoosingClassifier have no ``calibrate``.
    """
    if not getattr(options, "calibrate", True):
        words.say(
            "the model is not calibrated, and costs need probabilities; learn it with --calibrate"
        )


def given(miss: float | None, alarm: float | None, column: str | None) -> Prices | None:
    """Prices as given, checked; None if nobody has named any.

    Parameters
    ----------
    miss, alarm : float, optional
        As given.
    column : str, optional
        As given.

    Returns
    -------
    Prices or None
    """
    for name, value in (("--cost-miss", miss), ("--cost-alarm", alarm)):
        if value is not None and not 0.0 < value < float("inf"):
            raise opt.bad(name, f"must be a finite number above 0, not {value:g}")
    if miss is None and column is None:
        if alarm is not None:
            raise opt.bad("--cost-alarm", "say what a miss costs too, with --cost-miss")
        return None
    return Prices(1.0 if alarm is None else alarm, miss, column)
