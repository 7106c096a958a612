"""Check the mechanical rules of our English: names, docstrings, comments, documents, commits.

The words and the exceptions are in ``tools/language.toml``. With a folder as argument that folder
is checked, without exceptions. ``--counts`` prints the number of findings of each rule.
"""

import argparse
import inspect
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
RULES = tomllib.loads((ROOT / "tools" / "language.toml").read_text())
WORDS = [(re.compile(rf"\b(?:{words})(?!\w)", re.I), use) for words, use in RULES["words"].items()]
ANY_WORD = re.compile("|".join(pattern.pattern for pattern, _ in WORDS), re.I)
STRING = r'''"""(?:[^\\]|\\.)*?"""|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"'''
# A comment, or adjacent strings with the end of the code before them.
PYTHON = re.compile(rf"(#[^\n]*)|(\A|:[ \t]*\n)?\s*((?:[bfruBFRU]{{0,2}}(?:{STRING})\s*)+)", re.S)
DEFINITION = re.compile(r"^[ \t]*(?:async )?(def|class) +(\w+)", re.M)
CONSTANT = re.compile(r"^[ \t]*([A-Z_]+)(?:: [^=\n]*)? = ", re.M)


def prose(text):
    """Return text without code, targets of links and formulas."""
    text = re.sub(r"^ *(>>>|\.\.\. |\.\. \w).*$", "", text, flags=re.M)
    text = re.sub(r"``.+?``|`[^`\n]+`|\$[^$\n]+\$|\{(?:[^{}]|\{[^{}]*\})*\}", "CODE", text)
    return re.sub(r"\]\([^)]*\)|\[|\]", "", text)


def document_prose(text):
    """Return the prose of a Markdown document, without tables, titles and blocks of code."""
    text = re.sub(r"```.*?```|~~~.*?~~~|\$\$.*?\$\$|<!--.*?-->", "\n\n", text, flags=re.S)
    return prose(re.sub(r"^( *\||#|:::|    |!\[).*$", "", text, flags=re.M))


def sentences(text):
    """Yield the sentences of prose, one line each."""
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text):
        yield from re.split(r"(?<=[.!?:;])\s+(?=[\[*\"A-Z`])", " ".join(paragraph.split()))


def find_words(text):
    """Yield each banned word of a text with its replacement."""
    if ANY_WORD.search(text):
        for pattern, use in WORDS:
            for found in pattern.finditer(text):
                yield "word", f"{found.group()!r}: write {use}"


def check_document(text):
    """Yield the findings in a Markdown document."""
    text = document_prose(text)
    for sentence in sentences(text):
        number = len(re.findall(r"[A-Za-z][A-Za-z'-]+", sentence))
        if number > RULES["limits"]["words_per_sentence"]:
            yield "length", f"{number} words: {sentence[:70]}..."
    yield from find_words(text)


def check_names(text):
    """Yield the names of functions, classes and constants that break the rules."""
    rules = RULES["names"]
    for kind, name in DEFINITION.findall(text):
        bare = name.strip("_")
        if bare not in rules["not_participles"] and re.fullmatch(rules[kind], bare):
            yield "name", f"{kind.replace('def', 'function')} {name}"
    for name in CONSTANT.findall(text):
        if re.fullmatch(rules["constant"], name.strip("_")):
            yield "name", f"constant {name}"


def check_python(text):
    """Yield the findings in a Python or Cython file."""
    yield from check_names(text)
    for found in PYTHON.finditer(text):
        comment, start, strings = found.groups()
        if comment:
            yield from find_words(prose(comment))
        elif start is not None and '"""' in strings:
            docstring = inspect.cleandoc(strings.strip().strip("r").strip('"'))
            if re.match(rf"(?:{RULES['docstrings']['first_words']})\b", docstring):
                yield "first word", f"docstring: {docstring.splitlines()[0]}"
            yield from find_words(prose(docstring))
        elif " " in strings:
            yield from find_words(prose(re.sub(r"\"\s+[bfru]{0,2}\"", "", strings)))


def check_header(text):
    """Yield the findings in the comments of a C file."""
    yield from find_words(prose("\n".join(re.findall(r"/\*.*?\*/|//[^\n]*", text, re.S))))


def check_commits(root):
    """Yield the subjects of commits since the rules exist that break them."""
    rules = RULES["commits"]
    log = subprocess.run(
        ["git", "log", "--no-merges", "--format=%s", f"--since={rules['since']}"],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    for subject in log.stdout.splitlines():
        if len(subject) > rules["max_length"] or re.search(rules["not_imperative"], subject):
            yield "commit", subject


def findings(root):
    """Yield the place, the rule and the text of every finding in a folder."""
    checks = {".md": check_document, ".h": check_header}
    for pattern in RULES["files"]:
        for path in sorted(root.glob(pattern)):
            name = path.relative_to(root)
            if not any(name.match(skip) for skip in RULES["skip"]):
                check = checks.get(path.suffix, check_python)
                for rule, text in check(path.read_text(encoding="utf-8")):
                    yield str(name), rule, text
    for rule, subject in check_commits(root):
        yield "commit", rule, subject


def excuse(found):
    """Yield findings without a reason, and exceptions without a finding."""
    unused = {(name, text) for name, allowed in RULES["exceptions"].items() for text in allowed}
    for name, rule, text in found:
        reasons = {(name, part) for part in RULES["exceptions"].get(name, {}) if part in text}
        unused -= reasons
        if not reasons:
            yield name, rule, text
    yield from ((name, "exception", f"{text!r} needs no exception") for name, text in unused)


def main():
    """Print the findings, or their numbers; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--counts", action="store_true")
    given = parser.parse_args()
    found = list(findings(given.folder) if given.folder else excuse(findings(ROOT)))
    if given.counts:
        areas = Counter((name.split("/")[0], rule) for name, rule, _ in found)
        print("\n".join(f"{area}\t{rule}\t{areas[area, rule]}" for area, rule in sorted(areas)))
    else:
        print("\n".join(f"{name}: {text}" for name, _, text in found) or "language: in order")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
