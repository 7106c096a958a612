"""10,000 real signals into calls that succeed and calls that fail: no model may be lost.

Every model must be, bit by bit, as before the call or as after it.
"""

import argparse
import warnings

import numpy as np
from estimators.test_interrupts import CALLS, strike

from benchmarks import report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=int, default=10_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rng, rows = np.random.default_rng(0), []
    each = -(-options.signals // len(CALLS))
    for name in CALLS:
        hits, undone = strike(name, each, rng)
        rows.append([name, f"{hits:,}", f"{undone:,}", 0])
        print(rows[-1], flush=True)
    total = each * len(CALLS)
    report.write(
        "interrupts",
        "Signals into calls",
        report.machine("numpy", "scikit-learn", "river"),
        f"{total:,} signals (SIGALRM, whose handler raises as Ctrl-C does), each at a random "
        "moment of a call that learns, unlearns or fails. *As before* counts the models that were "
        "bit by bit as before the call, the others were as after it; *lost* those that were "
        "neither.",
        report.table(["call", "signals", "as before", "lost"], rows),
    )


if __name__ == "__main__":
    main()
