"""How the site is built: ``make docs``.

The source is the whole repository, of which only pages are taken: so links between documents are
the same on the site, in an editor and where the code is shown.
"""

import logging
import sys
import warnings
from importlib.metadata import version as installed
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).parent / "_extensions"),
    str(Path(__file__).parents[1] / "tools"),
]

from check_docs import public, public_members  # noqa: E402

project = "counterpoise"
author = "The counterpoise developers"
copyright = author  # noqa: A001
version = release = installed("counterpoise")

extensions = [
    "myst_parser",
    "numpydoc",
    "pages",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "validation",
]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "benchmarks/proofs/*.md",
    "benchmarks/results/*.md",
    "paper/*.md",
    "paper/results/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = ["docs/_templates/**", "**/sg_execution_times.rst"]
templates_path = [str(Path(__file__).parent / "_templates")]  # autosummary seeks from the root

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
numpydoc_show_class_members = False
autosummary_generate = True
autosummary_context = {
    "shown_members": {
        f"{module.__name__}.{name}": list(public_members(name, thing))
        for module, name, thing in public()
        if isinstance(thing, type)
    }
}
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "counterpoise"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("quiet.js", {"priority": 50})]
html_show_sourcelink = False
html_show_search_summary = False  # pages opened from a folder may not read each other
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "counterpoise"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}

sphinx_gallery_conf = {
    "examples_dirs": "examples/gallery",
    "gallery_dirs": "docs/gallery",
    "backreferences_dir": "docs/gallery/uses",
    "doc_module": ("counterpoise",),
    "image_scrapers": ("matplotlib", "figures.scraper"),
    "filename_pattern": "/",
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,  # into the root of the repository, with links outside
    "download_all_examples": False,
    "matplotlib_animations": True,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
logging.getLogger("matplotlib.animation").setLevel(logging.ERROR)  # without ffmpeg it takes Pillow
