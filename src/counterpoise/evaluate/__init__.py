"""Evaluation of classifiers on rare classes.

- ``measure``, ``Metrics``, ``Confusion``: metrics of predictions, for each class
- ``cost_curve``, ``CostCurve``, ``should_alert``: the cost of a threshold, decisions by cost
- ``run_benchmark``, ``Result``: several methods on one stream, progressively
- ``render_benchmark``: its HTML report
- ``Study``, ``ProgressiveEvaluation``, ``FoldEvaluation``, ``RetrainedClassifier``: learners on
  many data sets, with resumable results
- ``drifting_stream``: synthetic streams with drift
- ``compare_ranks``, ``RankComparison``, ``wilcoxon_holm``, ``bayesian_signed_rank``,
  ``SignedRankPosterior``, ``plot_ranks``: tests over data sets

Reports and plots need the extra ``plots``, benchmarks and studies need ``cli``.
"""

from typing import TYPE_CHECKING

from counterpoise.evaluate.cost_curve import CostCurve, cost_curve, should_alert
from counterpoise.evaluate.metrics import Confusion, Metrics, Result, measure
from counterpoise.public_names import lazy_names

if TYPE_CHECKING:
    from counterpoise.evaluate.benchmark import run_benchmark
    from counterpoise.evaluate.drift import drifting_stream
    from counterpoise.evaluate.evaluation import (
        FoldEvaluation,
        ProgressiveEvaluation,
        RetrainedClassifier,
    )
    from counterpoise.evaluate.html_report import render_benchmark
    from counterpoise.evaluate.plots import plot_ranks
    from counterpoise.evaluate.rank_tests import (
        RankComparison,
        SignedRankPosterior,
        bayesian_signed_rank,
        compare_ranks,
        wilcoxon_holm,
    )
    from counterpoise.evaluate.study import Study

__all__ = [
    "Confusion",
    "CostCurve",
    "FoldEvaluation",
    "Metrics",
    "ProgressiveEvaluation",
    "RankComparison",
    "Result",
    "RetrainedClassifier",
    "SignedRankPosterior",
    "Study",
    "bayesian_signed_rank",
    "compare_ranks",
    "cost_curve",
    "drifting_stream",
    "measure",
    "plot_ranks",
    "render_benchmark",
    "run_benchmark",
    "should_alert",
    "wilcoxon_holm",
]
_MODULES = {
    "FoldEvaluation": "evaluation",
    "ProgressiveEvaluation": "evaluation",
    "RankComparison": "rank_tests",
    "RetrainedClassifier": "evaluation",
    "SignedRankPosterior": "rank_tests",
    "Study": "study",
    "bayesian_signed_rank": "rank_tests",
    "compare_ranks": "rank_tests",
    "drifting_stream": "drift",
    "plot_ranks": "plots",
    "render_benchmark": "html_report",
    "run_benchmark": "benchmark",
    "wilcoxon_holm": "rank_tests",
}
__getattr__, __dir__ = lazy_names(__name__, _MODULES)
