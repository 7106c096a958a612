"""Guests of a race: models of other libraries, named by the place that they are imported from.

A guest learns and predicts one row at a time, by scikit-learn's ``partial_fit`` or by river's
``learn_one``. Its own prediction counts; its scores or probabilities rank the rows.
"""

from __future__ import annotations

import importlib
import inspect
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier

from counterpoise.arrays import Matrix, Vector
from counterpoise.errors import DataError

SEEDS = ("random_state", "seed")  # what chance depends on, in scikit-learn and in river
FUNCTION = "write a function without arguments that returns the model, and name that"
Codes = NDArray[np.intp]  # classes by number


def guest(path: str) -> Any:
    """Make a model, given where it is imported from.

    Parameters
    ----------
    path : str
        A module, a colon, and a class or a function without arguments that returns a model. A
        seed that is not set is 0.

    Returns
    -------
    object
        A classifier with ``partial_fit`` or ``learn_one``.

    Examples
    --------
    >>> from counterpoise.evaluate.guests import guest
    >>> guest("sklearn.linear_model:SGDClassifier")
    SGDClassifier(random_state=0)
    """
    module, _, name = path.partition(":")
    if not (module and name):
        raise DataError(f"{path!r} must be like sklearn.linear_model:SGDClassifier")
    make = _imported(module, name)
    parameters = _parameters(make)
    needed = [one.name for one in parameters if one.default is one.empty]
    if needed:
        raise DataError(f"{path} cannot be made without {', '.join(needed)}; {FUNCTION}")
    seeds = {one.name: 0 for one in parameters if one.name in SEEDS and one.default is None}
    try:
        model = make(**seeds)
    except Exception as error:
        raise DataError(f"{path} cannot be made ({error}); {FUNCTION}") from error
    learns = hasattr(model, "partial_fit") or hasattr(model, "learn_one")
    if not learns or isinstance(model, type):
        raise DataError(
            f"{path} has neither partial_fit nor learn_one, so it cannot learn row by row; name a "
            "model that can"
        )
    arrays = hasattr(model, "partial_fit")
    predicts = hasattr(model, "predict" if arrays else "predict_proba_one")
    if not predicts or (isinstance(model, BaseEstimator) and not is_classifier(model)):
        raise DataError(f"{path} does not predict classes; name a classifier")
    return model


def _imported(module: str, name: str) -> Callable[..., Any]:
    """What a module calls by this name."""
    try:
        there = importlib.import_module(module)
    except ImportError as error:
        raise DataError(
            f"module {module!r} cannot be imported ({error}); install its package, or run from "
            "the folder that it is in"
        ) from error
    found = getattr(there, name, None)
    if callable(found):
        made: Callable[..., Any] = found
        return made
    near = [one for one in dir(there) if one.lower() == name.lower()]
    meant = f"did you mean {near[0]}?" if near else "name a class, or a function that makes a model"
    raise DataError(f"module {module!r} has no class {name!r}; {meant}")


def _parameters(make: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        every = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # compiled, and says nothing
        return []
    return [one for one in every if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


class Face(Protocol):
    """A model as the race sees it: rows by their place, classes by their number."""

    def learn(self, t: int, code: int) -> None:
        """Learn row t."""

    def predict(self, t: int) -> int:
        """Predict row t; 0 if the model does not know."""

    def scores(self, t: int) -> Vector:
        """Rank row t: by one score, of the last of two classes, or by that of each class."""


class _Arrays:
    """A model with scikit-learn's conventions."""

    def __init__(self, model: Any, Z: Matrix, classes: int) -> None:
        self.model, self.Z = model, Z
        self.classes: Codes | None = np.arange(classes)
        ways = ("decision_function", "predict_proba")
        self.rank = next((getattr(model, way) for way in ways if hasattr(model, way)), None)
        self.count = classes

    def learn(self, t: int, code: int) -> None:
        y, row = np.array([code]), self.Z[t : t + 1]
        if self.classes is None:
            self.model.partial_fit(row, y)
        else:
            self.model.partial_fit(row, y, classes=self.classes)
            self.classes = None

    def predict(self, t: int) -> int:
        return int(self.model.predict(self.Z[t : t + 1])[0])

    def scores(self, t: int) -> Vector:
        if self.rank is None:
            return _only(self.predict(t), self.count)
        f: Vector = np.ravel(self.rank(self.Z[t : t + 1]))
        return f[1:] if len(f) == 2 == self.count else f


class _Dicts:
    """A model with river's conventions; one against the rest if it knows only two classes."""

    def __init__(self, model: Any, Z: Matrix, names: Sequence[str], classes: int) -> None:
        if classes > 2 and not getattr(model, "_multiclass", True):
            from river.multiclass import OneVsRestClassifier

            model = OneVsRestClassifier(model)
        self.model, self.Z, self.names, self.count = model, Z, names, classes
        self.label: Callable[[int], Any] = bool if classes == 2 else int

    def row(self, t: int) -> dict[str, float]:
        return dict(zip(self.names, self.Z[t].tolist(), strict=True))

    def learn(self, t: int, code: int) -> None:
        self.model.learn_one(self.row(t), self.label(code))

    def predict(self, t: int) -> int:
        return int(self.model.predict_one(self.row(t)) or 0)

    def scores(self, t: int) -> Vector:
        try:
            known = self.model.predict_proba_one(self.row(t))
        except NotImplementedError:
            return _only(self.predict(t), self.count)
        p = [known.get(self.label(k), 0.0) for k in range(self.count)]
        return np.array(p[1:] if self.count == 2 else p)


def _only(code: int, classes: int) -> Vector:
    """Scores that say no more than which class is predicted."""
    f = np.zeros(classes)
    f[code] = 1.0
    return f[1:] if classes == 2 else f


def progressive(
    name: str, model: Any, Z: Matrix, codes: Codes, delay: int, first: int, names: Sequence[str]
) -> tuple[Codes, Matrix, float]:
    """Predict each row from the first on, then learn it when its label arrives.

    Z (n, d) are the rows, ``codes`` (n,) their classes by number. Return what is predicted (n,),
    scores (n,) or (n, c), and the seconds that predicting and learning took.
    """
    c, n = int(codes.max()) + 1, len(codes)
    arrays = hasattr(model, "partial_fit")
    face: Face = _Arrays(model, Z, c) if arrays else _Dicts(model, Z, names, c)
    predicted, f, took = np.zeros(n, dtype=np.intp), np.zeros((n, 1 if c == 2 else c)), 0.0
    clock = time.perf_counter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # single rows make some models warn again and again
        for t in range(n + delay):
            late = t - delay
            try:
                start = clock()
                if first <= t < n:
                    predicted[t] = face.predict(t)
                    took += clock() - start
                    f[t] = face.scores(t)  # only to rank rows: not counted
                    start = clock()
                if late >= 0:
                    face.learn(late, int(codes[late]))
                took += clock() - start
            except Exception as error:
                raise DataError(
                    f"{name} failed at row {min(t, n - 1) + 1:,} ({error}); leave it out, or name "
                    "a function that returns a model for standardised features"
                ) from error
    return predicted, np.nan_to_num(f[:, 0] if c == 2 else f), took
