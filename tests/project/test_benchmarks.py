"""Every tracked result comes from a benchmark, and every benchmark can be imported."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
SCRIPTS = {
    kind: {path.stem for path in (FOLDER / kind).glob("*.py")} - {"__init__"}
    for kind in ("speed", "proofs")
}


def test_every_tracked_result_is_written_by_a_benchmark():
    text = "\n".join(path.read_text() for path in FOLDER.rglob("*.py"))
    written = set(
        re.findall(r'(?:report\.write|Study|write_learned)\((?:options, )?\s*"(\w+)"', text)
    )
    for path in (FOLDER / "results").iterdir():
        assert path.name.split(".")[0] in written or f'"{path.name}"' in text, path.name


@pytest.mark.parametrize(("kind", "variable"), [("speed", "SPEED"), ("proofs", "PROOFS")])
def test_make_runs_every_benchmark(kind, variable):
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    (names,) = re.findall(rf"^{variable} := (.*)$", text, re.M)
    assert set(names.split()) == SCRIPTS[kind]


@pytest.mark.slow
def test_every_benchmark_can_be_imported():
    optional = {"peers"}  # needs the extra "bench"
    modules = [
        f"benchmarks.{kind}.{name}"
        for kind, names in SCRIPTS.items()
        for name in sorted(names - optional)
    ]
    code = "import sys, importlib; [importlib.import_module(name) for name in sys.argv[1:]]"
    done = subprocess.run(
        [sys.executable, "-c", code, *modules], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
