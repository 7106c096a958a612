"""Evaluation of classifiers on rare classes.

- ``measure``, ``Metrics``, ``Confusion``: metrics of predictions, for each class
- ``cost_curve``, ``CostCurve``, ``should_alert``: the cost of a threshold, decisions by cost
- ``run_benchmark``, ``Result``: several methods on one stream, progressively
- ``render_benchmark``: its HTML report

Reports need the extra ``plots``, the benchmark needs ``cli``.
"""

from typing import TYPE_CHECKING

from counterpoise.evaluate.cost_curve import CostCurve, cost_curve, should_alert
from counterpoise.evaluate.metrics import Confusion, Metrics, Result, measure
from counterpoise.public_names import lazy_names

if TYPE_CHECKING:
    from counterpoise.evaluate.benchmark import run_benchmark
    from counterpoise.evaluate.html_report import render_benchmark

__all__ = [
    "Confusion",
    "CostCurve",
    "Metrics",
    "Result",
    "cost_curve",
    "measure",
    "render_benchmark",
    "run_benchmark",
    "should_alert",
]
_MODULES = {"render_benchmark": "html_report", "run_benchmark": "benchmark"}
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
