"""Results as a tracked Markdown file: what was run, on what, how often."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def machine(*packages):
    """One line on the machine and the versions that were measured."""
    cpu = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc") else []:
        if line.startswith("model name"):
            cpu = line.split(":")[1].strip()
            break
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"{os.cpu_count()} cores ({cpu}), Python {platform.python_version()}, {versions}."


def load():
    """How many processes wanted a core in the last minute: how busy the machine was."""
    return f"{os.getloadavg()[0]:.1f}"


def table(head, rows):
    """A Markdown table; the first column is text, the others are numbers."""
    lines = [" | ".join(head), "|".join(["---"] + ["---:"] * (len(head) - 1))]
    lines += [" | ".join(str(cell) for cell in row) for row in rows]
    return "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)


def write(name, title, *parts):
    """Write results/name.md and show it."""
    text = "\n\n".join([f"# {title}", *parts]) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text)
    print(text)
