"""Candidates as what a model file can hold, and back, trusting nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from counterpoise.arrays import Labels, Rows, Vector
from counterpoise.choosing.candidates import Candidates
from counterpoise.choosing.judge import FIRST, Judge, Tally, next_refresh
from counterpoise.choosing.kept import Kept
from counterpoise.choosing.names import LINEAR, map_name, pooling_of
from counterpoise.choosing.params import NAMES, Params, read, usual_candidates
from counterpoise.choosing.reasons import explained
from counterpoise.choosing.ridges import Ridges
from counterpoise.exact.classes import problems
from counterpoise.exact.scores import Scores
from counterpoise.exact.solution import Quadratic
from counterpoise.exact.state import State
from counterpoise.modelfile.container import Contents, require
from counterpoise.modelfile.labels import labels_of, plain_labels
from counterpoise.modelfile.learned import Learned, learned_of
from counterpoise.modelfile.maps import scaled_map
from counterpoise.modelfile.options import options_of, possible
from counterpoise.modelfile.saved import Saved
from counterpoise.reasons import Reasons
from counterpoise.validate import LARGEST


def pack(candidates: Candidates, models: Sequence[Saved]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tensors and facts of candidates, given what each map has learned as a classifier."""
    judge, tally = candidates.judges[0], candidates.tally
    arrays: dict[str, Any] = {"total": tally.total, "hits": tally.hits}
    kept = {"labels": plain_labels(tally.labels), "counts": []}
    if candidates.kept is not None and candidates.rows:
        labels = candidates.first.classes.labels
        X, code, weight, clock = candidates.kept.arrays(labels)
        arrays |= {"kept": X, "kept weight": weight, "kept clock": clock}
        counts = np.bincount(code, minlength=len(labels)).tolist()
        kept = {"labels": plain_labels(labels), "counts": counts}
    parts = []
    for i, model in enumerate(models):
        part = model.contents()
        arrays |= {f"{i} {name}": array for name, array in part.arrays.items()}
        parts.append({"options": part.options, "facts": part.facts})
    for i, one in enumerate(candidates.judges):
        arrays |= {f"{i} judge {name}": array for name, array in _arrays(one).items()}
    return arrays, {
        "models": parts,
        "names": candidates.names,
        "rows": candidates.rows,
        "due": candidates.due,
        "dropped": candidates.dropped,
        "judged": plain_labels(tally.labels),
        "classes": None if judge is None else plain_labels(judge.labels),
        "kept": kept,
        "weighted": candidates.weighted,
    }


@dataclass(frozen=True, eq=False)
class Chosen(Learned):
    """What was learned by the best candidate, and the average of all, which answers."""

    candidates: Candidates
    ridges: Vector

    @property
    def scores(self) -> Scores:
        """Scores of the average as a function of rows, and their probabilities."""
        return self.candidates.scores(self.ridges, link=True)

    def explain(self, X: Rows, names: Sequence[str]) -> Reasons:
        """Return what each feature, called by its name, contributes to the average."""
        return explained(self.scores, self.candidates, self.state, X, names)


def chosen_of(contents: Contents) -> Chosen:
    """What predictions need of a file of a ChoosingClassifier: best candidate, and average."""
    given, candidates = unpack(contents)
    ridges = np.array(given["ridges"])
    return Chosen(*candidates.chosen(ridges), candidates.plainest, candidates, ridges)


def unpack(contents: Contents) -> tuple[dict[str, Any], Candidates]:
    """Parameters and candidates from a file, checked as if a stranger had written it."""
    given = options_of(contents.options, NAMES)
    if given["candidates"] is None:
        given["candidates"] = _unusual(contents.facts, given["kept_rows"])
    usual = given["candidates"] is None
    texts = (given["ridges"],) if usual else (given["candidates"], given["ridges"])
    require(all(isinstance(text, str) for text in texts), "malformed candidates")
    if not usual:
        given["candidates"] = tuple(given["candidates"].split(" "))
    given["ridges"] = tuple(map(float, given["ridges"].split(" ")))
    with possible():
        params = read(SimpleNamespace(**given))
    found = _candidates(contents, params)
    fixed = {name: state.plan.given for name, state in found.states.items()}
    if not usual:
        given["candidates"] = tuple(fixed.get(name) or name for name in params.names)
    return given, found


def _unusual(facts: dict[str, Any], kept_rows: Any) -> str | None:
    """Candidates that were those by default when the file was written, and are not any more."""
    left, dropped = facts.get("names", ()), facts.get("dropped", {})
    require(isinstance(left, list) and isinstance(dropped, dict), "malformed candidates")
    names = [*left, *dropped]
    require(bool(names) and all(isinstance(name, str) for name in names), "malformed candidates")
    return None if set(names) == set(usual_candidates(kept_rows)) else " ".join(names)


def _candidates(contents: Contents, params: Params) -> Candidates:
    """The candidates of a file; the names among the parameters include those dropped."""
    facts, names, ridges = contents.facts, params.names, len(params.ridges)
    wanted = {"models", "names", "rows", "due", "dropped", "judged", "classes", "kept"}
    wanted |= {"weighted"}
    require(set(facts) == wanted, "unexpected facts")
    left, dropped, rows, due = (facts[k] for k in ("names", "dropped", "rows", "due"))
    require([n for n in names if n in left] == left, "candidates out of order")
    require(
        set(names) == {*left, *dropped} and not set(left) & set(dropped),
        "candidates that do not match their names",
    )
    require(
        all(type(n) is int and n > 0 for n in (rows, due, *dropped.values())), "impossible counts"
    )
    keeps = params.kept_rows > 0
    scheduled = due == FIRST or rows < due <= next_refresh(rows)
    require(due == FIRST if keeps else scheduled and rows < due, "an invalid schedule")
    maps = list(dict.fromkeys(map_name(name) for name in left))
    parts = zip(facts["models"], maps, strict=True)
    models = [_model(contents, i, *part) for i, part in enumerate(parts)]
    states = [model.state for model in models]
    require(len({state.inputs for state in states}) == 1, "candidates of other features")
    for state in states:
        require(
            np.allclose(state.class_count, states[0].class_count, rtol=1e-9, atol=0.0),
            "candidates that have seen different rows",
        )
    require(type(facts["weighted"]) is bool, "malformed facts")
    require(
        facts["weighted"] or int(states[0].class_count.sum()) == rows,
        "a candidate that has seen a different number of rows",
    )
    seen = set(states[0].classes.labels.tolist())
    labels = labels_of(facts["judged"])
    require(set(labels.tolist()) <= seen, "a tally of other classes")
    total, hits = contents.arrays["total"], contents.arrays["hits"]
    shape = len(labels), len(left), ridges
    require(total.shape == shape[:1] and hits.shape == shape, "a tally of the wrong shape")
    fits = (hits >= 0).all() and (hits <= total[:, None, None] * 1.000001).all()
    weight = float(states[0].class_count.sum())
    require(bool(fits and (total <= weight * float(rows) ** 0.5).all()), "an impossible tally")
    judges: list[Judge | None] = [None] * len(left)
    by_name = dict(zip(maps, states, strict=True))
    if facts["classes"] is not None:
        classes = labels_of(facts["classes"])
        require(classes.tolist() == sorted(seen & set(classes.tolist())), "judges of other classes")
        require(len(classes) > 1, "judges of one class")
        judges = [
            _judge(contents, i, classes, ridges, by_name[map_name(name)], pooling_of(name))
            for i, name in enumerate(left)
        ]
    used = {f"{i} {k}" for i in range(len(models)) for k in _of_part(contents, i)}
    used |= {f"{i} judge {k}" for i in range(len(left)) for k in _of_part(contents, i, "judge ")}
    used |= {"total", "hits"} | ({"kept", "kept weight", "kept clock"} if keeps else set())
    require(set(contents.arrays) == used, "unexpected tensors")
    require(not keeps or (facts["classes"] is None and not len(labels)), "judges beside kept rows")
    same = all(model.options == params.options for model in models)
    require(same, "a candidate with other options")
    tally = Tally(labels, total, hits)
    kept = _kept(contents, params.kept_rows, states[0]) if keeps else None
    return Candidates(
        left, by_name, judges, tally, params.options, kept, rows, due, dropped,
        facts["weighted"],
    )  # fmt: skip


def _kept(contents: Contents, most: int, state: State) -> Kept:
    """Kept rows from a file."""
    facts = contents.facts["kept"]
    require(set(facts) == {"labels", "counts"}, "malformed kept rows")
    labels, counts = labels_of(facts["labels"]), facts["counts"]
    X, weight, clock = (contents.arrays[k] for k in ("kept", "kept weight", "kept clock"))
    possible_counts = all(type(n) is int and 0 <= n <= most for n in counts)
    require(possible_counts and len(counts) == len(labels), "impossible counts of kept rows")
    n, classes = sum(counts), state.classes
    require(
        X.shape == (n, state.inputs) and weight.shape == clock.shape == (n,),
        "kept rows of the wrong shape",
    )
    require(np.abs(X).max(initial=0.0) <= LARGEST, "kept rows of impossible values")
    N = dict(zip(classes.labels.tolist(), state.class_count.tolist(), strict=True))
    ends, rows = np.cumsum([0, *counts]).tolist(), {}
    for k, (label, count) in enumerate(zip(labels.tolist(), counts, strict=True)):
        mine = slice(ends[k], ends[k + 1])
        w, at, total = weight[mine], clock[mine], N.get(label, 0.0)
        held = (w > 0).all() and (np.diff(at) > 0).all() and (at >= w).all()
        require(bool(held and (at <= total * (1 + 1e-9)).all()), "kept rows of impossible weights")
        require(count == 0 or total > 0.0, "kept rows of a class that was never seen")
        require(count > 0 or total == 0.0, "no kept rows of a class")
        if count:
            parts = zip(X[mine].copy(), w.tolist(), at.tolist(), strict=True)
            rows[label] = tuple(parts)
    return Kept(most, rows)


def _of_part(contents: Contents, i: int, kind: str = "") -> dict[str, Any]:
    """Tensors of one candidate."""
    start = f"{i} {kind}"
    return {k[len(start) :]: v for k, v in contents.arrays.items() if k.startswith(start)}


def _model(contents: Contents, i: int, part: Any, name: str) -> Learned:
    """A candidate from a file."""
    arrays = {k: v for k, v in _of_part(contents, i).items() if not k.startswith("judge ")}
    learned = learned_of(replace(contents, arrays=arrays, **part))
    require((learned.state.plan.text or LINEAR) == name, f"a candidate {name!r}")
    return learned


def _arrays(judge: Judge | None) -> dict[str, Any]:
    """What a file holds of a judge."""
    if judge is None:
        return {}
    held = _names(isinstance(judge.weights, Ridges))
    arrays = {name: getattr(judge.weights, field) for name, field in held.items()}
    arrays["rms"] = judge.rms
    if judge.fixed is not None:
        arrays |= {name: getattr(judge.fixed, name) for name in ("mean", "deviation", "drawn")}
        arrays["first"] = np.array([float(judge.fixed.first)])
    return arrays


def _names(linear: bool) -> dict[str, str]:
    """What a file calls the weights of a judge, and what we call them."""
    own = {"coef": "coef"} if linear else {"means": "mean", "roots": "root"}
    return {"anchor": "anchor", **own, "offset": "offset"}


def _judge(
    contents: Contents, i: int, classes: Labels, ridges: int, state: State, nu: float | None
) -> Judge:
    """A judge from a file."""
    arrays = _of_part(contents, i, "judge ")
    fixed, d = state.fixed, len(state.moments.anchor)
    c = problems(len(classes)) if nu is None else len(classes)
    shapes: dict[str, tuple[int, ...]] = {"anchor": (d,)}
    if nu is None:
        shapes |= {"coef": (ridges, c, d), "offset": (ridges, c)}
    else:
        shapes |= {"means": (c, d), "roots": (c, d, d), "offset": (c,)}
    held = _names(nu is None)
    shapes["rms"] = (ridges if nu is None else 1,)
    if fixed is not None:
        shapes |= dict.fromkeys(("mean", "deviation"), (state.inputs,))
        shapes |= {"drawn": fixed.drawn.shape, "first": (1,)}
    require({k: v.shape for k, v in arrays.items()} == shapes, "a judge of the wrong shape")
    require(bool((arrays["rms"] >= 0.0).all()), "a judge of impossible weights")
    for name in (*held, "rms"):
        require(np.abs(arrays[name]).max(initial=0.0) <= LARGEST, "a judge of impossible weights")
    if fixed is not None:
        mean, deviation, drawn = (arrays[name] for name in ("mean", "deviation", "drawn"))
        scaled = scaled_map(fixed.map, mean, deviation, drawn, int(arrays["first"][0]))
        fixed = replace(scaled, blank=fixed.blank)
    values: dict[str, Any] = {field: arrays[name] for name, field in held.items()}
    if nu is None:
        return Judge(classes, fixed, Ridges(**values), arrays["rms"])
    seen = np.ones(c, bool)
    return Judge(classes, fixed, Quadratic(**values, seen=seen, ridge=0.0), arrays["rms"])
