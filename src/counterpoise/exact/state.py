"""All that a model has learned: moments, the map that comes before them, labels announced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise import validate
from counterpoise.arrays import Labels, Vector
from counterpoise.exact import model
from counterpoise.exact.events import Single
from counterpoise.exact.model import Options, Solved
from counterpoise.exact.moments import Moments, joined
from counterpoise.features import FixedMap, Warmup
from counterpoise.modelfile import maps as mapfile
from counterpoise.modelfile import packing
from counterpoise.modelfile.container import Contents, require


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows about to be learned: their moments or, in the warm-up of a map, those of all rows.

    Attributes
    ----------
    moments : Moments
        Of these rows, or of all.
    declared : ndarray
        Labels announced so far.
    fixed : FixedMap, optional
        What the rows went through.
    warmup : Warmup, optional
        Rows to be kept.
    everything : bool
        Whether the moments are those of all rows.
    """

    moments: Moments
    declared: Labels
    fixed: FixedMap | None = None
    warmup: Warmup | None = None
    everything: bool = False


@dataclass(eq=False)
class Learned:
    """All that a model has learned, and the last solution while it is still valid.

    Attributes
    ----------
    moments : Moments
        Of the features, or of the terms of a map.
    declared : ndarray
        Labels announced.
    learned_with : tuple
        Options that cannot change any more.
    fixed : FixedMap, optional
        The map as it is fixed so far.
    warmup : Warmup, optional
        Rows that are kept until it is fixed for good.
    version : int
        Counts changes.
    solved : tuple, optional
        The last solution, and what it is the solution of.
    single : Single, optional
        The moments, open to single rows.
    """

    moments: Moments
    declared: Labels
    learned_with: tuple[Any, ...]
    fixed: FixedMap | None = None
    warmup: Warmup | None = None
    version: int = 0
    solved: tuple[Any, Solved] | None = None
    single: Single | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "version": 0, "solved": None, "single": None}

    def follow(self, chunk: Chunk, half_life: float | None) -> None:
        """Take a chunk in; a signal finds what was learned before or after, never between."""
        grown = self.moments.with_labels(chunk.moments.labels)
        state = {"moments": grown, "declared": chunk.declared, "version": self.version + 1}
        grown.take_in(chunk.moments, half_life, self, state)

    def fits(self, learning: tuple[Any, ...], inputs: int) -> bool:
        """Whether rows so wide, learned with these options, can go through the map as it is."""
        same = self.fixed is None or len(self.fixed.mean) == inputs
        return same and self.learned_with == learning

    def classes(self) -> tuple[Labels, list[int]]:
        """Sorted labels seen or declared, and the slot of each in the moments or −1."""
        moments = self.moments
        seen = {label: k for k, label in enumerate(moments.labels.tolist()) if moments.n[k] > 0}
        classes = union(moments.labels[moments.n > 0], self.declared)
        return classes, [seen.get(label, -1) for label in classes.tolist()]

    def solve(self, options: Options) -> Solved:
        """Scores of every class, given how to look."""
        solved = model.solved(self.moments, *self.classes(), options)
        return replace(solved, fixed=self.fixed)

    def row(self, x: Any) -> Vector | None:
        """A single row as the moments want it; None if it is no row of numbers."""
        if x.dtype.kind not in "fiub":
            return None
        row = np.ascontiguousarray(x, dtype=np.float64)
        if self.fixed is None:
            return row
        if row.shape != self.fixed.mean.shape or not np.abs(row).max() <= validate.LARGEST:
            return None
        mapped: Vector = self.fixed.transform(row[None])[0]
        return mapped if np.abs(mapped).max() <= validate.LARGEST else None

    def placed(self, at: NDArray[np.intp], names: Sequence[str]) -> Learned:
        """The same for wider rows, whose features have these names: feature j goes to at[j]."""
        fixed, moved, d, warmup = self.fixed, at, len(names), self.warmup
        if fixed is not None:
            fixed, moved = fixed.placed(at, names)
            d = fixed.size
        if warmup is not None:
            X = np.zeros((len(warmup.X), len(names)))
            X[:, at] = warmup.X
            warmup = replace(warmup, X=X)
        moments = self.moments.placed(moved, d)
        return Learned(moments, self.declared, self.learned_with, fixed, warmup)

    # Files

    def contents(self, estimator: Any, given: bool) -> Contents:
        """What a file is to hold of an estimator that has learned this.

        Parameters
        ----------
        estimator : BaseEstimator
            Whose parameters and names of features belong to it.
        given : bool
            Whether its map was fixed before the first row.

        Returns
        -------
        Contents
        """
        arrays, facts = packing.pack(self.moments, estimator.half_life is not None)
        facts["declared"] = packing.plain_labels(self.declared)
        contents = packing.contents(estimator, arrays, facts)
        if "features" not in contents.options:
            return contents
        labels = self.moments.labels
        return mapfile.with_map(contents, self.fixed, self.warmup, labels, given)

    @classmethod
    def of(cls, contents: Contents, features: Any, options: Options) -> Learned:
        """What was learned, from a file, checked as if a stranger had written it.

        Parameters
        ----------
        contents : Contents
            What the file holds.
        features : str, optional
            Name of the map.
        options : Options
            How it is looked at.

        Returns
        -------
        Learned
            Without what it was learned with.
        """
        wanted = {"labels", "declared", "features", "extremes"}
        require(set(contents.facts) == wanted | ({"map"} if features else set()), "strange facts")
        plain, mapped = mapfile.without_map(contents)
        extremes, fading = options.scale == "minmax", options.half_life is not None
        moments = packing.unpack(plain, extremes, fading)
        declared = packing.labels_of(contents.facts["declared"])
        union(declared, moments.labels)
        if features is None:
            require(not mapped, "a map that is not used")
            return cls(moments, declared, ())
        fixed, warmup = mapfile.map_from(mapped, contents.facts["map"], features, moments)
        return cls(moments, declared, (), fixed, warmup)


def union(one: Labels, two: Labels) -> Labels:
    """Labels of both, sorted; raise if some are text and the others numbers.

    Parameters
    ----------
    one, two : ndarray
        Labels.

    Returns
    -------
    ndarray
    """
    validate.require_one_type(two, one)
    return np.unique(joined(one, two))
