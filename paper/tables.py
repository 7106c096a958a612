"""Tables as tracked files: CSV for machines, Markdown for people."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from pathlib import Path
from typing import Any

from counterpoise.atomic_write import atomic_write

PRINTED = Path(__file__).parent / "printed"


def write(path: Path, text: str) -> None:
    """Write a file whole, and make its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path, path.name) as file:
        file.write(text.encode())


QUICK = """**A quick run**: a few sets, two runs. It shows that all of this works. Its figures are
not about the paper, so it gives no assessments."""


def write_page(settings: Any, path: Path, text: str) -> None:
    """Write Markdown whose paragraphs and list items are filled to lines of equal length.

    The page of a quick run has a note under its title.
    """
    first, *rest = text.strip().split("\n\n")
    blocks = []
    for block in [first, *([QUICK] if settings.quick else []), *rest]:
        if block.startswith(("|", "#", "```")):
            blocks.append(block)
            continue
        items = re.split(r"\n(?=- )", block)
        blocks.append("\n".join(_wrap(item) for item in items))
    write(path, "\n\n".join(block for block in blocks if block) + "\n")


def _wrap(text: str) -> str:
    return textwrap.fill(
        " ".join(text.split()), 100, subsequent_indent="  " if text.startswith("- ") else "",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def write_csv(path: Path, head: list[str], rows: list[list[Any]]) -> None:
    """Write a table for machines; numbers as they are given."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([head, *rows])
    write(path, out.getvalue())


def read_csv(path: Path) -> list[dict[str, str]]:
    """Read such a table."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def markdown(head: list[str], rows: list[list[Any]], left: int = 1) -> str:
    """Make a table for people; the first ``left`` columns are text."""
    rule = "|" + "|".join(["---"] * left + ["---:"] * (len(head) - left)) + "|"
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in [head, *rows]]
    return "\n".join([lines[0], rule, *lines[1:]])


def strong(text: str, best: bool) -> str:
    """In bold, where it is the best."""
    return f"**{text}**" if best else text


def bold(values: list[list[float]], form: str, best: str = "high") -> list[list[str]]:
    """Numbers as text, the best of each column in bold, and all that look like it."""
    sign = 1.0 if best == "high" else -1.0
    shown = [[form.format(value) for value in row] for row in values]
    if not values:
        return shown
    for j in range(len(values[0])):
        top = max(range(len(values)), key=lambda i: sign * values[i][j])
        text = shown[top][j]
        for row in shown:
            row[j] = strong(row[j], row[j] == text)
    return shown


def read_printed_table(name: str) -> list[dict[str, str]]:
    """Read one of the paper's tables as printed."""
    return read_csv(PRINTED / f"{name}.csv")


def printed_g_means() -> dict[tuple[int, str], tuple[float, float, float]]:
    """Mean, deviation and rank of Table 3 by set and method, as printed."""
    return {
        (int(row["no"]), row["method"]): (
            float(row["g_mean"]), float(row["deviation"]), float(row["rank"]),
        )
        for row in read_printed_table("table3")
        if row["no"] != "average"
    }  # fmt: skip


def printed_times() -> dict[tuple[int, str], float]:
    """Seconds of Table 4 by set and method, as printed."""
    return {
        (int(row["no"]), method): float(seconds)
        for row in read_printed_table("table4")
        if row["no"] != "average"
        for method, seconds in row.items()
        if method != "no"
    }
