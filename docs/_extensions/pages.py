"""Pages that are written while the site is built: the commands, and what was measured."""

import inspect
import re
from importlib import import_module
from pathlib import Path

from check_docs import PUBLIC

ROOT = Path(__file__).parents[2]
MADE = ROOT / "docs" / "made"


BENCHMARKS = """# Benchmarks

Speed is measured as a ratio to a peer or to bare BLAS in the same run. Each figure is the best of
several interleaved rounds. Long tests of correctness and accuracy are listed, too. `make bench` and
`make prove` run all of them. The command next to a page writes it.

| page | command |
|---|---|
{rows}

```{{toctree}}
:hidden:

{names}
```
"""

COMMANDS = """# Every option

The `--help` text of each command. The [command line](../commands/index.md) pages have examples.

{sections}
"""


HOME = """<!DOCTYPE html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url=docs/index.html">
<link rel="icon" href="data:,">
<title>counterpoise</title>
<h1><a href="docs/index.html">counterpoise</a></h1>
"""
API = """API
===

All public classes and functions. Everything else is private, and may change at any time.
"""


def api():
    """Return the index of all public names, module by module, each under its first module."""
    parts, listed = [API], set()
    for name in PUBLIC:
        module = import_module(name)
        said = (inspect.getdoc(module) or "").split("\n\n")[0]
        parts.append(f"{name}\n{'-' * len(name)}\n\n{said}\n\n.. currentmodule:: {name}\n")
        for template in ("class", "function", "value"):
            found = [one for one in module.__all__ if kind(getattr(module, one)) == template]
            found = [one for one in found if id(getattr(module, one)) not in listed]
            listed.update(id(getattr(module, one)) for one in found)
            if found:
                parts.append(
                    f".. autosummary::\n   :toctree: ../api\n   :template: {template}.rst\n"
                )
                parts.append("\n".join(f"   {one}" for one in found) + "\n")
    return "\n".join(parts)


def kind(thing):
    """Which template makes the page of a public thing."""
    return "class" if inspect.isclass(thing) else "function" if callable(thing) else "value"


def benchmarks():
    """The index of the tracked tables."""
    rows, names = [], []
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.md")):
        title = path.read_text().splitlines()[0].lstrip("# ")
        module = script(path.stem)
        rows.append(f"| [{title}](../../benchmarks/results/{path.name}) | `python -m {module}` |")
        names.append(f"../../benchmarks/results/{path.stem}")
    return BENCHMARKS.format(rows="\n".join(rows), names="\n".join(names))


def script(result):
    """Return the module that writes a tracked table."""
    for path in sorted((ROOT / "benchmarks").glob("*/*.py")):
        if f'"{result}"' in path.read_text():
            return ".".join(path.relative_to(ROOT).with_suffix("").parts)
    raise LookupError(f"no benchmark writes {result}.md")


def helps(command, context):
    """Path, help and options of a command, or of those in a group."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from helps(inner, context.__class__(inner, info_name=name, parent=context))
        return
    yield context.command_path, command, context


def reference():
    """The reference of the command line."""
    import typer

    from counterpoise.cli.app import commands

    top = typer.main.get_command(commands())
    context = top.make_context("counterpoise", ["--help"], resilient_parsing=True)
    sections = []
    for path, command, inner in helps(top, context):
        text = re.sub(r"\s*\n(?!\n)\s*", " ", (command.help or "").replace("\n\n", "\0"))
        lines = [f"## {path}", "", text.replace("\0", "\n\n"), "", "| option | |", "|---|---|"]
        for option in command.get_params(inner):
            record = option.get_help_record(inner)
            names = option.opts if record is None else [re.sub(r" <.*>$", "", record[0])]
            words = getattr(option, "help", None) if record is None else record[1]
            if getattr(option, "hidden", False) or not names:
                continue
            cells = [
                " ".join(str(cell or "").split()).replace("|", "\\|")
                for cell in (f"`{', '.join(names)}`", words)
            ]
            lines.append(f"| {cells[0]} | {cells[1]} |")
        sections.append("\n".join(lines))
    return COMMANDS.format(sections="\n\n".join(sections))


def write(*_):
    """Write the pages, where they have changed."""
    MADE.mkdir(exist_ok=True)
    pages = {"api.rst": api, "benchmarks.md": benchmarks, "commands.md": reference}
    for name, made in pages.items():
        path, text = MADE / name, made()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def without_fonts(app, name, source):
    """Films bring their icons from outside; the theme has the same."""
    source[0] = re.sub(
        r'<link rel="stylesheet"\s+href="https:[^>]+font-awesome[^>]+>', "", source[0]
    )


def strip_blocks(app, doctree):
    """Remove the empty line at the end of examples, which doctest needs and readers do not."""
    from docutils import nodes  # comes with Sphinx, which tests of this module do without

    for block in doctree.findall(nodes.literal_block):
        block.rawsource = block.rawsource.rstrip()
        block[:] = [nodes.Text(block.rawsource)]


def lead_home(app, error):
    """Let the root of the site lead to its first page, which is a document of the repository."""
    if error is None and app.builder.name == "html":
        (Path(app.outdir) / "index.html").write_text(HOME)


def setup(app):
    """Let Sphinx write the pages before it looks for any."""
    app.connect("config-inited", write)
    app.connect("source-read", without_fonts)
    app.connect("doctree-read", strip_blocks)
    app.connect("build-finished", lead_home)
    return {"parallel_read_safe": True}
