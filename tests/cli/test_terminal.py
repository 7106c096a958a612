"""Output on a terminal: untrusted text has no effect, tables are whole, streams may be closed."""

import os
import pty
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from fork_server import MAIN

from counterpoise.errors import printable

# Markup of rich, a color, a link, a cursor that moves, and a line that pretends to be ours.
NASTY = [
    "[/x]",
    "\x1b[35;7mred",
    "\x1b]8;;http://example.org/\x07link",
    "[bold]b\x1b[2J",
    "\u202eabc",
]
COLUMNS = ["[/amount]", "\x1b[35;7mcountry", "[link=x]"]
LABEL = "y[/y]\x1b[2J"


def rows(n=60):
    for i in range(n):
        label = "[/no]" if i % 4 else "\x1b[35;7myes"
        yield [str(i * 7 % 13), NASTY[i % len(NASTY)], str(i % 5), label]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "[x]").mkdir()
    lines = [[*COLUMNS, LABEL], *rows()]
    text = "".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines)
    (tmp_path / "[x]" / "[q]\x1b[35;7m.csv").write_text(text)
    return tmp_path


@pytest.fixture
def on_a_terminal(start):
    def call(*arguments, width=80, kind="xterm"):
        master, slave = pty.openpty()
        env = {**os.environ, "TERM": kind, "COLUMNS": str(width)}
        process = start(*arguments, stdout=slave, stderr=slave, env=env)
        os.close(slave)
        seen = b""
        try:
            while block := os.read(master, 4096):
                seen += block
        except OSError:
            pass
        os.close(master)
        assert process.wait() == 0, seen.decode()
        return seen.decode().replace("\r\n", "\n")

    return call


def test_text_of_others_is_only_text(folder, on_a_terminal):
    file = "[x]/[q]\x1b[35;7m.csv"
    learn = ["learn", file, "--label", LABEL, "-m", "[m].st", "--chunk-rows", "10"]
    seen = {
        "learn": on_a_terminal(*learn),
        "inspect": on_a_terminal("inspect", "[m].st"),
        "evaluate": on_a_terminal("evaluate", "[m].st", file),
        "predict": on_a_terminal("predict", "[m].st", file, "-o", "[x]/p.csv"),
        "benchmark": on_a_terminal("benchmark", file, "--label", LABEL, "--only", "PA"),
    }
    for name, text in seen.items():
        assert "Traceback" not in text, name
        for bad in ("\x1b[35;7m", "\x1b]8;", "\x1b[2J", "\x07", "\u202e"):
            assert bad not in text, (name, bad)
    assert "[x]/[q]\\x1b[35;7m.csv: 60 rows" in seen["learn"]
    for label in ("[/no]", "\\x1b[35;7myes"):
        assert label in seen["learn"]
        assert label in re.sub(r"\x1b\[[\d;]*m", "", seen["evaluate"])
    assert "[/amount]" in re.sub(r"\x1b\[[\d;]*m", "", seen["inspect"])


def test_errors_are_one_line_of_text(run):
    Path("t.csv").write_text('a,y\n1,"no"\n"x\ncounterpoise: all is well\x1b[31m",yes\n')
    done = run("learn", "t.csv", "--label", "y", "--numeric", "a", "-m", "m.st", code=2)
    assert len(done.err.splitlines()) == 1
    assert "\x1b" not in done.err
    done = run("benchmark", "--demo", "--positive", "\x1b[31m", code=2)
    assert "--positive: unknown class '\\x1b[31m'" in done.err.replace("\\\\", "\\")
    assert "\x1b" not in run("inspect", "a", "\x1b[31m", code=2).err


def test_what_is_printable_stays_as_it_is():
    for text in ("café, naïve [/x] 東京 🙂 $1", ""):
        assert printable(text) == text
    assert printable("a\tb\r\n\x7f\x9b\udc80\u2028") == r"a\tb\r\n\x7f\x9b\udc80\u2028"
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"


@pytest.mark.parametrize(("width", "parts"), [(80, 2), (200, 1)])
def test_tables_are_not_cut_off(on_a_terminal, width, parts):
    seen = on_a_terminal("benchmark", "--demo", "--only", "AR-RLS", width=width)
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", seen)
    assert "…" not in text
    table = [line for line in text.splitlines() if line.startswith(("│", "┃"))]
    assert max(map(len, table)) <= width
    for method in ("BalancedRidgeClassifier", "AR-RLS"):
        found = [line for line in table if f" {method} " in line]
        assert len(found) == parts
        assert len(re.findall(r" \d[\d.,]* ", " ".join(found))) == 8


def test_help_is_not_cut_off(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for command in ([], ["ledger"], ["learn"], ["benchmark"], ["predict"]):
        listed = run(*command, "--help").out.split("Options:", 1)[1]
        assert not [line for line in listed.splitlines() if line.endswith(("...", "…"))]


@pytest.mark.slow
def test_quiet_says_only_what_is_wrong(run):
    Path("t.csv").write_text("a,y\n1,no\n2,yes\n3,no\n")
    assert run("learn", "t.csv", "--label", "y", "-m", "m.st", "--quiet").err == ""
    assert run("learn", "t.csv", "-m", "m.st").err != ""
    assert "cannot read" in run("learn", "no.csv", "--label", "y", "-m", "m.st", "-q", code=2).err
    assert run("predict", "m.st", "t.csv", "-q").out.startswith("prediction,")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_no_harm(forks, tmp_path, closed):
    (tmp_path / "t.csv").write_text("a,y\n1,no\n2,yes\n3,no\n")

    def call(arguments, closed=""):
        line = f"{forks.line(['-c', MAIN])} {arguments} {closed}"
        return subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    done = call("learn t.csv --label y -m m.st", closed)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    whole = (tmp_path / "m.st").read_bytes()
    (tmp_path / "m.st").unlink()
    assert call("learn t.csv --label y -m m.st").returncode == 0
    assert (tmp_path / "m.st").read_bytes() == whole
    for command in ("predict m.st t.csv", "evaluate m.st t.csv", "inspect m.st"):
        done = call(command, closed)
        if ">&-" not in closed.replace("2>&-", ""):
            assert done.returncode == 0
            assert done.stdout
        else:  # the requested output cannot be written
            assert done.returncode == 1
            assert "2>&-" in closed or "standard output: Bad file descriptor" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_one_clear_error(forks):
    line = forks.line(["-c", MAIN, "--help"]) + " > /dev/full"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_names_in_inspect_do_not_collide(run):
    import json

    Path("t.csv").write_text("a,a=b,y\nb=c,c,no\nb=c,d,yes\ne,c,no\ne,d,yes\nf,c,no\nb=c,c,yes\n")
    run("learn", "t.csv", "--label", "y", "-m", "m.st")
    weights = json.loads(run("inspect", "m.st", "--json").out)["weights"]
    assert set(weights) == {"a=b=c", "a=b=c (2)", "a=e", "a=f", "a=b=d"}
    assert "features\t5\n" in run("inspect", "m.st").out


@pytest.mark.slow
def test_inspect_shows_whole_numbers_and_folds_inputs(run):
    for k in range(12):
        labels = ["no", "no", "yes"] * 40_000 if k == 0 else ["no", "yes", "no"]
        lines = [f"{(7 * i + k) % 11},{label}" for i, label in enumerate(labels)]
        Path(f"{k:02}.csv").write_text("a,y\n" + "\n".join(lines) + "\n")
    files = [f"{k:02}.csv" for k in range(12)]
    run("learn", *files, "--label", "y", "-m", "m.st", "--allow-overlap")
    out = run("inspect", "m.st").out
    assert "\nno\t80022\nyes\t40011\n" in out
    assert "\n03.csv\t3\t0\n(4 more)\t12\t0\n08.csv\t3\t0\n" in out


@pytest.mark.slow
def test_advice_can_be_pasted_into_a_shell(run):
    """A column whose name the shell would take apart, or run."""
    name = "when; rm -rf $HOME 'x'"
    rows = "".join(f"c{k},{k},{'no' if k % 2 else 'yes'}\n" for k in range(1200))
    Path("t.csv").write_text(f"{name},a,y\n{rows}")
    learn = ["learn", "t.csv", "--label", "y", "-m", "m.st"]
    err = run(*learn, code=2).err
    advice = re.search(
        r"leave the column out with (--drop .*), or learn all of them with (.*)", err
    )
    assert shlex.split(advice.group(2)) == ["--many", name]
    run(*learn, *shlex.split(advice.group(1)))
