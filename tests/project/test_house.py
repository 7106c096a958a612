"""The check of the house finds what it is there to find, and nothing else."""

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "check_house.py"


def checked(folder, *words):
    done = subprocess.run(
        [sys.executable, TOOL, folder, *words], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.replace(f"{folder}/", "").splitlines()


def test_options_are_named_in_cli_only(tmp_path):
    for name in ("cli", "jobs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text(
            '"""Says --drop."""\n'
            'raise ValueError(\n    "no"\n    "with --keep"\n)\n'
            'f"leave --{name} out"\n'
            '"a -- b", "a--b", "--ink: #222; color: var(--ink)", "-x", "----"\n'
        )
    assert checked(tmp_path) == (
        1,
        [
            "jobs/a.py:1: a text names the option '--drop'",
            "jobs/a.py:3: a text names the option '--keep'",
            "jobs/a.py:6: a text names the option '--'",
        ],
    )


def test_private_names_stay_at_home(tmp_path):
    (tmp_path / "a.py").write_text(
        "from counterpoise.moments import _moments\n"
        "from counterpoise.moments._moments import add\n"
        "class A:\n    _known = 1\n    def __init__(self, other):\n"
        "        self._x = other._x + other._known + self._inherited\n"
        "        other._replace(a=1).__class__\n"
    )
    (tmp_path / "b.py").write_text(
        "from counterpoise.moments import _kernel\ndef f(a):\n    return a.model._x, a.__dict__\n"
    )
    assert checked(tmp_path, "--underscores") == (
        1,
        [
            "b.py:1: imports _kernel of counterpoise.moments, which is private",
            "b.py:3: uses a.model._x, which is private",
        ],
    )
    assert checked(tmp_path) == (0, ["house: texts and names are in order"])


def test_long_files_have_a_reason(tmp_path):
    (tmp_path / "a.py").write_text("a = 1\n" * 600)
    (tmp_path / "b.pyx").write_text("b = 1\n" * 601)
    assert checked(tmp_path) == (1, ["b.pyx: more than 600 lines and no reason"])
