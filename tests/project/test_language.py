"""The check of our English reports each kind of finding, and nothing else."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
IN_ORDER = (0, ["language: in order"])


@pytest.fixture
def check(tmp_path):
    """Write the files of a project, check it and return the exit code and the lines."""

    def run(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        done = subprocess.run(
            [sys.executable, TOOLS / "check_language.py", tmp_path],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout.splitlines()

    return run


def test_names_that_are_not_verbs_or_nouns_are_reported(check):
    text = "MOST = 3\nMAX_ROWS = 3\n\n\nclass Told:\n    def _learned(self):\n        told = 1\n"
    assert check({"src/a.py": text + "\n\ndef read():\n    MOST = 2\n    f(MOST=2)\n"}) == (
        1,
        ["src/a.py: class Told", "src/a.py: function _learned", *["src/a.py: constant MOST"] * 2],
    )


def test_a_docstring_that_starts_with_what_is_reported(check):
    text = 'def f():\n    """%s the rows contain."""\n    return {\n        "What": 1}\n'
    assert check({"src/a.py": text % "What"}) == (
        1,
        ["src/a.py: docstring: What the rows contain."],
    )
    assert check({"src/a.py": text % "Return what"}) == IN_ORDER


def test_words_are_reported_in_comments_strings_and_parameters_but_not_in_code(check):
    text = (
        'def f(told):\n    """Add `told` rows.\n\n    Parameters\n    ----------\n'
        '    told : int\n        Rows that were forgotten.\n    """\n'
        '    # Everybody\n    return told, "one # anew", "told", f"{told} rows" " besides"\n'
    )
    found = ["'told': write", "'forgotten': write", "'Everybody': write", "'anew': write"]
    code, lines = check({"tests/a.py": text, "src/b.h": "/* It\nfades. */ int told; // ok\n"})
    assert code == 1
    assert [line.split(": ", 1)[1][: len(start)] for line, start in zip(
        lines, ["'fades': write", *found, "'besides': write"], strict=True
    )] == ["'fades': write", *found, "'besides': write"]  # fmt: skip


def test_long_sentences_of_documents_are_reported_and_their_code_is_not(check):
    long = "This sentence has " + 23 * "many " + "words."
    assert check({"docs/a.md": f"# {long}\n\n```\n{long} told\n```\n\n| {long} |\n"}) == IN_ORDER
    assert check({"docs/a.md": f"Short. {long}\n"}) == (
        1,
        [f"docs/a.md: 27 words: {long[:70]}..."],
    )


@pytest.mark.slow
def test_bad_subjects_of_commits_are_reported(check, tmp_path):
    bad = [
        "Lines are wrapped; tests pass",
        "The lines are wrapped",
        "wrap lines",
        "Wrapped lines",
        "Wrapping lines",
        "Wrap lines.",
        "Wrap " + 17 * "long " + "lines",
    ]
    good = ["Wrap long lines", "Feed the kernel", "Bring back a test"]
    config = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    env = os.environ | {
        "GIT_COMMITTER_DATE": "2030-01-01T00:00:00Z",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=env, check=True)
    for subject in good + bad:
        command = ["git", *config, "commit", "-q", "--allow-empty", "-m", subject]
        subprocess.run(command, cwd=tmp_path, env=env, check=True)
    assert check({}) == (1, [f"commit: {subject}" for subject in reversed(bad)])


def test_every_exception_has_a_reason():
    rules = tomllib.loads((TOOLS / "language.toml").read_text())
    reasons = [reason for texts in rules["exceptions"].values() for reason in texts.values()]
    assert all(len(reason.split()) > 2 for reason in reasons)
