"""The field: candidates that learn side by side, and how each of them has done so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.choosing.judge import FIRST, Judge, Tally, best, losers, next_refresh
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.exact import lifting
from counterpoise.exact.weighting import Costs
from counterpoise.modelfile import maps as mapfile
from counterpoise.modelfile import packing
from counterpoise.modelfile.container import Contents, require
from counterpoise.validate import LARGEST

LINEAR = "linear"


@dataclass(eq=False)
class Field:
    """The candidates that are still in the field, and how they did.

    Attributes
    ----------
    models : list of BalancedRidgeClassifier
        The candidates, the simplest first.
    names : list of str
        Names of their maps.
    judges : list of Judge or None
        Their weights at the last refresh.
    tally : Tally
        What was judged so far.
    costs : dict, optional
        Exponents of the recalls, by label.
    rows : int
        Rows so far.
    due : int
        Rows at which the next refresh is due.
    dropped : dict of str to int
        Candidates that are gone, and after how many rows.
    """

    models: list[BalancedRidgeClassifier]
    names: list[str]
    judges: list[Judge | None]
    tally: Tally
    costs: Costs
    rows: int = 0
    due: int = FIRST
    dropped: dict[str, int] = field(default_factory=dict)

    def best(self) -> tuple[int, int]:
        """Candidate and ridge that answer; before anything was judged the linear one, if any."""
        if not len(self.tally.labels):
            first = self.names.index(LINEAR) if LINEAR in self.names else 0
            return first, self.tally.hits.shape[2] // 2
        return best(self.tally, self.rows, self.costs)

    def learn(
        self,
        X: Rows,
        y: Labels,
        ridges: Vector,
        drop: bool,
        classes: Labels,
        into: Matrix | None = None,
    ) -> None:
        """Judge rows, then learn them; scores of the best of the moment go into an array."""
        at, n = 0, X.shape[0]
        while at < n:
            stop = min(n, at + self.due - self.rows)
            rows, labels = X[at:stop], y[at:stop]
            i, j = self.best()
            found = []
            for k, judge in enumerate(self.judges):
                if judge is None:
                    break  # all know the same classes: none can be judged
                f = judge.scores(rows)
                found.append(judge.found(f, labels))
                if k == i and into is not None:
                    into[at:stop] = judge.among(f[:, j], classes)
            if found:
                self.tally = self.tally.counted(labels, np.stack(found, axis=1), self.rows)
            for candidate in self.models:
                candidate.partial_fit(rows, labels)
            self.rows += stop - at
            if self.rows == self.due:
                self._refresh(ridges, drop)
            at = stop

    def _refresh(self, ridges: Vector, drop: bool) -> None:
        gone = losers(self.tally, self.rows, self.costs) if drop else []
        for i in reversed(gone):
            self.dropped[self.names[i]] = self.rows
            del self.models[i], self.names[i], self.judges[i]
        if gone:
            self.tally = self.tally.without(gone)
        self.judges = [Judge.of(candidate, ridges) for candidate in self.models]
        self.due = next_refresh(self.rows)

    def pack(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Tensors and facts of the field.

        Returns
        -------
        arrays : dict of str to ndarray
        facts : dict
        """
        judge = self.judges[0]
        arrays: dict[str, Any] = {"total": self.tally.total, "hits": self.tally.hits}
        parts = []
        for i, (candidate, one) in enumerate(zip(self.models, self.judges, strict=True)):
            candidate.ridge = 1.0  # whichever answered last must not be in the file
            part = candidate._contents()
            arrays |= {f"{i} {name}": array for name, array in part.arrays.items()}
            arrays |= {f"{i} judge {name}": array for name, array in _arrays(one).items()}
            parts.append({"options": part.options, "facts": part.facts})
        return arrays, {
            "models": parts,
            "names": self.names,
            "rows": self.rows,
            "due": self.due,
            "dropped": self.dropped,
            "judged": packing.plain_labels(self.tally.labels),
            "classes": None if judge is None else packing.plain_labels(judge.classes),
        }

    @classmethod
    def unpack(cls, contents: Contents, candidates: list[str], ridges: int, costs: Costs) -> Field:
        """A field from a file, checked as if a stranger had written it.

        Parameters
        ----------
        contents : Contents
            What the file holds.
        candidates : list of str
            Names of all candidates, those that were dropped too.
        ridges : int
            How many there are.
        costs : dict, optional
            Exponents of the recalls, by label.

        Returns
        -------
        Field
        """
        facts = contents.facts
        wanted = {"models", "names", "rows", "due", "dropped", "judged", "classes"}
        require(set(facts) == wanted, "strange facts")
        names, dropped, rows, due = (facts[k] for k in ("names", "dropped", "rows", "due"))
        require([n for n in candidates if n in names] == names, "candidates out of order")
        require(set(candidates) == {*names, *dropped} and not set(names) & set(dropped), "names")
        require(all(type(n) is int and n > 0 for n in (rows, due, *dropped.values())), "counts")
        require(rows < due and (due == FIRST or due <= next_refresh(rows)), "a wrong schedule")
        parts = zip(facts["models"], names, strict=True)
        models = [_model(contents, i, *part) for i, part in enumerate(parts)]
        require(len({m.n_features_in_ for m in models}) == 1, "candidates of other features")
        for one in models:
            require(int(one.class_count_.sum()) == rows, "a candidate of other rows")
        seen = set(models[0].classes_.tolist())
        labels = packing.labels_of(facts["judged"])
        require(set(labels.tolist()) <= seen, "a tally of other classes")
        total, hits = contents.arrays["total"], contents.arrays["hits"]
        shape = len(labels), len(names), ridges
        require(total.shape == shape[:1] and hits.shape == shape, "a tally of the wrong shape")
        fits = (hits >= 0).all() and (hits <= total[:, None, None] * 1.000001).all()
        require(bool(fits and (total <= float(rows) ** 1.5).all()), "an impossible tally")
        judges: list[Judge | None] = [None] * len(models)
        if facts["classes"] is not None:
            classes = packing.labels_of(facts["classes"])
            require(classes.tolist() == sorted(seen & set(classes.tolist())), "judges' classes")
            require(len(classes) > 1, "judges of one class")
            judges = [_judge(contents, i, classes, ridges, m) for i, m in enumerate(models)]
        used = {f"{i} {k}" for i in range(len(models)) for k in _of_part(contents, i)}
        require(set(contents.arrays) == used | {"total", "hits"}, "strange tensors")
        return cls(models, names, judges, Tally(labels, total, hits), costs, rows, due, dropped)


def _of_part(contents: Contents, i: int, kind: str = "") -> dict[str, Any]:
    """Tensors of one candidate."""
    start = f"{i} {kind}"
    return {k[len(start) :]: v for k, v in contents.arrays.items() if k.startswith(start)}


def _model(contents: Contents, i: int, part: Any, name: str) -> BalancedRidgeClassifier:
    """A candidate from a file."""
    arrays = {k: v for k, v in _of_part(contents, i).items() if not k.startswith("judge ")}
    kind = BalancedRidgeClassifier.__name__
    model = BalancedRidgeClassifier._of(Contents(kind, part["options"], arrays, part["facts"]))
    require((lifting.text_of(model.features) or LINEAR) == name, f"a candidate {name!r}")
    return model


def _arrays(judge: Judge | None) -> dict[str, Any]:
    """What a file holds of a judge."""
    if judge is None:
        return {}
    arrays = {name: getattr(judge, name) for name in ("anchor", "coef", "offset")}
    if judge.fixed is not None:
        arrays |= {name: getattr(judge.fixed, name) for name in ("mean", "deviation", "drawn")}
        arrays["first"] = np.array([float(judge.fixed.first)])
    return arrays


def _judge(
    contents: Contents, i: int, classes: Labels, ridges: int, model: BalancedRidgeClassifier
) -> Judge:
    """A judge from a file."""
    arrays = _of_part(contents, i, "judge ")
    fixed, d = model._learned.fixed, len(model._learned.moments.anchor)
    problems = 1 if len(classes) == 2 else len(classes)
    shapes = {"anchor": (d,), "coef": (ridges, problems, d), "offset": (ridges, problems)}
    if fixed is not None:
        shapes |= dict.fromkeys(("mean", "deviation"), (model.n_features_in_,))
        shapes |= {"drawn": fixed.drawn.shape, "first": (1,)}
    require({k: v.shape for k, v in arrays.items()} == shapes, "a judge of the wrong shape")
    for name in ("anchor", "coef", "offset"):
        require(np.abs(arrays[name]).max(initial=0.0) <= LARGEST, "a judge of impossible weights")
    if fixed is not None:
        mean, deviation, drawn = (arrays[name] for name in ("mean", "deviation", "drawn"))
        fixed = mapfile.scaled_map(fixed.map, mean, deviation, drawn, int(arrays["first"][0]))
    return Judge(classes, fixed, arrays["anchor"], arrays["coef"], arrays["offset"])
