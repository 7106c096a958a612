"""How moments are looked at: the parameters that the scikit-learn and the river face share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from counterpoise import validate
from counterpoise.exact import fading
from counterpoise.exact.weighting import ClassWeight, Costs


@dataclass(frozen=True)
class Options:
    r"""How moments are looked at; the parameters of BalancedRidgeClassifier say what they mean.

    Attributes
    ----------
    ridge, class_weight, costs, scale, fit_intercept, penalize_intercept, half_life, multi_class, \
pooling, calibrate
        See :class:`~counterpoise.BalancedRidgeClassifier`.
    """

    ridge: float | str = "shrinking"
    class_weight: ClassWeight = "balanced"
    costs: Costs = None
    scale: str | None = "standard"
    fit_intercept: bool = True
    penalize_intercept: bool = True
    half_life: fading.HalfLife = None
    multi_class: str = "discriminant"
    pooling: float | None = None
    calibrate: bool = False

    @classmethod
    def of(cls, estimator: Any) -> Options:
        """Options of an estimator that has them as attributes; dicts are copied."""
        values: dict[str, Any] = {f.name: getattr(estimator, f.name) for f in fields(cls)}
        for name in ("class_weight", "costs", "half_life"):
            if isinstance(values[name], Mapping):
                values[name] = dict(values[name])
        return cls(**values)

    def check(self) -> None:
        """Raise if an option has no meaning."""
        if self.ridge not in ("shrinking", "gcv"):
            validate.not_negative(self, "ridge", "or 'shrinking' or 'gcv'")
        if self.class_weight != "balanced":
            validate.factors(self, "class_weight", "'balanced'")
        validate.factors(self, "costs")
        validate.one_of(self, "scale", ("standard", "minmax", None))
        validate.flag(self, "fit_intercept")
        validate.flag(self, "penalize_intercept")
        _check_half_life(self)
        validate.one_of(self, "multi_class", ("discriminant", "ovr"))
        validate.flag(self, "calibrate")
        if self.pooling is None:
            return
        validate.not_negative(self, "pooling", "or None")
        if not self.fit_intercept or self.multi_class == "ovr":
            raise ValueError(
                "pooling compares densities of the classes, which need fit_intercept=True and "
                "multi_class='discriminant'"
            )

    @property
    def intercept(self) -> str:
        """What becomes of the constant: "penalized", "free" or "none"."""
        if not self.fit_intercept:
            return "none"
        return "penalized" if self.penalize_intercept else "free"


def _check_half_life(options: Options) -> None:
    """Raise if a half-life has no meaning: a number of rows, such numbers by label, or a time."""
    given = options.half_life
    if isinstance(given, str):
        if fading.seconds(given) is None:
            raise ValueError(
                f"half_life={given!r} is no time to fade in; give a time such as '12h', '7d' or "
                "'2w', or a number of rows"
            )
    elif isinstance(given, Mapping):
        validate.factors(options, "half_life")
    elif given is not None:
        validate.positive(options, "half_life")
