"""Start the service with synthetic payments and labels that come later; it ends by itself.

    python examples/serve/demo.py --seconds 120

Open the address that it prints.
"""

import argparse
import heapq
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from counterpoise import TableClassifier
from counterpoise.serve import Client

COMMAND = [sys.executable, "-c", "from counterpoise.cli import main; main()"]
LEARNED, PER_SECOND, MEAN_DELAY = 3_000, 8, 20.0


def make_payment(rng, number):
    """Return a payment and its label."""
    fraud = rng.random() < 0.05
    payment = {
        "payment": f"p{number}",
        "amount": round(float(np.exp(rng.standard_normal() + 3.0 + fraud)), 2),
        "country": str(rng.choice(list("DFUX"), p=[0.4, 0.3, 0.2, 0.1])),
        "hour": int(rng.integers(0, 24)) if not fraud else int(rng.integers(0, 6)),
    }
    return payment, "yes" if fraud else "no"


def main():
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = [make_payment(rng, -number) for number in range(1, LEARNED + 1)]
    columns = {name: [row[name] for row, _ in rows] for name in ("amount", "country", "hour")}
    table = pa.table({**columns, "fraud": [label for _, label in rows]})
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "fraud.safetensors"))
        TableClassifier().fit(table, "fraud").save(path)
        arguments = ["serve", path, "--id", "payment", "--port", "0", "--explain", "2"]
        process = subprocess.Popen(
            [*COMMAND, *arguments, "--threshold", "0.8"], stderr=subprocess.PIPE, text=True
        )
        try:
            line = next(process.stderr, "")
            print(line, end="", flush=True)
            send(re.search(r"http://\S+", line)[0], rng, options.seconds)
        finally:
            process.terminate()
            process.wait()


def send(address, rng, seconds):
    """Send payments for some seconds, and their labels when they are due."""
    end, number, due = time.monotonic() + seconds, 0, []
    with Client(address) as client:
        while time.monotonic() < end:
            payment, label = make_payment(rng, number)
            answer = client.predict(payment)
            if not answer["alert"]:  # alerts wait for the clicks of a reviewer
                at = time.monotonic() + rng.exponential(MEAN_DELAY)
                heapq.heappush(due, (at, {"payment": payment["payment"], "fraud": label}))
            while due and due[0][0] <= time.monotonic():
                client.label(heapq.heappop(due)[1])
            number += 1
            time.sleep(1.0 / PER_SECOND)
        about = client.model()
    print(f"{number} payments, {about['learned_events']} labels learned")


if __name__ == "__main__":
    main()
