"""Files of a release, hooks, workflows and asv."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from counterpoise.version import VERSION

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.M)[1].split())


@pytest.fixture
def tool(monkeypatch):
    def load(name, folder="tools"):
        monkeypatch.syspath_prepend(ROOT / folder)
        return import_module(name)

    return load


def test_links_of_the_readme_work_on_a_page_of_the_index(tool):
    home = "https://example.org/counterpoise"
    before = (ROOT / "README.md").read_text()
    after = tool("dist").make_links_absolute(before, home)
    links = re.findall(r"\]\(([^)\s]+)\)", after)
    assert len(links) == len(re.findall(r"\]\(([^)\s]+)\)", before)) > 20
    for link in links:
        assert link.startswith(("https://", "#"))
        if link.startswith(home):
            kind, path = re.fullmatch(rf"{home}/(raw|blob)/main/([^#]+)(?:#.*)?", link).groups()
            assert (ROOT / path).exists()
            assert (kind == "raw") == path.endswith((".svg", ".png"))


def test_hooks_are_what_make_check_runs():
    recipe = re.search(r"^check: .*\n((?:\t.*\n)+)", MAKEFILE, re.M)[1]
    lines = [line.strip() for line in recipe.splitlines()]
    wanted = [
        line.replace("$(BIN)", ".venv/bin").replace("$(PY)", ".venv/bin/python") for line in lines
    ]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"entry: ([^,]+),", hooks) == wanted


def test_every_step_of_a_workflow_is_a_make_target():
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for line in re.findall(r"^ *-? run: (.*)$", path.read_text(), re.M):
            words = line.split()
            assert words[0] == "make"
            assert words[1] in TARGETS
            assert f"\n{words[1]}:" in MAKEFILE


def test_programs_that_compile_are_told_from_others(tool):
    compiles = tool("dist_test").COMPILER.fullmatch
    for name in ("cc", "gcc", "x86_64-linux-gnu-gcc-12", "g++", "c++", "clang-15", "ld", "as"):
        assert compiles(name)
    for name in ("bash", "git", "python3", "env", "sleep", "java", "chromium"):
        assert not compiles(name)


def test_the_version_has_an_entry_with_a_date():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d$", text, re.M)
    for name in re.findall(r"^## \[(.*)\]", text, re.M):
        assert f"\n[{name}]: https://" in text
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.M)) <= kinds


@pytest.mark.slow
def test_the_six_numbers_can_be_measured(tool, monkeypatch):
    speed = tool("six_numbers", "benchmarks/speed/asv")
    monkeypatch.setattr(speed.FromCSV, "rounds", 1)
    measured = 0
    for kind in (speed.Bulk, speed.Events, speed.Progressive, speed.FromCSV):
        monkeypatch.setattr(kind, "rows", 60)
        for values in ([d] for d in getattr(kind, "params", [[None]])[0]):
            given = [] if values == [None] else values
            for name in [n for n in vars(kind) if n.startswith(("time_", "track_"))]:
                one = kind()
                one.setup(*given)
                getattr(one, name)(*given)
                measured += 1
                if hasattr(one, "teardown"):
                    one.teardown()
    assert measured == 6
