"""Check the documents: links, the picture of the layers, and numpydoc of all public names.

pytest runs their examples. Internal functions need one sentence, which ruff checks. Here every
parameter and every result of the public API must have a sentence, and every public name an example.
"""

import inspect
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Packages whose __all__ is the public API.
PUBLIC = [
    "counterpoise",
    *(
        f"counterpoise.{name}"
        for name in (
            "errors", "evaluate", "feature_maps", "ledger", "mlflow", "online", "readers", "river",
            "serve", "spark",
        )
    ),
]  # fmt: skip
# Classes of which only some methods are public.
TRANSFORMER = {"fit", "transform", "get_feature_names_out"}
METHODS = {
    "Moments": {"of"},
    "FittedMap": {"transform"},
    "Hinges": TRANSFORMER,
    "Interactions": TRANSFORMER,
    "Landmarks": TRANSFORMER,
    "Polynomial": TRANSFORMER,
    "RandomFourier": TRANSFORMER,
    "Ranks": TRANSFORMER,
    "Steps": TRANSFORMER,
    "ReducedPolynomial": TRANSFORMER,
    "MapUnion": TRANSFORMER,
    "Chunk": set(),
}


def broken_links():
    """Yield relative links to files that do not exist."""
    for page in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("benchmarks/**/*.md"),
        *ROOT.glob("paper/**/*.md"),
    ]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            is_built = target.startswith(
                ("gallery/", "made/", "../made/")
            )  # while the site is built
            if not is_built and "://" not in target and not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)}: {target} does not exist"


def wrong_layers():
    """Yield layers and packages of pyproject.toml that CONTRIBUTING.md does not have."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    picture = re.search(r"## Layers\n\n```\n(.*?)```", text, re.DOTALL)
    drawn = [re.split(r"  +", line.strip())[0] for line in picture.group(1).splitlines()]
    for layer, line in zip(layers, drawn, strict=False):
        if layer != line:
            yield f"CONTRIBUTING.md draws the layer {line!r}, which is {layer!r} in pyproject.toml"
    if len(layers) != len(drawn):
        yield f"CONTRIBUTING.md draws {len(drawn)} layers, pyproject.toml has {len(layers)}"
    for path in (ROOT / "src" / "counterpoise").iterdir():
        name = f"{path.name}/" if (path / "__init__.py").exists() else path.name
        if name.endswith(("/", ".py")) and name != "__init__.py" and f"`{name}`" not in text:
            yield f"CONTRIBUTING.md has no line about {name}"


def public():
    """Yield module, name and object of all public names."""
    for module_name in PUBLIC:
        module = import_module(module_name)
        for name in module.__all__:
            yield module, name, getattr(module, name)


def names_without_example():
    """Yield public names without an example; a value has it in the docstring of its module."""
    for module, name, thing in public():
        value = not (inspect.isroutine(thing) or inspect.isclass(thing))
        shown = re.findall(r"^ *>>> .*", (module if value else thing).__doc__ or "", re.M)
        if not any(name in line for line in shown) if value else not shown:
            yield f"{module.__name__}.{name}: has no example"


def imports_of_private_names():
    """Yield names that pages and examples import although they are not public."""
    known = {f"{module.__name__}.{name}" for module, name, _ in public()} | set(PUBLIC)
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/start/*.md")]
    for page in [*pages, *ROOT.glob("examples/**/*.py")]:
        found = re.findall(
            r"^(?:>>> )?from (counterpoise[\w.]*) import (.+)", page.read_text(), re.M
        )
        for module, names in found:
            for name in re.sub(r" as \w+| *#.*", "", names).split(", "):
                if f"{module}.{name}" not in known:
                    yield f"{page.relative_to(ROOT)}: {module}.{name} is not public"


def public_members(name, thing):
    """Yield public methods and properties of a class, including those inherited from us."""
    for member, made in inspect.getmembers(thing):
        code = getattr(inspect.getattr_static(thing, member), "fget", made)
        ours = (getattr(code, "__module__", None) or "").startswith("counterpoise")
        wanted = member[0] != "_" and member in METHODS.get(name, {member})
        if ours and wanted and inspect.isroutine(code):
            yield member


def public_callables():
    """Yield name, callable and docstring of every public callable."""
    for module, name, thing in public():
        label = f"{module.__name__}.{name}"
        if inspect.isfunction(thing):
            yield label, thing, thing.__doc__
        elif inspect.isclass(thing):
            if name not in METHODS or "of" not in METHODS[name]:  # not made by its class method
                yield label, thing.__init__, thing.__doc__
            for member in public_members(name, thing):
                made = getattr(thing, member)
                if inspect.isroutine(made):
                    yield f"{label}.{member}", made, inspect.getdoc(made)


def undocumented_parameters():
    """Yield parameters and results without a sentence, and sentences without a parameter."""
    for label, function, doc in public_callables():
        text = inspect.cleandoc(doc or "")
        if not text:
            yield f"{label}: has no docstring"
        if ":meth:" in text.split("\n\n")[0]:  # documented where it points to
            continue
        signature = inspect.signature(function)
        kinds = {name: one.kind for name, one in signature.parameters.items() if name != "self"}
        taken = {
            k for k, kind in kinds.items() if kind.name not in ("VAR_POSITIONAL", "VAR_KEYWORD")
        }
        named = documented_names(text, "Parameters")
        fields = documented_names(text, "Attributes") if function.__name__ == "__init__" else set()
        if taken - named - fields or named - set(kinds):
            yield f"{label}: documented {sorted(named | fields)}, taken {sorted(taken)}"
        silent = signature.return_annotation in (None, "None", "NoReturn", inspect.Signature.empty)
        has_result = re.search(r"\A(Return|Plot|Render) |^(Returns|Yields)\n---", text, re.M)
        if taken and not silent and not has_result:
            yield f"{label}: does not describe its result"


def documented_names(text, section):
    """Return the names in a section of a docstring."""
    found = re.search(rf"^{section}\n-+\n(.*?)(\n\n\w[^\n]*\n-+\n|\Z)", text, re.DOTALL | re.M)
    heads = re.findall(r"^\**(\w+(?:, \w+)*)(?: :|$)", found.group(1), re.M) if found else []
    return {name for head in heads for name in head.split(", ")}


if __name__ == "__main__":
    problems = [
        *broken_links(),
        *wrong_layers(),
        *undocumented_parameters(),
        *names_without_example(),
        *imports_of_private_names(),
    ]
    print("\n".join(problems) or "documents: links, layers, parameters and examples are in order")
    sys.exit(bool(problems))
