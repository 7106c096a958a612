"""Engines, tables and the commands that use them do without scikit-learn."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.utils import murmurhash3_32

from counterpoise.encoding.kinds import murmurhash3
from counterpoise.engine.auto import AutoModel
from counterpoise.engine.ridge import RidgeModel

COMMANDS = {
    "learn": ["learn", "t.csv", "--label", "y", "-m", "m.st", "--hash", "city=8"],
    "average": ["learn", "t.csv", "--label", "y", "-m", "a.st", "--feature-map", "auto"],
    "predict": ["predict", "m.st", "t.csv", "-o", "p.csv"],
    "predict by an average": ["predict", "a.st", "t.csv", "-o", "p.csv"],
}


def modules_after(program, tmp_path):
    """Return the modules of scikit-learn that a program has loaded."""
    program += "\nimport sys; print([m for m in sys.modules if m.split('.')[0] == 'sklearn'])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    return done.stdout.splitlines()[-1]


def test_a_table_model_loads_no_module_of_scikit_learn(tmp_path):
    assert modules_after("import counterpoise.tables.model", tmp_path) == "[]"
    assert modules_after("import sklearn", tmp_path) != "[]"  # the test can fail


def test_commands_load_no_module_of_scikit_learn(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.normal()},{'ab'[i % 2]},{int(rng.random() < 0.3)}" for i in range(300)]
    (tmp_path / "t.csv").write_text("\n".join(["x,city,y", *lines]) + "\n")
    for name, command in COMMANDS.items():
        program = f"import sys\nsys.argv[1:] = {command}\nfrom counterpoise.cli import main"
        program += "\ntry: main()\nexcept SystemExit as end: assert not end.code"
        assert modules_after(program, tmp_path) == "[]", name


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1])
def test_hashes_are_those_of_scikit_learn(seed):
    rng = np.random.default_rng(1)
    values = [b"", *(rng.bytes(int(n)) for n in rng.integers(0, 40, 500))]
    expected = [murmurhash3_32(value, seed, positive=True) for value in values]
    assert murmurhash3(values, seed).tolist() == expected
    assert murmurhash3([], seed).tolist() == []


def sample():
    rng = np.random.default_rng(2)
    y = (rng.random(200) < 0.3).astype(int)
    return rng.normal(size=(200, 2)) + y[:, None], y


@pytest.mark.parametrize("engine", [RidgeModel.create(), AutoModel.create(candidates=("linear",))])
def test_engines_learn_each_row_once(engine):
    X, y = sample()
    engine.learn(X[:100], y[:100])
    engine.learn(X[100:], y[100:])
    assert engine.class_count.tolist() == np.bincount(y).tolist()
    assert engine.merge(engine).class_count.sum() == 2 * len(y)
