"""Test what is released, away from the repository: python tools/dist_test.py sdist|wheel

The sdist is unpacked, and builds and tests itself from its own files only: make quick. The wheel is
installed into a new environment without a compiler, and passes the same tests. Only the tests and
the documents of the sources are there.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMPILER = re.compile(r"(.*-)?(cc|c\+\+|gcc|g\+\+|cpp|c89|c99|clang|clang\+\+|tcc|ld|as)(-[\d.]+)?")
TESTED = ("tests", "docs", "README.md")
EXCLUDED = ("tests/project", "docs/conf.py")  # these are about the sources


def newest(pattern):
    """Return the file of dist that was built last."""
    return max((ROOT / "dist").glob(pattern), key=lambda path: path.stat().st_mtime)


def unpack(folder):
    """Unpack the newest sdist, and return the folder of its sources."""
    sdist = newest("*.tar.gz")
    shutil.unpack_archive(sdist, folder)
    return Path(folder) / sdist.name.removesuffix(".tar.gz")


def link_programs(folder):
    """Return a folder with links to all programs of this machine except compilers and linkers."""
    programs = Path(folder) / "programs"
    programs.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for path in Path(place).iterdir() if Path(place).is_dir() else ():
            if not COMPILER.fullmatch(path.name) and not os.path.lexists(programs / path.name):
                (programs / path.name).symlink_to(path)
    return str(programs)


def run(*command, **options):
    """Run a command, and stop if it fails."""
    subprocess.run([str(word) for word in command], check=True, **options)


def test_sdist(folder):
    """Build and test the sdist from itself alone."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    run("make", "quick", f"PYTHON={sys.base_exec_prefix}/bin/python3", cwd=unpack(folder), env=env)


def test_wheel(folder):
    """Install the wheel without a compiler, and run the tests on it."""
    tree = unpack(folder)
    shutil.rmtree(tree / "src")
    place = Path(folder) / "environment"
    venv.create(place, with_pip=True)
    path = os.pathsep.join([str(place / "bin"), link_programs(folder)])
    env = {**os.environ, "PATH": path, "OPENBLAS_NUM_THREADS": "1"}
    for name in ("cc", "gcc", "c++"):
        assert shutil.which(name, path=path) is None
    python = place / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", f"{newest('*.whl')}[test]", env=env)
    ignored = [f"--ignore={name}" for name in EXCLUDED]
    words = ("-q", "-n", "2", "--dist", "loadgroup", "-m", "not slow", *ignored, *TESTED)
    run(python, "-m", "pytest", *words, cwd=tree, env=env)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        {"sdist": test_sdist, "wheel": test_wheel}[sys.argv[1]](place)
