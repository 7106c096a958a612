"""Options of the solver: the parameters that all estimators share."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from counterpoise import validation
from counterpoise.arrays import Value
from counterpoise.moments.decay import Decay, HalfLife
from counterpoise.moments.moments import Moments
from counterpoise.solver.class_weights import ClassFactors, ClassWeight

LABEL_OPTIONS = ("class_factors", "class_weight", "half_life")  # these may be dicts by label
MIN_ROWS_BEFORE_WARNING = 1000.0  # rows among which a label should have occurred
MIN_ROWS_BEFORE_SPELLING_WARNING = 20.0  # the same, if an occurred label is spelled alike


@dataclass(frozen=True)
class Options(Value):
    """Options of the solver, as :class:`~counterpoise.BalancedRidgeClassifier` describes them."""

    ridge: float | str = "auto"
    class_weight: ClassWeight = "balanced"
    class_factors: ClassFactors = None
    scale: str | None = "standard"
    fit_intercept: bool = True
    penalize_intercept: bool = True
    half_life: HalfLife = None
    multi_class: str = "lda"
    pooled_rows: float | None = None
    calibrate: bool = False

    @classmethod
    def of(cls, estimator: Any) -> Options:
        """Return the options of an estimator that has them as attributes; dicts are copied."""
        values: dict[str, Any] = {f.name: getattr(estimator, f.name) for f in fields(cls)}
        for name in LABEL_OPTIONS:
            if isinstance(values[name], Mapping):
                values[name] = dict(values[name])
        return cls(**values)

    def check(self) -> None:
        """Raise if an option has no meaning."""
        if self.ridge not in ("auto", "gcv"):
            validation.require_nonnegative(self, "ridge", "or 'auto' or 'gcv'")
        if self.class_weight != "balanced":
            validation.check_label_dict(self, "class_weight", "'balanced'")
        validation.check_label_dict(self, "class_factors")
        validation.require_one_of(self, "scale", ("standard", None))
        validation.check_bool(self, "fit_intercept")
        validation.check_bool(self, "penalize_intercept")
        _ = self.decay  # raises if half_life has no meaning
        validation.require_one_of(self, "multi_class", ("lda", "ovr"))
        validation.check_bool(self, "calibrate")
        if self.pooled_rows is None:
            return
        validation.require_nonnegative(self, "pooled_rows", "or None")
        if not self.fit_intercept or self.multi_class == "ovr":
            raise ValueError(
                "pooled_rows compares densities of the classes, which need fit_intercept=True and "
                "multi_class='lda'"
            )

    @cached_property
    def decay(self) -> Decay:
        """Decay of old rows: ``half_life``, parsed."""
        return Decay.parse(self.half_life)

    @property
    def intercept(self) -> str:
        """Penalty of the constant: "penalized", "free" or "none"."""
        if not self.fit_intercept:
            return "none"
        return "penalized" if self.penalize_intercept else "free"


def has_label_weights(options: Options) -> bool:
    """Return whether an option gives weights to labels."""
    return any(isinstance(getattr(options, name), Mapping) for name in LABEL_OPTIONS)


def warn_unseen_labels(moments: Moments, options: Options, stacklevel: int = 3) -> bool:
    """Warn of labels that never occurred; return whether no other warning can follow."""
    rows, seen = float(moments.N.sum()), moments.labels[moments.N > 0].tolist()
    is_done = rows >= MIN_ROWS_BEFORE_WARNING
    for option in LABEL_OPTIONS:
        given = getattr(options, option)
        is_done = warn_absent_label(option, given, seen, rows, stacklevel + 1) or is_done
    return is_done


def warn_unknown_label(option: str, given: object, labels: list[Any], stacklevel: int) -> None:
    """Warn of a label that an option by label names and that no row of a fit has."""
    unknown = [label for label in given if label not in labels] if isinstance(given, dict) else []
    if unknown:
        warnings.warn(
            f"{option} names the label {unknown[0]!r}, which no row has; the labels are "
            f"{', '.join(map(repr, labels))}",
            UserWarning,
            stacklevel=stacklevel,
        )


def warn_absent_label(
    option: str, given: object, seen: list[Any], rows: float, stacklevel: int = 3
) -> bool:
    """Warn of a label that an option names and that never occurred; return whether it warned.

    A rare label may not occur for many rows. A label that differs from an occurred one only in its
    case or type is probably a mistake, so few rows are enough.
    """
    given = given if isinstance(given, Mapping) else {}
    absent = [label for label in given if label not in seen]
    if rows < MIN_ROWS_BEFORE_SPELLING_WARNING:
        return False
    if absent and rows < MIN_ROWS_BEFORE_WARNING:
        spellings = {_spelling(label) for label in seen if label not in given}
        absent = [label for label in absent if _spelling(label) in spellings]
    if not absent:
        return False
    some = ", ".join(repr(label) for label in seen[:5]) + (", ..." if seen[5:] else "")
    warnings.warn(
        f"{option} names the label {absent[0]!r}, which never occurred in {np.floor(rows):,.0f} "
        f"rows; those that did are {some}. Correct it, or leave it out",
        UserWarning,
        stacklevel=stacklevel,
    )
    return True


def _spelling(label: Any) -> str:
    """Return the text of a label, independent of its case, type and outer spaces."""
    return str(label).strip().casefold()
