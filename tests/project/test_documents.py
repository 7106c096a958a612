"""Every transcript in the documents is run, in order, and must print what it prints there."""

import csv
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from counterpoise.moments.downdate import MAX_RELATIVE_ERROR
from counterpoise.solver.scores import WARN_RELATIVE_ERROR

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "$ counterpoise" in page.read_text() and page.parent.name != "made"
]


def transcripts(page):
    """Commands and what they print, of the console blocks that use the command."""
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL):
        if "counterpoise" not in block and "payments.csv" not in block:
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            end = 1
            while "\n".join(lines[:end]).count("'") % 2:  # a quoted argument continues
                end += 1
            yield "\n".join(lines[:end]), "\n".join(lines[end:])


def shell(folder, python=f"'{sys.executable}'", **variables):
    """Run a line in a folder where ``counterpoise`` is this one, run by those words of a shell."""
    script, command = (folder / name / "counterpoise" for name in ("script", "bin"))
    for path, text in (
        (script, "from counterpoise.cli import main\nmain()\n"),
        (command, f"#!/bin/sh\nexec {python} '{script}' \"$@\"\n"),
    ):
        path.parent.mkdir()
        path.write_text(text)
        path.chmod(0o755)
    shutil.copy(ROOT / "examples" / "payments.csv", folder)
    env = {**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
    env |= {"HOME": str(folder), **variables}  # where no data set is prepared
    for name in ("COUNTERPOISE_DATA", "XDG_CACHE_HOME"):
        env.pop(name, None)

    def call(line):
        done = subprocess.run(
            ["bash", "-c", line], cwd=folder, env=env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        return done.stdout.rstrip("\n")

    return call


@contextmanager
def databases(page, folder):
    """Create the databases that a page reads; yield variables, and if there is PostgreSQL."""
    if "sqlite:///" not in page.read_text():
        yield {}, False
        return
    import postgres
    from databases import create_shop

    csv, has_server = ROOT / "examples" / "payments.csv", postgres.find_programs() is not None
    with postgres.postgres_server() if has_server else nullcontext() as server:
        yield create_shop(csv, folder, server.uri if has_server else ""), has_server


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_transcripts_are_real(page, forks, tmp_path):
    with databases(page, tmp_path) as (variables, has_server):
        compare_transcripts(page, shell(tmp_path, forks.line([]), **variables), has_server)


def compare_transcripts(page, call, has_server):
    """Compare what commands print; those that read PostgreSQL need a server."""
    for line, printed in transcripts(page):
        if "postgresql:" in line and not has_server:
            continue
        assert round_numbers(call(line)) == round_numbers(printed), line


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples" / "gallery").glob("plot_*.py")), ids=lambda path: path.stem
)
def test_gallery_examples_run(path, tmp_path):
    pytest.importorskip("matplotlib")
    env = {**os.environ, "MPLBACKEND": "agg"}
    command = [sys.executable, "-W", "error", str(path)]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def round_numbers(text):
    """Text with six decimals at most: another machine rounds in another place."""
    return re.sub(r"-?\d+\.\d{7,}(e-?\d+)?", lambda m: f"{float(m.group()):.6f}", text)


def test_every_command_is_documented():
    from counterpoise.cli.app import commands

    app = commands()

    pages = ROOT / "docs" / "commands"
    for command in app.registered_commands:
        name = command.callback.__name__
        assert f"$ counterpoise {name} " in (pages / f"{name}.md").read_text()
        assert f"({name}.md)" in (pages / "index.md").read_text()
    for group in app.registered_groups:
        text = (pages / f"{group.name}.md").read_text()
        text += (ROOT / "docs" / f"{group.name}.md").read_text()
        for command in group.typer_instance.registered_commands:
            name = command.name or command.callback.__name__
            assert f"$ counterpoise {group.name} {name}" in text


def read_cell(page, row, column):
    """Return a cell of a tracked page: of its first table with this row and this column.

    A row that only starts with this text counts where no row is equal to it.
    """
    found = {}
    for table in re.findall(r"(?:^\|.*\n)+", (RESULTS / f"{page}.md").read_text(), re.M):
        head, _, *lines = ([c.strip("* ") for c in x.split("|")[1:-1]] for x in table.splitlines())
        for cells in lines:
            if cells[0].startswith(row) and column in head:
                found.setdefault(cells[0] == row, cells[head.index(column)])
    assert found, f"{page}.md has no cell of {row!r} and {column!r}"
    return found[max(found)]


def g_means(results):
    """Return the mean G-mean of each learner on each set of a tracked CSV file."""
    folds = {}
    with open(RESULTS / f"{results}.csv", newline="") as file:
        for row in csv.DictReader(file):
            by_set = folds.setdefault(row["learner"], {})
            by_set.setdefault(row["set"], []).append(float(row["G-mean"]))
    return {
        learner: {name: sum(g) / len(g) for name, g in by_set.items()}
        for learner, by_set in folds.items()
    }


def sentences(*pages):
    """Return the text of pages with single spaces between words."""
    return " ".join(" ".join((ROOT / page).read_text().split()) for page in pages)


def test_probabilities_in_the_readme_are_those_that_were_measured():
    page = (RESULTS / "probability.md").read_text()
    assert page.index("the 16 sets of two classes") < page.index("the sets of several classes")
    others = ("calibrated ridge", "calibrated LDA", "LogisticRegression")
    exact, progressive = (
        [f"{float(read_cell('probability', link, f'over {other}')):.2f}" for other in others]
        for link in ("exact link", "progressive")
    )
    assert (
        f"relative to `LogisticRegression` | {exact[2]}; with `calibrate=True` {progressive[2]} "
        in (sentences("README.md"))
    )


def test_counts_of_sets_with_several_classes_are_those_that_were_measured():
    page = (RESULTS / "several.md").read_text()
    assert "**20 of the 32 sets are synthetic**" in page
    assert "32 sets with several classes, 20 of them synthetic" in sentences("docs/multiclass.md")


def test_speeds_in_the_readme_are_those_that_were_measured():
    cells = [read_cell("peers", "river LogisticRegression", f"d = {d}") for d in (8, 22, 72)]
    ratios = [float(re.search(r"\((.*)\)", cell).group(1)) for cell in cells]
    assert f"{min(ratios)} to {max(ratios)} times as fast as river's" in sentences("README.md")
    streams = ("1,000,000 × 30, 1", "200,000 × 200, 1")
    bare = sorted(float(read_cell("bulk", stream, "ours / bare")) for stream in streams)
    assert f"{bare[0]:.1f} to {bare[1]:.1f} times as long as computing" in sentences("README.md")


def test_figures_about_the_paper_are_those_that_were_measured():
    text = sentences("paper/notes.md")
    claims = (ROOT / "paper" / "claims.md").read_text()
    left = re.search(r"So (\d+)% of the lead is left", claims).group(1)
    threshold = re.search(r"(\d+)% of the lead is the threshold", claims).group(1)
    with open(ROOT / "paper" / "results" / "confounds.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if not row["set"].startswith("20news")]
    ahead = sum(float(r["NR-RLS"]) - float(r["AR-RLS, b = 0.0001 n/2"]) for r in rows) / len(rows)
    assert f"ahead of AR-RLS by {ahead:.4f}, {left}% of the lead" in text
    assert f"({threshold}%) comes from the threshold" in text
    with open(ROOT / "paper" / "results" / "drift.csv", newline="") as file:
        drift = list(csv.DictReader(file))
    for method in ("NR-RLS, inverses as printed", "NR-RLS", "NR-RLS, exact engine"):
        away = [float(row[method]) for row in drift]
        assert f"{min(away):.0e} to {max(away):.0e}" in text


def test_the_limits_of_forgetting_are_those_of_the_code():
    page = (RESULTS / "drift.md").read_text()
    assert (
        f"warns above an estimate of {WARN_RELATIVE_ERROR:.0e} and refuses "
        f"above {MAX_RELATIVE_ERROR:.0e}" in page
    )
    for line in re.findall(r"^\|.*\| (silent|warned) \| (\S+) \|", page, re.M):
        assert line[0] == ("warned" if float(line[1]) > WARN_RELATIVE_ERROR else "silent")


def test_figures_on_the_page_are_those_that_were_measured():
    page = (ROOT / "docs" / "feature-maps.md").read_text()
    measured = (ROOT / "benchmarks" / "results" / "maps.md").read_text().splitlines()
    table = [line for line in measured if line.startswith("|")]
    assert len(table) > 5
    assert "\n".join(table) in page
    page = (ROOT / "docs" / "averaging.md").read_text()
    averages = {}
    for learner, g in g_means("nonlinear").items():
        averages[learner] = f"{sum(g.values()) / len(g):.3f}"
    said = re.findall(r"^\| [^|]*? \| \**(0\.\d{3})\** \| (?:\d+|many) \|$", page, re.M)
    assert sorted(said) == sorted(averages.values())
    long = (ROOT / "benchmarks" / "results" / "choosing.md").read_text()
    cells = re.findall(r"(0\.\d{4}), ([\d,]+) \|", long)
    assert len(cells) == 18
    for G, rate in cells:
        assert f" {G}, {rate} |" in page


def test_keel_sets_in_the_documents_are_those_that_were_measured():
    page = sentences("docs/averaging.md")
    assert "59 sets of KEEL" in page
    assert (RESULTS / "keel.md").read_text().count("59 sets") == 2
    said = re.findall(r"\| \**(0\.\d{4})\** \| (\S*) ?\| (\d\.\d\d) \|", page)
    assert len(said) == 8
    mean, p, seconds = {}, {}, {}
    for learner in g_means("keel"):
        mean[learner] = read_cell("keel", "all, 28 sources", learner)
        p[learner] = "" if learner == "averaging" else read_cell("keel", learner, "p")
        seconds[learner] = f"{float(read_cell('keel', 'seconds per fold', learner)):.2f}"
    assert sorted(said) == sorted((mean[one], p[one], seconds[one]) for one in mean)


def test_figures_of_keel_sets_that_decided_nothing_are_those_that_were_measured():
    page, readme = sentences("docs/averaging.md"), sentences("README.md")
    pairs = []
    for learner, name in (
        ("AutoClassifier", "`AutoClassifier`"),
        ("BalancedRandomForest", "balanced random forest"),
        ("BalancedRidge", "linear"),
        ("LogisticRegression, balanced", "balanced `LogisticRegression`"),
        ("HistGradientBoosting, balanced", ""),
    ):
        metrics = ("G-mean", "average precision", "AUC", "CPU seconds per fold")
        cells = [read_cell("keel_odd", learner, metric) for metric in metrics]
        pairs += [f"{name} {float(cells[0]):.3f} and {float(cells[1]):.3f}"] if name else []
        row = r"\**{}\** \| \**{}\** \| \**{}\** \| [^|]*\| {} \|".format(*cells)
        assert re.search(row, page), learner
    assert ", ".join(pairs) in readme


def test_how_far_the_average_is_behind_the_linear_model():
    behind = {}
    for results, linear in (("nonlinear", "linear"), ("keel", "linear"), ("several", "linear")):
        g = g_means(results)
        behind |= {(results, n): g[linear][n] - g["averaging"][n] for n in g["averaging"]}
    worst = [
        max(value for (results, _), value in behind.items() if results == one)
        for one in ("nonlinear", "keel", "several")
    ]
    iris, digits = (behind["several", one] for one in ("iris, 50 to 8", "digits, 174 to 10"))
    assert worst[2] == iris
    assert (
        f"At most {worst[0]:.3f} on the 25 sets (`wpbc`, 97 rows) and {worst[1]:.3f} on the 59. "
        "With few rows for each class it can be farther behind. With 8 rows of the rarest class "
        f"of `iris` it is {iris:.3f}, and with 10 of `digits` {digits:.3f}"
    ) in sentences("docs/averaging.md")
