"""The wheel: built from the sources, installed alone, every module imported from it."""

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "counterpoise"
MODULES = sorted(
    ".".join(("counterpoise", *path.relative_to(SOURCES).with_suffix("").parts))
    for suffix in ("*.py", "*.pyx")
    for path in SOURCES.rglob(suffix)
    if path.stem != "__init__"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run([*command, str(ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


def test_every_module_is_in_the_wheel(wheel, tmp_path):
    """In an environment that has the wheel, what it needs and its extras, and not these sources."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", f"{wheel}[all]"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    code = "\n".join(f"import {name}" for name in MODULES) + "\nprint(counterpoise.__file__)"
    run = [python, "-I", "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "site-packages" in done.stdout
    version = re.search(r'VERSION = "(.*)"', (SOURCES / "version.py").read_text())[1]
    assert wheel.name.startswith(f"counterpoise-{version}-")
    show = [tmp_path / "env" / "bin" / "counterpoise", "--version"]
    done = subprocess.run(show, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == f"counterpoise {version}\n"
