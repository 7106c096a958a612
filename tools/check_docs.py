"""Check the documents: links, the map of the house, and numpydoc of all that users call.

The examples in them are run by pytest. What users do not call needs one good sentence, which ruff
demands; here every parameter and every result of the public surface must have its own.
"""

import inspect
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Modules and what of them users call; None: all that __all__ names.
PUBLIC = {
    "counterpoise": None,
    "counterpoise.datasets": None,
    "counterpoise.evaluate.confusion": ["Confusion"],
    "counterpoise.evaluate.metrics": ["Metrics", "measure"],
    "counterpoise.evaluate.plots": [
        "class_shares", "confusion_matrix", "critical_difference", "g_mean_over_stream",
        "largest_weights", "precision_recall", "time_per_row",
    ],
    "counterpoise.evaluate.protocol": ["Fold", "fold", "folds", "g_mean", "halves", "judge"],
    "counterpoise.evaluate.race": ["Result", "race", "winner"],
    "counterpoise.evaluate.ranks": ["Comparison", "against", "compare", "paired"],
    "counterpoise.evaluate.report": ["evaluation", "page"],
    "counterpoise.features": [
        "FixedMap", "Interactions", "Polynomial", "RandomFourier", "ReducedPolynomial", "Union",
        "fixed", "fixed_by", "map_of", "terms",
    ],
    "counterpoise.online": None,
    "counterpoise.reasons": None,
    "counterpoise.reasons.drawing": ["overview", "waterfall"],
    "counterpoise.river": ["BalancedRidgeClassifier"],
    "counterpoise.spark": None,
    "counterpoise.streams": ["source"],
}  # fmt: skip
# Of these only some methods are for users, the others for the classifiers.
TRANSFORMER = {"fit", "transform", "get_feature_names_out"}
METHODS = {
    "Moments": {"of"},
    "FixedMap": {"transform"},
    "Interactions": TRANSFORMER,
    "Polynomial": TRANSFORMER,
    "RandomFourier": TRANSFORMER,
    "ReducedPolynomial": TRANSFORMER,
    "Union": TRANSFORMER,
}


def broken_links():
    """Relative links to files that are not there."""
    for page in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("benchmarks/**/*.md"),
        *ROOT.glob("paper/**/*.md"),
    ]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            made = target.startswith(("made/", "../made/"))  # while the site is built
            if not made and "://" not in target and not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)}: {target} does not exist"


def wrong_map():
    """Layers and rooms that CONTRIBUTING.md draws otherwise than pyproject.toml has them."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    picture = re.search(r"## The map of the house\n\n```\n(.*?)```", text, re.DOTALL)
    drawn = [re.split(r"  +", line.strip())[0] for line in picture.group(1).splitlines()]
    for layer, line in zip(layers, drawn, strict=False):
        if layer != line:
            yield f"CONTRIBUTING.md draws the layer {line!r}, which is {layer!r} in pyproject.toml"
    if len(layers) != len(drawn):
        yield f"CONTRIBUTING.md draws {len(drawn)} layers, pyproject.toml has {len(layers)}"
    for path in (ROOT / "src" / "counterpoise").iterdir():
        room = f"{path.name}/" if (path / "__init__.py").exists() else path.name
        if room.endswith(("/", ".py")) and room != "__init__.py" and f"`{room}`" not in text:
            yield f"CONTRIBUTING.md has no line about {room}"


def surface():
    """Name, callable and docstring of everything that users call."""
    for module_name, names in PUBLIC.items():
        module = import_module(module_name)
        for name in names or module.__all__:
            thing, label = getattr(module, name), f"{module_name}.{name}"
            if inspect.isfunction(thing):
                yield label, thing, thing.__doc__
            elif inspect.isclass(thing):
                if name not in METHODS or "of" not in METHODS[name]:  # not made by its class method
                    yield label, thing.__init__, thing.__doc__
                for method, made in inspect.getmembers(thing, inspect.isroutine):
                    ours = (getattr(made, "__module__", None) or "").startswith("counterpoise")
                    if ours and method in METHODS.get(name, {method}) and method[0] != "_":
                        yield f"{label}.{method}", made, inspect.getdoc(made)


def undocumented():
    """Parameters without a sentence, sentences without a parameter, results without a word."""
    for label, function, doc in surface():
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
        named = documented(text, "Parameters")
        fields = documented(text, "Attributes") if function.__name__ == "__init__" else set()
        if taken - named - fields or named - set(kinds):
            yield f"{label}: documented {sorted(named | fields)}, taken {sorted(taken)}"
        silent = signature.return_annotation in (None, "None", "NoReturn", inspect.Signature.empty)
        if taken and not silent and not re.search(r"^(Returns|Yields)\n---", text, re.M):
            yield f"{label}: does not say what it returns"


def documented(text, section):
    """Names in a section of a docstring."""
    found = re.search(rf"^{section}\n-+\n(.*?)(\n\n\w[^\n]*\n-+\n|\Z)", text, re.DOTALL | re.M)
    heads = re.findall(r"^\**(\w+(?:, \w+)*)(?: :|$)", found.group(1), re.M) if found else []
    return {name for head in heads for name in head.split(", ")}


if __name__ == "__main__":
    problems = [*broken_links(), *wrong_map(), *undocumented()]
    print("\n".join(problems) or "documents: links, the map and parameters are in order")
    sys.exit(bool(problems))
