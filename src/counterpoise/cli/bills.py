"""What decisions have cost, as a table."""

from __future__ import annotations

from typing import Any

from counterpoise.jobs.verdict import Bill


def rows_of(bill: Bill, served: bool) -> list[list[Any]]:
    """Rows of a table about a bill.

    Parameters
    ----------
    bill : Bill
        What decisions have cost.
    served : bool
        Whether alerts are as they were served, or by price.

    Returns
    -------
    list of list
    """
    curve = bill.curve
    by = "as served" if served else "by price"
    at = [] if bill.at is None or served else [["alert where the probability is at least", bill.at]]
    return [
        *at,
        [f"cost {by}", bill.cost],
        ["alerts", bill.alerts],
        ["false alarms", bill.alarms],
        ["misses", bill.misses],
        ["cost of never alerting", curve.never],
        ["cost of the best single threshold", curve.least],
        [
            "the best single threshold, chosen afterwards",
            None if curve.best == float("inf") else curve.best,
        ],
    ]


def plain(bill: Bill) -> dict[str, Any]:
    """Return a bill, ready for JSON.

    Parameters
    ----------
    bill : Bill
        What decisions have cost.

    Returns
    -------
    dict
    """
    return {
        "cost": bill.cost,
        "alerts": bill.alerts,
        "alarms": bill.alarms,
        "misses": bill.misses,
        "threshold": bill.at,
        "never": bill.curve.never,
        "best": bill.curve.least,
        "best_threshold": None if bill.curve.best == float("inf") else bill.curve.best,
    }
