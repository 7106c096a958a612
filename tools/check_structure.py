"""Check the structure: the layers of ``pyproject.toml`` by import-linter, and these rules.

1. Below ``cli/`` no text contains an option of the command line: a message names a setting
   (``counterpoise.errors.Suggestion``), and the command line spells it.
2. No module uses a private name of another module.
3. No file has more than 600 lines.
4. No module has exactly one importer, unless its package lists it: it belongs to that importer.
5. No function has more than 8 parameters, except public constructors and commands.

``structure.toml`` has the exceptions to rules 2 to 5, each with its reason. A reason that is not
needed is an error. With a folder as argument only the rules are checked, of that folder.
"""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "counterpoise"
# "--drop", or the start of an f-string; not a property of a style sheet.
OPTION = re.compile(r"(?<![\w(-])--(?:[a-z][\w-]*(?![\w-]*:)|$)")
# Public methods of named tuples, and what pyspark requires authors of estimators to use.
PUBLIC = {"_asdict", "_field_defaults", "_fields", "_make", "_replace", "_dummy", "_resetUid"}
MAX_LINES = 600
MAX_PARAMETERS = 8


def option_texts(path, tree):
    """Yield texts that contain options, by line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for number, line in enumerate(node.value.splitlines()):
                found = OPTION.search(line)
                if found:
                    yield f"{path}:{node.lineno + number}: a text contains the option {found[0]!r}"


def own_names(tree):
    """Yield names that a module itself defines."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def is_private(name):
    """Return whether a name is for its own module."""
    return name.startswith("_") and not name.endswith("__")


def private_uses(path, tree):
    """Yield uses of private names of other modules."""
    own = {*own_names(tree), *PUBLIC}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield f"{path}::{node.attr}", f"line {node.lineno} uses {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("counterpoise"):
            parts = node.module.split(".")
            for name in [*parts, *(alias.name for alias in node.names)]:
                if is_private(name) and not is_compiled(parts, name):
                    yield f"{path}::{name}", f"line {node.lineno} imports it from {node.module}"


def is_compiled(parts, name):
    """Return whether a name is a compiled module, which the layers above its own may import."""
    folder = SOURCES.joinpath(*parts[1:])
    return any((at / f"{name}.pyx").exists() for at in (folder, folder.parent))


def long_files(root):
    """Yield files with more than 600 lines."""
    for kind in ("py", "pyx", "pxd", "h"):
        for path in root.rglob(f"*.{kind}"):
            lines = path.read_text().count("\n")
            if lines > MAX_LINES:
                yield str(path.relative_to(root)), f"more than {MAX_LINES} lines ({lines})"


def single_importers(root, trees):
    """Yield modules that one other module imports, and that no ``__init__`` lists."""
    names = {path: ".".join(("counterpoise", *path.with_suffix("").parts)) for path in trees}
    importers = {name: set() for path, name in names.items() if path.stem != "__init__"}
    for path, tree in trees.items():
        for target in imported_modules(tree):
            for name in importers.keys() & {target}:
                importers[name].add(path)
    for path, name in sorted(names.items()):
        init = path.parent / "__init__.py"
        found = importers.get(name, set()) - {path}
        if len(found) != 1 or any(one.stem == "__init__" for one in found):
            continue
        if not (root / init).exists() or f'"{path.stem}"' not in (root / init).read_text():
            yield str(path), f"only {next(iter(found))} imports it"


def imported_modules(tree):
    """Yield the modules of the package that a module may import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def long_signatures(trees):
    """Yield functions with too many parameters, except public constructors and commands."""
    tables = (tree for path, tree in trees.items() if path.stem == "__init__")
    public = {name for tree in tables for name in public_names(tree)}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            for function in body if isinstance(body, list) else []:
                if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    continue
                given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
                count = len([one for one in given if one.arg not in ("self", "cls")])
                owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
                constructor = owner[:-1] in public and function.name == "__init__"
                command = path.parts[0] == "cli" and "typer." in ast.unparse(function.args)
                if count > MAX_PARAMETERS and not constructor and not command:
                    yield f"{path}::{owner}{function.name}", f"{count} parameters"


def public_names(tree):
    """Yield the names in ``__all__``."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            yield from ast.literal_eval(node.value)


def excuse(found, reasons):
    """Yield findings without a reason, and reasons without a finding."""
    found = dict(found)
    yield from (f"{name}: {why}" for name, why in sorted(found.items()) if name not in reasons)
    for name in sorted(reasons.keys() - found.keys()):
        yield f"{name}: structure.toml has a reason for it that is no longer needed"


def problems(root, reasons):
    """Yield all problems of a package, given the reasons for exceptions to each rule."""
    trees = {p.relative_to(root): ast.parse(p.read_text()) for p in sorted(root.rglob("*.py"))}
    for path, tree in trees.items():
        if path.parts[0] != "cli":
            yield from option_texts(path, tree)
    used = [found for path, tree in trees.items() for found in private_uses(path, tree)]
    yield from excuse(used, reasons.get("private_names", {}))
    yield from excuse(long_files(root), reasons.get("long_files", {}))
    yield from excuse(single_importers(root, trees), reasons.get("single_importer", {}))
    yield from excuse(long_signatures(trees), reasons.get("many_parameters", {}))


def check_layers():
    """Return the exit code of import-linter on the sources.

    The finder of an editable install returns a virtual path that import-linter cannot read.
    """
    from importlinter.cli import lint_imports

    sys.meta_path[:] = [one for one in sys.meta_path if "editable" not in type(one).__module__]
    sys.path.insert(0, str(ROOT / "src"))
    return lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    folder, exceptions = (Path(given[0]),) * 2 if given else (SOURCES, Path(__file__).parent)
    exceptions = exceptions / "structure.toml"
    reasons = tomllib.loads(exceptions.read_text()) if exceptions.exists() else {}
    lines = list(problems(folder, reasons))
    print("\n".join(lines) or "structure: in order")
    sys.exit(bool(lines) or (0 if given else check_layers()))
