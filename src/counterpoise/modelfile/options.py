"""Parameters of an estimator, and names, as what a model file can hold; and back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np

from counterpoise.arrays import Labels
from counterpoise.encoding.columns import feature_name
from counterpoise.features import FixedMap, Map
from counterpoise.features.given import text_of
from counterpoise.modelfile.container import Contents, ModelFileError, require


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of an estimator as JSON can hold them; a dict by label becomes pairs.

    Parameters
    ----------
    options : mapping
        Names and values.

    Returns
    -------
    dict
    """

    def plain(value: Any) -> Any:
        if isinstance(value, Map | FixedMap):
            return text_of(value)
        if isinstance(value, tuple | list):
            return [plain(one) for one in value]
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, Real) and not isinstance(value, (bool, int)):
            value = float(value)
        if isinstance(value, Mapping):
            pairs = [[plain(key), plain(number)] for key, number in value.items()]
            return {"by label": sorted(pairs, key=lambda pair: (str(type(pair[0])), pair[0]))}
        return value

    return {name: plain(value) for name, value in options.items()}


def options_of(plain: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Parameters of an estimator from what :func:`plain_options` made of them.

    Parameters
    ----------
    plain : mapping
        What the file says.
    known : collection of str
        Names of the parameters that the estimator has.

    Returns
    -------
    dict
    """
    require(set(plain) == set(known), f"options {sorted(plain)}, expected {sorted(known)}")
    result = {}
    for name, value in plain.items():
        if isinstance(value, dict):
            pairs = value.get("by label")
            good = set(value) == {"by label"} and isinstance(pairs, list)
            good = good and all(
                isinstance(p, list)
                and len(p) == 2
                and isinstance(p[0], (str, bool, int, float))
                and isinstance(p[1], (int, float))
                for p in pairs or []
            )
            require(good, f"option {name!r} of the wrong form")
            value = dict(pairs or [])
        require(
            value is None or isinstance(value, (str, bool, int, float, dict)),
            f"option {name!r} of the wrong type",
        )
        result[name] = value
    return result


@contextmanager
def possible() -> Iterator[None]:
    """Blame the file for parameters that have no meaning."""
    try:
        yield
    except ValueError as error:
        raise ModelFileError(
            f"is not a valid model file: it has an impossible option: {error}"
        ) from None


def contents_of(estimator: Any, arrays: dict[str, Any], facts: dict[str, Any]) -> Contents:
    """What a file is to hold of an estimator.

    Parameters
    ----------
    estimator : BaseEstimator
        Whose parameters and names of features belong to it.
    arrays, facts : dict
        What it has learned.

    Returns
    -------
    Contents
    """
    names = getattr(estimator, "feature_names_in_", None)
    lists = {} if names is None else {"names": [str(name) for name in names]}
    options = plain_options(estimator.get_params(deep=False))
    return Contents(type(estimator).__name__, options, arrays, facts, lists=lists)


def names_of(contents: Contents, d: int) -> Labels | None:
    """Names of the features, if the file has them.

    Parameters
    ----------
    contents : Contents
        What the file holds.
    d : int
        How many features there are.

    Returns
    -------
    ndarray of shape (d,), or None
    """
    if "features" in contents.lists:
        features = contents.lists["features"]
        good = all(isinstance(f, list) and len(f) == 3 for f in features)
        require(
            good and all(isinstance(part, str) for f in features for part in f),
            "malformed features",
        )
        names = [feature_name(*feature) for feature in features]
    elif "names" in contents.lists:
        names = contents.lists["names"]
    else:
        return None
    good = len(names) == d and all(isinstance(name, str) for name in names)
    require(good, "names that do not fit its features")
    return np.array(names, dtype=object)
