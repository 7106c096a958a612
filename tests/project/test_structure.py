"""The check of the structure finds each kind of problem, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "check_structure.py"


@pytest.fixture
def package(tmp_path):
    """Write files of a package, check it and return the exit code and the lines."""

    def check(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        done = subprocess.run(
            [sys.executable, TOOL, tmp_path], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout.splitlines()

    return check


IN_ORDER = (0, ["structure: in order"])


def test_options_are_named_in_cli_only(package):
    text = (
        '"""Use --drop."""\n'
        'raise ValueError(\n    "no"\n    "with --keep"\n)\n'
        'f"leave --{name} out"\n'
        '"a -- b", "a--b", "--ink: #222; color: var(--ink)", "-x", "----"\n'
    )
    assert package({"cli/a.py": text, "jobs/a.py": text}) == (
        1,
        [
            "jobs/a.py:1: a text contains the option '--drop'",
            "jobs/a.py:3: a text contains the option '--keep'",
            "jobs/a.py:6: a text contains the option '--'",
        ],
    )


def test_private_names_stay_in_their_module(package):
    found = package(
        {
            "a.py": "from counterpoise.moments import _moments\n"
            "from counterpoise.moments._moments import add\n"
            "class A:\n    _known = 1\n    def __init__(self, other):\n"
            "        self._x = other._x + other._known + self._inherited\n"
            "        other._replace(a=1).__class__\n",
            "b.py": "from counterpoise.moments import _kernel\n"
            "def f(a):\n    return a.model._x, a.__dict__\n",
        }
    )
    assert found == (
        1,
        [
            "b.py::_kernel: line 1 imports it from counterpoise.moments",
            "b.py::_x: line 3 uses a.model._x",
        ],
    )


def test_long_files_have_a_reason(package):
    files = {"a.py": "a = 1\n" * 600, "b.pyx": "b = 1\n" * 601}
    assert package(files) == (1, ["b.pyx: more than 600 lines (601)"])
    assert package({"structure.toml": '[long_files]\n"b.pyx" = "one class"\n'}) == IN_ORDER
    assert package({"b.pyx": ""}) == (
        1,
        ["b.pyx: structure.toml has a reason for it that is no longer needed"],
    )


def test_a_module_with_one_importer_has_a_reason(package):
    files = {
        "one/__init__.py": '"""Contents."""\n_MODULES = {"Lazy": "lazy"}\n',
        "one/used.py": "",
        "one/lazy.py": "",
        "one/twice.py": "",
        "one/unused.py": "from counterpoise.one.twice import a\nimport counterpoise.one.lazy\n",
        "two.py": "def f():\n    from counterpoise.one import twice, used\n",
    }
    assert package(files) == (1, ["one/used.py: only two.py imports it"])
    text = '[single_importer]\n"one/used.py" = "a subject"\n'
    assert package({"structure.toml": text}) == IN_ORDER
    assert package({"three.py": "from counterpoise.one.used import a\n"})[0] == 1  # two importers


def test_long_signatures_are_public_constructors_and_commands(package):
    nine = ", ".join("abcdefghi")
    cli = f"@app.command()\ndef c({nine}, x: Annotated[str, typer.Option()] = ''): ...\n"
    files = {
        "__init__.py": '__all__ = ["Public"]\n',
        "a.py": f"class Public:\n    def __init__(self, {nine}): ...\n"
        f"    def f(self, {nine}): ...\n"
        f"class Other:\n    def __init__(self, {nine}): ...\n"
        "def eight(a, b, c, d, *, e, f, g, h): ...\n",
        "cli/c.py": f"{cli}def helper({nine}): ...\n",
    }
    assert package(files) == (
        1,
        [
            "a.py::Other.__init__: 9 parameters",
            "a.py::Public.f: 9 parameters",
            "cli/c.py::helper: 9 parameters",
        ],
    )
