"""numpydoc's own checks of every public name and of what users call on it, as warnings."""

import inspect
import pydoc

from check_docs import public, public_members
from numpydoc.validate import validate
from sphinx.util import logging

# What these say is checked otherwise, or is a matter of taste.
LEFT = {
    "ES01": "a short summary can say it all",
    "EX01": "tools/check_docs.py requires an example of each name; methods may do without",
    "PR01": "tools/check_docs.py demands it, and takes the attributes of a result for parameters",
    "PR04": "river leaves types to annotations, and so does its face; others say where they stand",
    "PR08": "some sentences begin with a letter of the paper",
    "RT01": "what takes nothing and returns a value says so in its summary",
    "RT03": "self, Figure or a type says enough",
    "SA01": "pages link to each other in their texts",
    "SS05": "a summary may begin with a plural: Probabilities of each class",
}


def get_doc_object(name):
    """Return a public object, given its full name."""
    found = pydoc.locate(name)
    if found is None:
        parent, _, member = name.rpartition(".")
        found = getattr(pydoc.locate(parent), member)
    return found


def names():
    """Full names of all that is public, with methods and properties."""
    for module, name, thing in public():
        full = f"{module.__name__}.{name}"
        if inspect.isclass(thing):
            yield full
            yield from (f"{full}.{member}" for member in public_members(name, thing))
        elif inspect.isroutine(thing):
            yield full


def check(_):
    """Warn of what is wrong, which stops the build."""
    log = logging.getLogger(__name__)
    for name in names():
        for code, said in validate(name)["errors"]:
            # A method without a docstring of its own has that of the base class, as on its page.
            is_inherited = code == "GL08" and inspect.getdoc(get_doc_object(name)) is not None
            if code not in LEFT and not is_inherited:
                log.warning("%s: %s %s", name, code, said)


def setup(app):
    """Check before the pages are made."""
    app.connect("builder-inited", check)
    return {"parallel_read_safe": True}
