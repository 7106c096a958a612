"""Build what is released: python tools/dist.py [--wheel]

The sources of the last commit go into a tree of their own, where the links of the README become
absolute, as a page of a package index needs them. The sdist is built from this tree. The wheel is
built from the sdist alone, and repaired to run on other machines.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PICTURES = (".png", ".svg", ".gif")


def make_links_absolute(text, home):
    """Return a page whose relative links lead to the repository, and its pictures to their files.

    Parameters
    ----------
    text : str
        Markdown.
    home : str
        The address of the repository.
    """

    def link(match):
        target = match.group(2)
        if "://" in target or target.startswith("#"):
            return match.group(0)
        kind = "raw" if target.endswith(PICTURES) else "blob"
        return f"{match.group(1)}({home}/{kind}/main/{target})"

    return re.sub(r"(\])\(([^)\s]+)\)", link, text)


def run(*command, **options):
    """Run a command, and stop if it fails."""
    subprocess.run([str(word) for word in command], check=True, **options)


def main():
    """Build the sdist, and the wheel if it is requested."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    DIST.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "counterpoise"
        run("git", "clone", "-q", ROOT, tree)
        page = tree / "README.md"
        page.write_text(make_links_absolute(page.read_text(), urls["Homepage"]))
        author = ("-c", "user.name=counterpoise", "-c", "user.email=release@localhost")
        run("git", *author, "commit", "-qam", "Use absolute links in README", cwd=tree)
        run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST, tree)
    sdist = max(DIST.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime)
    print(sdist.relative_to(ROOT))
    if "--wheel" in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            tree = _unpack(sdist, folder)
            run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, tree)
            (wheel,) = Path(folder).glob("*.whl")
            run(sys.executable, "-m", "auditwheel", "repair", "-w", DIST, wheel)
    run(sys.executable, "-m", "twine", "check", "--strict", *DIST.iterdir())


def _unpack(sdist, folder):
    shutil.unpack_archive(sdist, folder)
    return Path(folder) / sdist.name.removesuffix(".tar.gz")


if __name__ == "__main__":
    main()
