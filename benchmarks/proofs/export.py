"""Exports against ``predict``, on every row of five public sets, for every kind of map."""

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
from paper.datasets import VARIABLE

from benchmarks import report
from counterpoise.cli import main as command
from counterpoise.engine.parameters import name_of
from counterpoise.estimators.auto import wrap_engine
from counterpoise.tables.model import TableModel

SETS = ["pima-diabetes", "wdbc", "spambase", "cod-rna", "ijcnn1"]
MAPS = ["linear", "poly2", "rm2", "rff:100", "rm2+rff:100", "auto"]
LEARNED = 20_000  # rows of a set, from its beginning; all of them are predicted


def counterpoise(*words):
    """Run the command, in this process."""
    sys.argv = ["counterpoise", *map(str, words)]
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            command()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(said.getvalue()) from None


def outputs(path, frame):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    feed = {name: frame[[column]].to_numpy(dtype=float) for column, name in names.items()}
    label, score = session.run(["prediction", "score"], feed)
    return label, score.ravel()


def compared(folder, file, features):
    """The map, rows, labels that differ, and the largest distance of scores."""
    model, graph = folder / "m.safetensors", folder / "m.onnx"
    model.unlink(missing_ok=True)
    more = [] if features == "linear" else ["--feature-map", features]
    counterpoise("learn", folder / "some.csv", "--label", "target", "--model", model, *more)
    counterpoise("export", model, "--output", graph)
    chosen = getattr(wrap_engine(TableModel.load(str(model)).model), "best_", None)
    counterpoise("predict", model, file, "--output", folder / "predicted.csv")
    expected = pd.read_csv(folder / "predicted.csv")
    label, score = outputs(graph, pd.read_csv(file))
    differ = int((label != expected["prediction"]).sum())
    distance = float(np.abs(score - expected["score"]).max())
    text = (
        features if chosen is None else f"chose {name_of(chosen.feature_map, chosen.pooled_rows)}"
    )
    return text, len(label), differ, distance


def main():
    lines = []
    for name in SETS:
        file = Path(os.environ[VARIABLE]) / f"{name}.csv.gz"
        with tempfile.TemporaryDirectory() as folder:
            pd.read_csv(file, nrows=LEARNED).to_csv(Path(folder) / "some.csv", index=False)
            for features in MAPS:
                text, n, differ, distance = compared(Path(folder), file, features)
                lines.append([f"{name}, {text}", f"{n:,}", differ, f"{distance:.0e}"])
    report.write(
        "export",
        "ONNX against predict",
        f"Models that have learned the first {LEARNED:,} rows of a set; `counterpoise predict` and "
        "the exported graph on all of its rows, in ONNX Runtime on the CPU. All operators compute "
        "in double precision. " + report.machine("onnx", "onnxruntime", "numpy"),
        report.table(
            ["set and map", "rows", "labels that differ", "largest distance of scores"],
            lines,
        ),
    )  # fmt: skip


if __name__ == "__main__":
    main()
