"""Data sets times learners: folds in processes, resumable results in one CSV, tables and tests.

``results/NAME.csv`` (or ``.csv.gz``) has one line for each set, run, half and learner. It is
written after every set. So an interrupted study resumes with ``--missing``, and new learners need
no old ones again.
"""

import argparse
import csv
import gzip
import io
import itertools
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from counterpoise.evaluate.rank_tests import wilcoxon_holm

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one process per core, one thread per process

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from benchmarks import report


def recalls(one, learner):
    """Return G-mean, mean and smallest recall of the classes in the half that was held out."""
    predicted = learner(one.X, one.y, one.X_test)
    recall = [np.mean(predicted[one.y_test == label] == label) for label in np.unique(one.y_test)]
    return np.prod(recall) ** (1.0 / len(recall)), np.mean(recall), np.min(recall)


def g_mean(one, learner):
    """Return the G-mean on the half that was held out."""
    return recalls(one, learner)[:1]


@dataclass
class Study:
    """Learners by name on data sets by name.

    ``folds(name, run)`` makes the folds of a set (``paper.protocol.Fold``), ``score(fold,
    learner)`` returns one number for each metric. The CPU seconds of a fold are the last metric.
    ``sets`` may be a function, which ``main`` calls.
    """

    name: str
    sets: Mapping | Callable
    learners: Mapping
    folds: Callable
    score: Callable = g_mean
    metrics: tuple = ("G-mean",)
    runs: int = 10
    is_compressed: bool = False

    def __post_init__(self):
        self.found, self.metrics = {}, (*self.metrics, "seconds")

    def run(self, only=None, sets=None, runs=None, missing=False, processes=-1):
        """Run some learners on some sets, or only what has no result; keep all other results."""
        self.read()
        self.runs = runs or self.runs
        learners, sets = only or [*self.learners], sets or [*self.sets]
        if not missing:
            for pair in itertools.product(sets, learners):
                self.found.pop(pair, None)
        for name in sets:
            jobs = []
            for run in range(self.runs):
                todo = [one for one in learners if (run, 0) not in self.found.get((name, one), {})]
                jobs += [delayed(self._run_folds)(name, run, todo)] if todo else []
            for pair, fold, values in itertools.chain(*Parallel(processes)(jobs)):
                self.found.setdefault(pair, {})[fold] = values
            if jobs:
                self.write()
                print(name, file=sys.stderr, flush=True)
        done = {name for name, _ in self.found}
        self.sets = {name: one for name, one in self.sets.items() if name in done}
        return self

    def _run_folds(self, name, run, learners):
        """Return set and learner, run and half, and metrics of some learners on one run."""
        found = []
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # collinear features, iterations
            for one in self.folds(name, run):
                for learner in learners:
                    start = time.process_time()
                    values = self.score(one, self.learners[learner])
                    spent = time.process_time() - start
                    metrics = (*map(float, values), spent)
                    found.append(((name, learner), (run, one.half), metrics))
        return found

    @property
    def path(self):
        """Path of the CSV."""
        return report.RESULTS / f"{self.name}.csv{'.gz' * self.is_compressed}"

    def _open(self, path, mode):
        """Open the CSV; a compressed one contains no time: equal results are equal files."""
        if self.is_compressed:
            return io.TextIOWrapper(gzip.GzipFile(path, f"{mode}b", mtime=0), newline="")
        return open(path, mode, newline="")

    def read(self):
        """Read the results of sets and learners that still exist."""
        if self.path.exists():
            with self._open(self.path, "r") as file:
                for name, run, half, learner, *values in itertools.islice(
                    csv.reader(file), 1, None
                ):
                    if name in self.sets and learner in self.learners:
                        folds = self.found.setdefault((name, learner), {})
                        folds[int(run), int(half)] = tuple(map(float, values))

    def write(self):
        """Write all results, ordered by set, run, half and learner."""
        whole = self.path.with_name(f"{self.path.name}.new")
        with self._open(whole, "w") as file:
            writer = csv.writer(file)
            writer.writerow(["set", "run", "half", "learner", *self.metrics])
            for name in self.sets:
                folds = {one: self.found.get((name, one), {}) for one in self.learners}
                for fold in sorted({*itertools.chain(*folds.values())}):
                    for one in self.learners:
                        if fold in folds[one]:
                            cells = [f"{value:.8g}" for value in folds[one][fold]]
                            writer.writerow([name, *fold, one, *cells])
        whole.replace(self.path)

    def values(self, learner, name, metric=0):
        """Return one metric, by its name or index, of all folds of a learner on a set."""
        column = self.metrics.index(metric) if isinstance(metric, str) else metric
        return [values[column] for values in self.found.get((name, learner), {}).values()]

    def mean(self, learner, sets, metric=0):
        """Return the mean over sets of the mean over folds, or None where a set has no fold."""
        values = [self.values(learner, name, metric) for name in sets]
        return float(np.mean([np.mean(v) for v in values])) if all(values) else None

    def means(self, sets, metric=0, digits=4):
        """Return the mean of each learner over sets, as text."""
        found = [self.mean(learner, sets, metric) for learner in self.learners]
        return ["-" if value is None else f"{value:.{digits}f}" for value in found]

    def table(self, describe, heads):
        """Return a table of the first metric by set; ``describe(name)`` fills the first columns."""
        rows = []
        for name in self.sets:
            cells = report.bold_best([self.mean(one, [name]) for one in self.learners])
            rows.append([name, *describe(name), *cells])
        return report.table(["set", *heads, *self.learners], rows)

    def compare(self, reference, groups=None, metric=0):
        """Return a table of the reference less each learner, with Wilcoxon's p by Holm.

        A group of sets counts once; without groups each set does.
        """
        groups = groups or {name: [name] for name in self.sets}
        G = {
            one: [self.mean(one, sets, metric) for sets in groups.values()] for one in self.learners
        }
        G = {one: np.array(values) for one, values in G.items() if None not in values}
        p = wilcoxon_holm(np.column_stack([*G.values()]), [*G], reference)
        seconds = {one: self.mean(one, self.sets, "seconds") for one in G}
        rows = []
        for one in G.keys() - {reference}:
            margins = G[reference] - G[one]
            better, worse = (margins > 0).sum(), (margins < 0).sum()
            ratio = f"{seconds[one] / seconds[reference]:.2f}"
            rows.append([one, f"{margins.mean():+.4f}", better, worse, f"{p[one]:.2g}", ratio])
        rows.sort(key=lambda row: [*self.learners].index(row[0]))
        return report.table(["against", "difference", "better", "worse", "p", "seconds"], rows)


def main(doc, studies):
    """Run studies by name: pairs of a ``Study`` and a function that writes its table."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=", ".join(studies))
    parser.add_argument("--only", action="append", metavar="LEARNER", help="repeatable")
    parser.add_argument("--sets", action="append", metavar="NAME", help="repeatable")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--missing", action="store_true", help="run only what has no result")
    parser.add_argument("--processes", type=int, default=-1, help="default: one for each core")
    parser.add_argument("--results", type=Path, default=report.RESULTS)
    options = parser.parse_args()
    report.use(options.results)
    for name in options.studies or studies:
        if name not in studies:
            parser.error(f"STUDY must be one of {', '.join(studies)}; got {name}")
        study, write = studies[name]
        study.sets = study.sets() if callable(study.sets) else study.sets
        for given, known in ((options.only, study.learners), (options.sets, study.sets)):
            if unknown := {*(given or ())} - {*known}:
                parser.error(f"{name} must be run on {', '.join(known)}; got {unknown}")
        chosen = options.only, options.sets, options.runs, options.missing, options.processes
        write(study.run(*chosen))
