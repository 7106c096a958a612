"""Every public name has a page with an example, and pages import nothing else."""

from importlib import import_module
from pathlib import Path

import pytest

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
