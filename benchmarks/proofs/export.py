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


def run_command(*arguments):
    """Run the command in this process."""
    sys.argv = ["counterpoise", *map(str, arguments)]
    with contextlib.redirect_stderr(io.StringIO()) as printed:
        try:
            command()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(printed.getvalue()) from None


def run_onnx(path, frame):
    """Return labels and scores of the exported graph."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    feed = {name: frame[[column]].to_numpy(dtype=float) for column, name in names.items()}
    label, score = session.run(["prediction", "score"], feed)
    return label, score.ravel()


def compare(folder, file, features):
    """Return the map, rows, labels that differ, and the largest distance of scores."""
    model, graph = folder / "m.safetensors", folder / "m.onnx"
    model.unlink(missing_ok=True)
    more = [] if features == "linear" else ["--feature-map", features]
    run_command("learn", folder / "some.csv", "--label", "target", "--model", model, *more)
    run_command("export", model, "--output", graph)
    chosen = getattr(wrap_engine(TableModel.load(str(model)).model), "best_", None)
    run_command("predict", model, file, "--output", folder / "predicted.csv")
    expected = pd.read_csv(folder / "predicted.csv")
    label, score = run_onnx(graph, pd.read_csv(file))
    differ = int((label != expected["prediction"]).sum())
    distance = float(np.abs(score - expected["score"]).max())
    text = (
        features if chosen is None else f"chose {name_of(chosen.feature_map, chosen.pooled_rows)}"
    )
    return text, len(label), differ, distance


def main():
    """Write the table."""
    options, lines = report.parse(__doc__, rows=20_000, sets=len(SETS)), []
    for name in SETS[: options.sets]:
        file = Path(os.environ[VARIABLE]) / f"{name}.csv.gz"
        with tempfile.TemporaryDirectory() as folder:
            pd.read_csv(file, nrows=options.rows).to_csv(Path(folder) / "some.csv", index=False)
            for features in MAPS:
                text, n, differ, distance = compare(Path(folder), file, features)
                lines.append([f"{name}, {text}", f"{n:,}", differ, f"{distance:.0e}"])
    report.write(
        "export",
        "ONNX against predict",
        f"Models that have learned the first {options.rows:,} rows of a set; `counterpoise "
        "predict` and the exported graph on all of its rows, in ONNX Runtime on the CPU. All "
        "operators compute in double precision.",
        report.table(
            ["set and map", "rows", "labels that differ", "largest distance of scores"],
            lines,
        ),
    )  # fmt: skip


if __name__ == "__main__":
    main()
