"""Check the mechanical rules of our English: names, docstrings, comments, documents, commits.

The words and the exceptions are in ``tools/language.toml``. ``--counts`` prints the number of
findings of each rule instead.
"""

import argparse
import ast
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
RULES = tomllib.loads((ROOT / "tools" / "language.toml").read_text())
WORDS = [(re.compile(rf"\b(?:{words})\b", re.I), use) for words, use in RULES["words"].items()]
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def prose(text):
    """Return text without code, links' targets, formulas, tables and titles."""
    text = re.sub(r"```.*?```|~~~.*?~~~|\$\$.*?\$\$|<!--.*?-->", "\n\n", text, flags=re.S)
    text = re.sub(r"^(\||#|:::|    |>>>|\.\.\. |!\[).*$", "", text, flags=re.M)
    text = re.sub(r"``.+?``|`[^`\n]+`|\$[^$\n]+\$", "CODE", text)
    return re.sub(r"\]\([^)]*\)|\[|\]", "", text)


def sentences(text):
    """Yield the sentences of prose, one line each."""
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text):
        yield from re.split(r"(?<=[.!?:;])\s+(?=[\[*\"A-Z`])", " ".join(paragraph.split()))


def find_words(text):
    """Yield each banned word of a text with its replacement."""
    for pattern, use in WORDS:
        for found in pattern.finditer(text):
            yield "word", f"{found.group()!r}: write {use}"


def check_document(path):
    """Yield the findings in a Markdown document."""
    text = prose(path.read_text())
    for sentence in sentences(text):
        number = len(re.findall(r"[A-Za-z][A-Za-z'-]+", sentence))
        if number > RULES["limits"]["words_per_sentence"]:
            yield "length", f"{number} words: {sentence[:70]}..."
    yield from find_words(text)


def check_docstring(node):
    """Yield the findings in the docstring of a module, class or function."""
    text = ast.get_docstring(node)
    if not text or not isinstance(node, (*DEFINITIONS, ast.Module)):
        return
    if re.match(rf"(?:{RULES['docstrings']['first_words']})\b", text):
        yield "first word", f"{getattr(node, 'name', 'module')}: {text.splitlines()[0]}"
    yield from find_words(prose(text))


def check_names(tree):
    """Yield the names of functions, classes and constants that break the rules."""
    rules = RULES["names"]
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS):
            kind = "classes" if isinstance(node, ast.ClassDef) else "functions"
            name = node.name.strip("_")
            if re.fullmatch(rules[kind], name) and name not in rules["participles_that_are_nouns"]:
                yield "name", f"{kind[:-1]} {node.name}"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in getattr(node, "targets", None) or [node.target]:
                name = target.id.strip("_") if isinstance(target, ast.Name) else ""
                if re.fullmatch(rules["constants"], name):
                    yield "name", f"constant {name}"


def check_module(path):
    """Yield the findings in a Python or Cython file."""
    with open(path, "rb") as file:
        if path.suffix == ".py":
            tree = ast.parse(file.read())
            yield from check_names(tree)
            documented = set()
            for node in ast.walk(tree):
                if isinstance(node, (*DEFINITIONS, ast.Module)):
                    yield from check_docstring(node)
                    if ast.get_docstring(node):
                        documented.add(id(node.body[0].value))
            for node in ast.walk(tree):
                is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
                if is_text and id(node) not in documented and " " in node.value:
                    yield from find_words(prose(node.value))
            file.seek(0)
            for token in tokenize.tokenize(file.readline):
                if token.type == tokenize.COMMENT:
                    yield from find_words(prose(token.string))
        else:
            text = file.read().decode()
            for comment in re.findall(r'#.*|"""(?s:.*?)"""|/\*(?s:.*?)\*/|//.*', text):
                yield from find_words(prose(comment))


def check_commits():
    """Yield the subjects of commits since the rules exist that break them."""
    since = RULES["commits"]["since"]
    log = subprocess.run(
        ["git", "log", "--no-merges", "--format=%s", f"--since={since}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    for subject in log.stdout.splitlines():
        if (
            len(subject) > 72
            or ";" in subject
            or re.match(r"\w+(?<!e)ed\b|\w+ing\b|[a-z]", subject)
        ):
            yield "commit", subject


def findings():
    """Yield the place, the rule and the text of every finding that is not an exception."""
    for pattern in RULES["files"]:
        for path in sorted(ROOT.glob(pattern)):
            name = str(path.relative_to(ROOT))
            if any(Path(name).match(skip) for skip in RULES["skip"]):
                continue
            check = check_document if path.suffix == ".md" else check_module
            allowed = RULES["exceptions"].get(name, {})
            for rule, text in check(path):
                if not any(word in text for word in allowed):
                    yield name, rule, text
    for rule, subject in check_commits():
        yield "commit", rule, subject


def main():
    """Print the findings, or their numbers; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", action="store_true")
    found = list(findings())
    if parser.parse_args().counts:
        areas = Counter((name.split("/")[0], rule) for name, rule, _ in found)
        for (area, rule), number in sorted(areas.items()):
            print(f"{area}\t{rule}\t{number}")
        return 0
    for name, _, text in found:
        print(f"{name}: {text}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
