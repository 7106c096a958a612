"""Check three rules of the house that no other tool knows.

Below ``cli/`` no text names an option of the command line: a message names a setting
(``counterpoise.errors.Remedy``), and whoever shows it spells it. With ``--underscores`` also: no
module uses a private name of another one. And no file is longer than 600 lines without a reason.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "counterpoise"
# "--drop", or what an f-string puts together; not a property of a style sheet.
OPTION = re.compile(r"(?<![\w(-])--(?:[a-z][\w-]*(?![\w-]*:)|$)")
# Of named tuples, which are public all the same.
TUPLES = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}
MAX_LINES = 600  # of a file
LONG = {
    "estimators/auto.py": "one public class, half of it docstrings",
    "estimators/balanced_ridge.py": "one public class, more than half of it docstrings",
    "moments/_moments.pyx": "the kernels of one object, which share their helpers",
    "stepwise/_block_scorer.pyx": "one compiled class: the steps of a block, one derivation",
    "engine/state.py": "one object: all that a model has learned",
    "tables/event_store.py": "one object: pending events, labels that wait, and learned ids",
    "ledger/ledger.py": "one public class, more than half of it docstrings",
    "river/balanced_ridge.py": "one public class, nearly half of it docstrings",
    "estimators/table.py": "one public class, more than half of it docstrings",
    "cli/learn.py": "to be shortened by option groups",
    "cli/ledger.py": "to be shortened by option groups",
    "evaluate/plots.py": "all plots",
    "ledger/ingest.py": "inputs to cells: learn, unlearn, roll up",
    "ledger/storage.py": "one SQLite file: schema, transactions, digest",
    "tables/model.py": "a model with columns",
}
PYSPARK = {"_dummy", "_resetUid"}  # which its own guide tells authors of estimators to use


def named_options(path, tree):
    """Texts that name options, by line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for number, line in enumerate(node.value.splitlines()):
                found = OPTION.search(line)
                if found:
                    yield f"{path}:{node.lineno + number}: a text names the option {found[0]!r}"


def own_names(tree):
    """Private names that a module itself gives to something."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def private(name):
    """Whether a name is for its own module."""
    return name.startswith("_") and not name.endswith("__")


def foreign_names(path, tree):
    """Uses of private names of other modules, by line."""
    own = {*own_names(tree), *TUPLES, *PYSPARK}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield f"{path}:{node.lineno}: uses {ast.unparse(node)}, which is private"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("counterpoise"):
            parts = node.module.split(".")
            for name in [*parts, *(alias.name for alias in node.names)]:
                if private(name) and not compiled(parts, name):
                    yield f"{path}:{node.lineno}: imports {name} of {node.module}, which is private"


def compiled(parts, name):
    """Return whether a name is a compiled module, which the layers above its own may import."""
    folder = SOURCES.joinpath(*parts[1:])
    return any((at / f"{name}.pyx").exists() for at in (folder, folder.parent))


def long_files(root):
    """Files that are too long, and reasons that are no longer needed."""
    files = [path for kind in ("py", "pyx", "pxd", "h") for path in root.rglob(f"*.{kind}")]
    long = {path for path in files if path.read_text().count("\n") > MAX_LINES}
    excused = {root / name for name in LONG} if root == SOURCES else set()
    yield from (
        f"{path}: more than {MAX_LINES} lines and no reason" for path in sorted(long - excused)
    )
    yield from (f"{path}: a reason to be long, but it is not" for path in sorted(excused - long))


def problems(root, underscores):
    """All that is wrong below a folder.

    Parameters
    ----------
    root : Path
        The package.
    underscores : bool
        Whether to look for private names too.
    """
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text())
        if path.relative_to(root).parts[0] != "cli":
            yield from named_options(path, tree)
        if underscores:
            yield from foreign_names(path, tree)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    underscores = "--underscores" in arguments
    folders = [Path(word) for word in arguments if word != "--underscores"] or [SOURCES]
    found = [line for folder in folders for line in problems(folder, underscores)]
    found += [line for folder in folders for line in long_files(folder)]
    print("\n".join(found).replace(f"{ROOT}/", "") or "house: texts and names are in order")
    sys.exit(bool(found))
