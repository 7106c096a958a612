"""One self-contained page with all tables and figures."""

from __future__ import annotations

import base64
import html
import re

from markdown_it import MarkdownIt

from . import tables
from .datasets import SETS
from .figure3 import TITLES
from .jobs import Settings

STYLE = """
  body { font: 16px/1.5 system-ui, sans-serif; color: #222; margin: 0 auto; max-width: 1200px;
    padding: 0 16px 48px; }
  h1 { font-size: 1.7rem; } h2 { font-size: 1.35rem; margin-top: 2.2em; } h3 { font-size: 1.1rem; }
  nav { columns: 3 220px; font-size: 0.9rem; margin: 12px 0 24px; }
  nav a { display: block; color: #0072B2; }
  .table { overflow-x: auto; margin: 12px 0; }
  table { border-collapse: collapse; font-size: 0.82rem; font-variant-numeric: tabular-nums; }
  th, td { min-width: 3.2em; padding: 3px 8px; border-bottom: 1px solid #ddd; vertical-align: top; }
  th { text-align: left; vertical-align: bottom; }
  td:last-child { min-width: 7em; }
  code { background: #f3f3f3; padding: 0 3px; overflow-wrap: anywhere; }
  a { color: #0072B2; overflow-wrap: anywhere; }
  figure { margin: 18px 0; } figure img { max-width: 100%; height: auto; display: block; }
  figcaption { font-size: 0.9rem; color: #444; }
"""
DIFFERENCES = {f"difference-{key}.svg": title for key, title in TITLES.items()}
SECTIONS: list[tuple[str, str, dict[str, str]]] = [
    # title, the page that it shows, figures with their captions
    ("Claims", "claims.md", {}),
    ("Table 1", "results/table1.md", {}),
    ("Table 2", "results/table2.md", {}),
    ("Table 3", "results/table3.md", {}),
    ("Every method tuned", "results/tuned.md", {}),
    ("Readings of ACOG", "results/acog.md", {}),
    ("Confounds", "results/confounds.md", {}),
    ("The imbalanced six", "results/six.md", {}),
    ("Table 4", "results/table4.md", {}),
    ("Figure 1", "results/figure1.md", {"figure1.svg": "Decision boundaries of order 1 and 4."}),
    ("Figure 3", "results/figure3.md", DIFFERENCES),
    ("Appendix C", "results/coefficients.md", {"coefficients.svg": "The learned coefficients."}),
    ("Appendix A", "results/bayes.md", {"bayes.svg": "The score, the formula, their distance."}),
    ("Appendix B", "results/multiclass.md", {"multiclass.svg": "Time of a row and classes."}),
    ("Orders", "results/orders.md", {"orders.svg": "Mean held-out G-mean by polynomial order."}),
    ("Sensitivity", "results/sensitivity.md", {"sensitivity.svg": "Mean G-mean by b and weight."}),
    ("Other readings", "results/readings.md", {}),
]  # fmt: skip


def stage(settings: Settings) -> None:
    """Write report.html."""
    renderer = MarkdownIt("commonmark").enable("table")
    body, links = [], []

    def section(title: str, text: str, figures: dict[str, str]) -> None:
        name = re.sub(r"\W+", "-", title.lower())
        links.append(f'<a href="#{name}">{html.escape(title)}</a>')
        made = renderer.render(re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text))  # no links to files
        made = made.replace("<table>", '<div class="table"><table>').replace(
            "</table>", "</table></div>"
        )
        for k in (3, 2, 1) if body else ():  # headings one level down, except the first
            made = made.replace(f"<h{k}>", f"<h{k + 1}>").replace(f"</h{k}>", f"</h{k + 1}>")
        body.append(f'<section id="{name}">{made}{_images(settings, figures)}</section>')

    section("Summary", (settings.out / "README.md").read_text(), {})
    for title, page, figures in SECTIONS:
        path = settings.out / page
        if path.exists():
            section(title, path.read_text(), figures)
    stages = {f"samples-{name}.svg": SETS[name].title for name in settings.sets}
    text = """# Figure 2 and appendix: along the stream

Norm of the weights, G-mean on the held-out half and CPU time of each arriving sample at 200 values
of t (all, where there are fewer), mean of the runs' first halves, of times the median. Legends:
mean ± deviation over the samples. LS and TER, computed from all rows at each t, are drawn as
bands, on which the recursions that equal them lie; they are left out on the three large sets, as
printed; where IR-RLS runs on the first rows only, the title shows it. Times were taken while the
other core was busy.
"""
    section("Figure 2 and appendix", text, stages)
    page = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>NR-RLS, reproduced</title>
<style>{STYLE}</style>
</head>
<body>
<nav>{"".join(links)}</nav>
{"".join(body)}
</body>
</html>
"""
    tables.write(settings.out / "report.html", page)


def _images(settings: Settings, figures: dict[str, str]) -> str:
    made = []
    for file, caption in figures.items():
        path = settings.figures / file
        if path.exists():
            kind = "svg+xml" if path.suffix == ".svg" else "png"
            data = base64.b64encode(path.read_bytes()).decode()
            made.append(
                f'<figure><img alt="{html.escape(caption)}" src="data:image/{kind};base64,{data}">'
                f"<figcaption>{html.escape(caption)}</figcaption></figure>"
            )
    return "".join(made)
