"""Pictures of examples that are figures without a window: those that our plots return."""

import re

from matplotlib.figure import Figure
from matplotlib.pyplot import fignum_exists, figure
from sphinx_gallery.scrapers import figure_rst


def scraper(block, variables, gallery):
    """Save the figures that a block gives a name to at the start of a line."""
    made = variables["example_globals"]
    paths = []
    for name in re.findall(r"^(\w+) = ", block[1], re.MULTILINE):
        found = made.get(name)
        if isinstance(found, Figure) and not _has_window(found):
            path = next(variables["image_path_iterator"])
            found.savefig(path, facecolor="white")
            paths.append(path)
    return figure_rst(paths, gallery["src_dir"])


def _has_window(found):
    number = getattr(found, "number", None)
    return number is not None and fignum_exists(number) and figure(number) is found
