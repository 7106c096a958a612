"""Studies: data sets times learners times seeds, with resumable results in one table.

A data set is made from a seed, and so is a learner. An evaluation applies one to the other and
yields metrics of parts: windows of a stream, or folds. Results are written after every run, sorted,
so that an interrupted study continues where it stopped and ends with the same table, except for
CPU seconds.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from counterpoise.arrays import Matrix, Vector
from counterpoise.evaluate.evaluation import ALL, Part, ProgressiveEvaluation
from counterpoise.evaluate.rank_tests import (
    RankComparison,
    SignedRankPosterior,
    bayesian_signed_rank,
    compare_ranks,
    wilcoxon_holm,
)

LOW_IS_BEST = ("log_loss", "cost", "seconds")


@dataclass
class Study:
    """Learners on data sets, with resumable results in one table.

    Parameters
    ----------
    path : str or Path, optional
        CSV file of the results, compressed if it ends with ``.gz``; None to keep them in memory.
    data : dict of str to callable
        Functions of a seed that make a data set: what the evaluation takes, X and y.
    learners : dict of str to callable
        Functions of a seed that make a learner.
    evaluate : callable, default=ProgressiveEvaluation()
        Function of a data set and a learner that yields parts and their metrics.
    seeds : sequence of int, default=(0,)
        Seeds of data sets and learners.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> from counterpoise import BalancedRidgeClassifier
    >>> from counterpoise.evaluate import Study, drifting_stream
    >>> study = Study(
    ...     data={"sudden": lambda seed: drifting_stream("sudden", rows=2_000, seed=seed)},
    ...     learners={"half-life": lambda seed: BalancedRidgeClassifier(half_life=200),
    ...               "SGD": lambda seed: SGDClassifier(random_state=seed)},
    ... )
    >>> found = study.run().values("g_mean")
    >>> found.shape, bool(found[0, 0] > found[0, 1])
    ((1, 2), True)
    """

    path: str | Path | None = None
    data: Mapping[str, Callable[[int], Any]] = field(default_factory=dict)
    learners: Mapping[str, Callable[[int], Any]] = field(default_factory=dict)
    evaluate: Callable[[Any, Any], Iterable[Part]] = field(default_factory=ProgressiveEvaluation)
    seeds: Sequence[int] = (0,)

    def __post_init__(self) -> None:
        # metrics by data set, seed and learner, and by part
        self.found: dict[tuple[str, int, str], dict[str, dict[str, float]]] = {}
        if self.path is not None and Path(self.path).exists():
            self._read(Path(self.path))

    def run(self, processes: int = 1, again: Sequence[str] = ()) -> Study:
        """Run what has no result, write the table after every run, and return the study.

        Parameters
        ----------
        processes : int, default=1
            Runs at the same time; -1 for one per core.
        again : sequence of str, default=()
            Learners that run again.

        Returns
        -------
        Study
            This study.
        """
        from joblib import Parallel, delayed

        every = itertools.product(self.data, self.seeds, self.learners)
        jobs = [key for key in every if key not in self.found or key[2] in again]
        calls = (
            delayed(_run)(key, self.data[key[0]], self.learners[key[2]], self.evaluate)
            for key in jobs
        )
        for key, parts in Parallel(processes, return_as="generator_unordered")(calls):
            self.found[key] = parts
            if self.path is not None:
                self._write(Path(self.path))
        return self

    def _read(self, path: Path) -> None:
        with _open(path, "r") as file:
            rows = csv.reader(file)
            metrics = next(rows, [])[4:]
            for name, seed, learner, part, *values in rows:
                parts = self.found.setdefault((name, int(seed), learner), {})
                parts[part] = dict(zip(metrics, map(float, values), strict=True))

    def _write(self, path: Path) -> None:
        """Write all results, sorted, to a new file that replaces the old one."""
        metrics = list(dict.fromkeys(m for p in self.found.values() for v in p.values() for m in v))
        whole = path.with_name(f"new-{path.name}")
        with _open(whole, "w") as file:
            writer = csv.writer(file)
            writer.writerow(["data", "seed", "learner", "part", *metrics])
            for key, parts in sorted(self.found.items()):
                for part, values in parts.items():
                    cells = [f"{values.get(metric, math.nan):.8g}" for metric in metrics]
                    writer.writerow([*key, part, *cells])
        whole.replace(path)

    def values(self, metric: str = "g_mean", part: str | None = ALL) -> Matrix:
        """Return the mean of a metric over seeds, of shape (data sets, learners).

        Parameters
        ----------
        metric : str, default="g_mean"
            A metric of the evaluation.
        part : str, default="all"
            The part; None for the mean of all parts, such as folds.
        """
        rows = []
        for name in self.data:
            row = []
            for learner in self.learners:
                parts = [self.found.get((name, seed, learner), {}) for seed in self.seeds]
                some = [v for p in parts for k, v in p.items() if part is None or k == part]
                row.append(np.mean([one[metric] for one in some]) if some else math.nan)
            rows.append(row)
        return np.array(rows, dtype=np.float64)

    def ranks(self, metric: str = "g_mean", part: str | None = ALL) -> RankComparison:
        """Return the ranks of the learners over data sets, with Friedman's and Nemenyi's tests.

        Parameters
        ----------
        metric, part : str
            As for :meth:`values`.
        """
        best = "low" if metric in LOW_IS_BEST else "high"
        return compare_ranks(self.values(metric, part), list(self.learners), best)

    def p_values(
        self, reference: str, metric: str = "g_mean", part: str | None = ALL
    ) -> dict[str, float]:
        """Return Wilcoxon's p of one learner against each other one, with Holm's correction.

        Parameters
        ----------
        reference : str
            The learner.
        metric, part : str
            As for :meth:`values`.
        """
        return wilcoxon_holm(self.values(metric, part), list(self.learners), reference)

    def posterior(
        self, one: str, other: str, metric: str = "g_mean", rope: float = 0.01,
        part: str | None = ALL,
    ) -> SignedRankPosterior:  # fmt: skip
        """Return the probabilities that one learner is worse, equivalent or better.

        Parameters
        ----------
        one, other : str
            The learners.
        metric : str
            As for :meth:`values`.
        rope : float, default=0.01
            Differences that do not matter.
        part : str
            As for :meth:`values`.
        """
        found, names = self.values(metric, part), list(self.learners)
        sign = -1.0 if metric in LOW_IS_BEST else 1.0
        mine, theirs = (sign * found[:, names.index(name)] for name in (one, other))
        return bayesian_signed_rank(mine, theirs, rope)

    def table(self, metric: str = "g_mean", style: str = "markdown", part: str | None = ALL) -> str:
        """Return a table with a row for each data set and the means, the best values in bold.

        Parameters
        ----------
        metric : str
            As for :meth:`values`.
        style : {"markdown", "latex"}, default="markdown"
            Format of the table.
        part : str
            As for :meth:`values`.
        """
        if style not in ("markdown", "latex"):
            raise ValueError(f"style must be 'markdown' or 'latex'; got {style!r}")
        values = self.values(metric, part)
        sign = -1.0 if metric in LOW_IS_BEST else 1.0
        bold = "**{}**" if style == "markdown" else r"\textbf{{{}}}"
        rows = []
        for name, row in zip((*self.data, "mean"), (*values, values.mean(axis=0)), strict=True):
            texts = ["-" if np.isnan(value) else f"{value:.4f}" for value in row]
            is_best = _best(sign * row)
            cells = [bold.format(t) if b else t for t, b in zip(texts, is_best, strict=True)]
            rows.append([name, *cells])
        head = ["", *self.learners]
        if style == "markdown":
            lines = [" | ".join(head), "|".join(["---"] + ["---:"] * len(self.learners))]
            lines = [lines[0], lines[1], *(" | ".join(row) for row in rows)]
            return "\n".join(f"|{line}|" if "---" in line else f"| {line} |" for line in lines)
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in [head, *rows]]
        frame = f"\\begin{{tabular}}{{l{'r' * len(self.learners)}}}"
        body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
        return "\n".join([frame, *body, r"\end{tabular}"])


def _best(values: Vector) -> Vector:
    """Return which values are the highest, (m,)."""
    found: Vector = values == np.nanmax(values, initial=-np.inf)
    return found


def _latex(text: str) -> str:
    """Return a cell whose special characters are escaped."""
    for sign in "&%_#":
        text = text.replace(sign, f"\\{sign}")
    return text


def _run(
    key: tuple[str, int, str],
    make_data: Callable[[int], Any],
    make_learner: Callable[[int], Any],
    evaluate: Callable[[Any, Any], Iterable[Part]],
) -> tuple[tuple[str, int, str], dict[str, dict[str, float]]]:
    """Return the metrics of one run, by part."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # collinear features, iterations
        return key, dict(evaluate(make_data(key[1]), make_learner(key[1])))


def _open(path: Path, mode: str) -> Any:
    """Open a table; a compressed one contains no time: equal results are equal files."""
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.GzipFile(path, f"{mode}b", mtime=0), newline="")
    return open(path, mode, newline="")
