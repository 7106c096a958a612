"""Exports against ``predict``, on every row of five public sets, for every kind of map."""

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import report

from counterpoise.datasets import VARIABLE

SETS = ["pima-diabetes", "wdbc", "spambase", "cod-rna", "ijcnn1"]
MAPS = ["linear", "poly2", "rm2", "rff:100", "rm2+rff:100", "auto"]
LEARNED = 20_000  # rows of a set, from its beginning; all of them are predicted


def counterpoise(*words):
    """Run the command, and return what it says."""
    done = subprocess.run(
        [sys.executable, "-c", "from counterpoise.cli import main; main()", *map(str, words)],
        check=True,
        capture_output=True,
    )
    return done.stdout.decode()


def outputs(path, frame):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    feed = {name: frame[[column]].to_numpy(dtype=float) for column, name in names.items()}
    start = time.perf_counter()
    label, score = session.run(["label", "score"], feed)
    return label, score.ravel(), time.perf_counter() - start


def compared(folder, file, features):
    """What was chosen, rows, labels that differ, largest distance of scores, rows a second."""
    model, graph = folder / "m.safetensors", folder / "m.onnx"
    model.unlink(missing_ok=True)
    more = [] if features == "linear" else ["--features", features]
    counterpoise("learn", folder / "some.csv", "--label", "target", "--model", model, *more)
    counterpoise("export", model, "--output", graph)
    chosen = json.loads(counterpoise("inspect", model, "--json"))["options"]["features"]
    expected = pd.read_csv(io.StringIO(counterpoise("predict", model, file)))
    label, score, seconds = outputs(graph, pd.read_csv(file))
    differ = int((label != expected["predicted"]).sum())
    distance = float(np.abs(score - expected["score"]).max())
    return chosen, len(label), differ, distance, len(label) / seconds


def main():
    lines = []
    for name in SETS:
        file = Path(os.environ[VARIABLE]) / f"{name}.csv.gz"
        with tempfile.TemporaryDirectory() as folder:
            pd.read_csv(file, nrows=LEARNED).to_csv(Path(folder) / "some.csv", index=False)
            for features in MAPS:
                chosen, n, differ, distance, rate = compared(Path(folder), file, features)
                text = f"{features}: {chosen or 'linear'}" if features == "auto" else features
                lines.append(
                    [f"{name}, {text}", f"{n:,}", differ, f"{distance:.0e}", f"{rate:,.0f}"]
                )
    report.write(
        "export",
        "ONNX against predict",
        f"Models that have learned the first {LEARNED:,} rows of a set; `counterpoise predict` and "
        "the exported graph on all of its rows, in ONNX Runtime on the CPU. All operators compute "
        "in double precision. " + report.machine("onnx", "onnxruntime", "numpy"),
        report.table(
            ["set and map", "rows", "labels that differ", "largest distance of scores",
             "rows a second"],
            lines,
        ),
    )  # fmt: skip


if __name__ == "__main__":
    main()
