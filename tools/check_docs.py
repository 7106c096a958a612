"""Check the documents: links lead somewhere, and everything public is documented.

The examples in them are run by pytest.
"""

import inspect
import re
import sys
from pathlib import Path

import counterpoise

ROOT = Path(__file__).parent.parent


def broken_links():
    """Relative links to files that are not there."""
    for page in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("benchmarks/**/*.md"),
        *ROOT.glob("paper/**/*.md"),
    ]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)}: {target} does not exist"


def undocumented():
    """Parameters without a sentence, and sentences without a parameter."""
    for name in counterpoise.__all__:
        thing = getattr(counterpoise, name)
        methods = inspect.getmembers(thing, inspect.isfunction)
        own = [(k, m) for k, m in methods if m.__module__.startswith("counterpoise")]
        for label, function, doc in [(name, thing.__init__, inspect.getdoc(thing))] + [
            (f"{name}.{k}", m, inspect.getdoc(m)) for k, m in own if not k.startswith("_")
        ]:
            section = re.search(r"Parameters\n-+\n(.*?)(\n\w[^\n]*\n-+\n|\Z)", doc or "", re.DOTALL)
            told = (
                set(re.findall(r"^(\w+) :", section.group(1), re.MULTILINE)) if section else set()
            )
            taken = set(inspect.signature(function).parameters) - {"self", "args", "kwargs"}
            if section and told != taken:
                yield f"{label}: documented {sorted(told)}, taken {sorted(taken)}"


if __name__ == "__main__":
    problems = [*broken_links(), *undocumented()]
    print("\n".join(problems) or "documents: links and parameters are in order")
    sys.exit(bool(problems))
