"""Every public name has a page with an example, and pages import nothing else."""

from importlib import import_module
from pathlib import Path

import pytest

from counterpoise.public_names import document_like

ROOT = Path(__file__).parents[2]


@pytest.fixture
def check_docs(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    return import_module("check_docs")


def test_every_public_name_has_a_page(check_docs, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_extensions")
    index, listed = import_module("pages").api(), set()
    for module, name, thing in check_docs.public():
        part = index.split(f".. currentmodule:: {module.__name__}\n")[1].split("currentmodule")[0]
        assert (f"\n   {name}\n" in part) == (id(thing) not in listed)  # under its first module
        listed.add(id(thing))


def test_every_public_name_has_an_example(check_docs):
    assert not list(check_docs.names_without_example())
    assert not list(check_docs.imports_of_private_names())


def test_a_name_without_an_example_is_found(check_docs, monkeypatch):
    module = import_module("counterpoise.feature_maps.fitted")
    monkeypatch.setattr(module, "__all__", ["KINDS", "map_of"], raising=False)
    monkeypatch.setattr(check_docs, "PUBLIC", [module.__name__])
    assert [line.split(": ")[0] for line in check_docs.names_without_example()] == [
        f"{module.__name__}.{name}" for name in ("KINDS", "map_of")
    ]
    assert any("README.md" in line for line in check_docs.imports_of_private_names())


def test_a_docstring_is_completed_by_the_parameters_and_results_of_another():
    def source(a, b):
        """Return the sum.

        Parameters
        ----------
        a : int
            First.
        b : int
            Second.

        Returns
        -------
        int
        """

    @document_like(source)
    def function(b, c):
        """Return another sum.

        Parameters
        ----------
        c : int
            Third.

        Examples
        --------
        >>> 1 + 1
        2
        """

    titles = ["Parameters\n----------", "Returns\n-------", "Examples\n--------"]
    sections = function.__doc__.split("\n\n")
    assert ["\n".join(section.splitlines()[:2]) for section in sections[1:]] == titles
    assert sections[1].splitlines()[2:] == ["b : int", "    Second.", "c : int", "    Third."]
