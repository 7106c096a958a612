"""CITATION.cff and the README name the paper, and the version is the package's."""

import re
from pathlib import Path

from counterpoise.version import VERSION

ROOT = Path(__file__).parents[2]
TITLE = (
    "Deterministic Online Classification: Non-iteratively Reweighted Recursive Least-Squares "
    "for Binary Class Rebalancing"
)
# Of every type that CFF 1.2.0 demands or that is used here: what a record must have.
DEMANDED = {"cff-version", "message", "title", "authors"}
DEMANDED_OF_REFERENCES = {"type", "title", "authors"}


def parse(text):
    """The YAML of nested maps, lists of maps and scalars, by indentation; no more is used."""
    lines = [line for line in text.splitlines() if line.strip()]
    assert all(re.fullmatch(r"( *)(- )?[a-z-]+:( .+)?", line) for line in lines), text
    items = []
    for line in lines:
        dash = line.lstrip().startswith("- ")
        bare = line.replace("- ", "  ", 1) if dash else line
        key, _, value = bare.strip().partition(":")
        value = value.strip()
        if value.startswith('"'):
            assert re.fullmatch(r'"[^"\\]*"', value), line
            value = value[1:-1]
        else:  # a bare scalar that YAML would cut short or read as something else
            assert not re.search(": |#", value), line
        items.append((len(bare) - len(bare.lstrip()), dash, key, value))
    tree, rest = block(items, 0)
    assert not rest
    return tree


def block(items, indent):
    """The map or the list of maps that begins here, and the items after it."""
    found = [{}] if items[0][1] else {}
    record = found[0] if isinstance(found, list) else found
    first = True
    while items and items[0][0] == indent:
        _, dash, key, value = items.pop(0)
        if dash and not first:
            record = {}
            found.append(record)
        first = False
        assert key not in record, key
        if value:
            record[key] = value
        else:
            assert items[0][0] > indent, key
            record[key], items = block(items, items[0][0])
    return found, items


def test_the_citation_file_is_valid_and_of_this_version():
    cff = parse((ROOT / "CITATION.cff").read_text())
    assert cff["cff-version"] == "1.2.0"
    assert set(cff) >= DEMANDED
    assert cff["version"] == VERSION
    assert cff["license"] in (ROOT / "pyproject.toml").read_text()
    paper = cff["preferred-citation"]
    assert set(paper) >= DEMANDED_OF_REFERENCES
    assert paper["type"] == "conference-paper"
    assert paper["title"] == TITLE
    assert paper["authors"] == [{"family-names": "Jang", "given-names": "Se-In"}]
    assert paper["year"] == "2023"
    assert "name" in paper["conference"]  # an entity must have one


def test_every_citation_has_the_paper_by_its_title():
    readme = (ROOT / "README.md").read_text()
    assert f"Se-In Jang. {TITLE}. ICML 2023." in re.sub(r"\n> |\s+", " ", readme)
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md")]:
        text = " ".join(path.read_text().split())
        assert text.count("ICML 2023") == text.count(f'"{TITLE}", ICML 2023'), path
