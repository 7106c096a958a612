"""Write payments.csv, the small stream of the documents: 600 payments, 4% of them frauds."""

import csv
import sys

import numpy as np


def rows():
    rng = np.random.default_rng(7)
    for number in range(1, 601):
        fraud = rng.random() < 0.05
        amount = rng.lognormal(4.6 if fraud else 3.4, 0.7)
        country = rng.choice(["DE", "FR", "US"], p=[0.2, 0.2, 0.6] if fraud else [0.5, 0.3, 0.2])
        hour = int(rng.integers(0, 7) if fraud and rng.random() < 0.6 else rng.integers(0, 24))
        yield number, f"{amount:.2f}", country, hour, "yes" if fraud else "no"


if __name__ == "__main__":
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["payment", "amount", "country", "hour", "fraud"])
    writer.writerows(rows())
