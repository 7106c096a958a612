"""The wheel: built from the sources, installed alone, every module imported from it."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

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
    """From what the editable install has compiled, of which it compiles what has changed since.

    Its folder is next to the other's, for commands that name sources relative to it.
    """
    folder = tmp_path_factory.mktemp("wheel")
    build = ROOT / "build"
    own, compiled = build / "wheel", build / f"cp{sys.version_info.major}{sys.version_info.minor}"
    if compiled.exists():
        shutil.rmtree(own, ignore_errors=True)
        shutil.copytree(compiled, own, symlinks=True)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    command += ["--skip-dependency-check", f"-Cbuild-dir={own}"]
    done = subprocess.run([*command, str(ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


def requirements(distribution, extras):
    """Return the names of all requirements of a distribution, by the metadata."""
    found, wanted = {}, [(distribution, frozenset(extras))]
    seen = set(wanted)
    while wanted:
        about, extras = wanted.pop()
        for line in about.requires or ():
            needed = Requirement(line)
            marker = needed.marker
            if marker and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                continue
            if needed.name == distribution.name:
                next_one = (distribution, frozenset(needed.extras))
            else:
                other = importlib.metadata.distribution(needed.name)
                assert needed.specifier.contains(other.version, prereleases=True), line
                found[other.name] = other
                next_one = (other, frozenset(needed.extras))
            if next_one not in seen:
                seen.add(next_one)
                wanted.append(next_one)
    return found


@pytest.mark.slow
def test_every_module_is_in_the_wheel(wheel, tmp_path):
    """In an environment that has the wheel, what it needs and its extras, and not these sources.

    What it needs is linked from where the tests run, and nothing else of there is.
    """
    with zipfile.ZipFile(wheel) as packed:
        assert not [name for name in packed.namelist() if name.endswith(".pyc")]
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps"]
    done = subprocess.run(
        [*install, "--no-index", wheel], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    paths = {"base": str(tmp_path / "env"), "platbase": str(tmp_path / "env")}
    site = Path(sysconfig.get_path("platlib", vars=paths))
    (installed,) = importlib.metadata.distributions(name="counterpoise", path=[str(site)])
    for other in requirements(installed, ["all"]).values():
        for name in sorted({file.parts[0] for file in other.files if file.parts[0] != ".."}):
            if not os.path.lexists(site / name) and other.locate_file(name).exists():
                (site / name).symlink_to(other.locate_file(name))
    code = "\n".join(f"import {name}" for name in MODULES)
    code += "\nimport sys\nprint(*(m.__file__ for n, m in sys.modules.items()"
    code += " if n.split('.')[0] == 'counterpoise'), sep='\\n')"
    run = [python, "-I", "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    files = done.stdout.splitlines()
    assert len(files) > len(MODULES)
    assert all(Path(file).is_relative_to(site) for file in files)
    version = re.search(r'VERSION = "(.*)"', (SOURCES / "version.py").read_text())[1]
    assert wheel.name.startswith(f"counterpoise-{version}-")
    show = [tmp_path / "env" / "bin" / "counterpoise", "--version"]
    done = subprocess.run(show, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == f"counterpoise {version}\n"
    (site / "scipy").unlink()  # what is not linked is not there
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "No module named 'scipy'" in done.stderr
