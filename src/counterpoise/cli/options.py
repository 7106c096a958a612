"""Options that several commands share, and how their texts are read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import typer

from counterpoise.cli import messages
from counterpoise.encoding.columns import MAX_BUCKETS, MISSING_RULES
from counterpoise.errors import OptionValue

FORMATS = "csv, tsv, jsonl, libsvm, parquet or arrow"

_FILES = typer.Argument(
    metavar="FILES",
    help="CSV, TSV, JSON lines or arrays, LIBSVM, Parquet or Arrow files, text also compressed "
    "(gzip, zstd, bzip2, xz, zip of one file); patterns; - for standard input.",
    show_default=False,
)
Files = Annotated[list[str], _FILES]
SomeFiles = Annotated[list[str] | None, _FILES]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--labels", help="Files of labels that came later: an id and a label each.", metavar="FILE"
    ),
]
Id = Annotated[
    str | None,
    typer.Option("--id", help="Column that joins rows and labels.", metavar="COLUMN"),
]
Format = Annotated[
    str | None, typer.Option("--format", help=f"Format of the input: {FORMATS}.", metavar="NAME")
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", help="Between the fields of CSV.", metavar="CHAR")
]
NoHeader = Annotated[
    bool,
    typer.Option(
        "--no-header", help="CSV without names: columns are 'column 1', 'column 2' and so on."
    ),
]
Label = Annotated[str | None, typer.Option(help="Column that holds the class.", metavar="COLUMN")]
Weight = Annotated[
    str | None, typer.Option(help="Column that holds weights of rows.", metavar="COLUMN")
]
Drop = Annotated[list[str] | None, typer.Option(help="Columns to leave out.", metavar="COLUMNS")]
Keep = Annotated[
    list[str] | None, typer.Option(help="The only columns to learn from.", metavar="COLUMNS")
]
Numeric = Annotated[
    list[str] | None, typer.Option(help="Columns that are numbers.", metavar="COLUMNS")
]
Categorical = Annotated[
    list[str] | None, typer.Option(help="Columns that are categories.", metavar="COLUMNS")
]
Datetime = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns of dates: seconds, and time of the day, week and year.", metavar="COLUMNS"
    ),
]
Epoch = Annotated[
    list[str] | None,
    typer.Option(help="Columns of dates: seconds since 1970 alone.", metavar="COLUMNS"),
]
Timestamp = Annotated[
    str | None,
    typer.Option(
        help="Column of the time of each row, by which --half-life 7d decays; not a feature.",
        metavar="COLUMN",
    ),
]
Hash = Annotated[
    list[str] | None,
    typer.Option(help="Spread the categories of a column over N buckets.", metavar="COLUMN=N"),
]
Seed = Annotated[int | None, typer.Option(help="Seed of the hashes.")]
Missing = Annotated[
    str | None, typer.Option(help="Missing values: mean, indicate, drop or error.", metavar="RULE")
]
Positive = Annotated[
    str | None,
    typer.Option(
        help="Class of interest; by default that of the model, or the rarest.", metavar="LABEL"
    ),
]


Classes = Annotated[
    list[str] | None,
    typer.Option(help="The only labels that there may be.", metavar="LABELS"),
]
NewColumns = Annotated[
    bool,
    typer.Option(
        "--allow-new-columns", help="Learn tables with more or fewer columns, 0 where absent."
    ),
]
Decimal = Annotated[
    str | None, typer.Option(help="Decimal sign of numbers in text: . or ,", metavar="CHAR")
]
TimeFormat = Annotated[
    str | None,
    typer.Option(help="How dates are written, such as %d.%m.%Y.", metavar="FORMAT"),
]
IgnoreUnknown = Annotated[
    bool,
    typer.Option("--ignore-unknown", help="Leave out columns that the model does not know."),
]
FeatureMap = Annotated[
    str | None,
    typer.Option(
        help="Map of the features: poly2, interactions, rm3, rff:400 and so on; auto to let the "
        "model choose; a model file to begin with its map, or auto:FILE with all that it has.",
        metavar="MAP",
    ),
]


Ridge = Annotated[
    str | None,
    typer.Option(
        help="Penalty: auto, worth three rows however many there are; gcv to choose it; or a "
        "number. auto by default.",
        metavar="NUMBER|NAME",
    ),
]
MultiClass = Annotated[
    str | None,
    typer.Option(
        help="Several classes: lda, all in one model, or ovr, each against all others. lda by "
        "default.",
        metavar="NAME",
    ),
]
Pooling = Annotated[
    str | None,
    typer.Option(
        help="Give each class a covariance of its own, for quadratic boundaries, with so many rows "
        "of pooled evidence; none, the default, for linear boundaries.",
        metavar="ROWS",
    ),
]


ClassWeight = Annotated[
    list[str] | None,
    typer.Option(help="balanced, none, or weights by label.", metavar="LABEL=WEIGHT"),
]
ClassFactor = Annotated[
    list[str] | None,
    typer.Option(
        help="Factor on the balanced weight of a class; for prices see predict --cost-miss.",
        metavar="LABEL=FACTOR",
    ),
]
Scale = Annotated[str | None, typer.Option(help="standard or none.", metavar="NAME")]
Intercept = Annotated[str | None, typer.Option(help="penalized, free or none.", metavar="NAME")]
HalfLife = Annotated[
    list[str] | None,
    typer.Option(
        help="Rows of a class after which a weight has halved, for all or by label; or a time.",
        metavar="ROWS|LABEL=ROWS|7d",
    ),
]
MemoryLimit = Annotated[
    float | None, typer.Option(help="Bytes of memory that learning may take.", metavar="BYTES")
]
Calibrate = Annotated[
    bool | None,
    typer.Option(
        "--calibrate/--no-calibrate",
        help="Score rows before they are learned, and correct the stream's probabilities.",
        show_default="no-calibrate",
    ),
]


@dataclass
class BoundaryOptions:
    """Options of the boundaries between classes."""

    ridge: Ridge = None
    multi_class: MultiClass = None
    pooled_rows: Pooling = None

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the classifier that options set, checked."""
        result: dict[str, Any] = {}
        ridge, pooled_rows = self.ridge, self.pooled_rows
        if ridge is not None:
            try:
                result["ridge"] = ridge if ridge in ("auto", "gcv") else float(ridge)
            except ValueError:
                raise bad("--ridge", f"{ridge!r} is neither a number nor auto or gcv") from None
        if self.multi_class is not None:
            if self.multi_class not in ("lda", "ovr"):
                raise bad("--multi-class", f"{self.multi_class!r} is not lda or ovr")
            result["multi_class"] = self.multi_class
        if pooled_rows is not None:
            try:
                result["pooled_rows"] = None if pooled_rows == "none" else float(pooled_rows)
            except ValueError:
                text = f"{pooled_rows!r} is neither a number of rows nor none"
                raise bad("--pooled-rows", text) from None
            if result["pooled_rows"] is not None and self.multi_class == "ovr":
                raise bad("--pooled-rows", "cannot be combined with --multi-class ovr")
        return result


@dataclass
class ModelOptions(BoundaryOptions):
    """Options of the model."""

    class_weight: ClassWeight = None
    class_factor: ClassFactor = None
    scale: Scale = None
    intercept: Intercept = None
    half_life: HalfLife = None
    calibrate: Calibrate = None
    memory_limit: MemoryLimit = None
    feature_map: FeatureMap = None

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the classifier that options set, checked."""
        result = super().parameters()
        if result.get("pooled_rows") is not None and self.intercept == "none":
            raise bad("--pooled-rows", "cannot be combined with --intercept none")
        if self.class_weight:
            named, given = {"balanced": "balanced", "none": None}, names(self.class_weight)
            is_named = len(given) == 1 and given[0] in named
            weights = None if is_named else by_name("--class-weight", given, float, "WEIGHT")
            result["class_weight"] = named[given[0]] if is_named else weights
        if self.class_factor:
            factors = by_name("--class-factor", names(self.class_factor), float, "FACTOR")
            result["class_factors"] = factors
        if self.scale is not None:
            if self.scale not in ("standard", "none"):
                raise bad("--scale", f"{self.scale!r} is not standard or none")
            result["scale"] = None if self.scale == "none" else self.scale
        if self.intercept is not None:
            if self.intercept not in ("penalized", "free", "none"):
                raise bad("--intercept", f"{self.intercept!r} is not penalized, free or none")
            result["fit_intercept"] = self.intercept != "none"
            result["penalize_intercept"] = self.intercept != "free"
        if self.half_life:
            result["half_life"] = _half_life(names(self.half_life))
        for name in ("memory_limit", "calibrate"):
            if getattr(self, name) is not None:
                result[name] = getattr(self, name)
        if self.feature_map is not None:
            result["feature_map"] = feature_map(self.feature_map)
        return result


def _half_life(given: tuple[str, ...]) -> Any:
    """Rows of a class, rows by label, or a time."""
    if any("=" in one for one in given):
        return by_name("--half-life", given, float, "ROWS")
    if len(given) > 1:
        raise bad("--half-life", "name one, or one for each label: LABEL=ROWS")
    from counterpoise.moments.decay import parse_time_span

    try:
        return float(given[0])
    except ValueError:
        if parse_time_span(given[0]) is None:
            raise bad(
                "--half-life", f"{given[0]!r} is neither rows nor a time such as 12h, 7d or 2w"
            ) from None
        return given[0]


def feature_map(text: str) -> str:
    """A map of the features, checked."""
    auto, colon, path = text.partition(":")
    if auto == "auto":
        return f"auto:{os.path.join(os.curdir, path)}" if colon else text

    from counterpoise.feature_maps.fitted import map_of

    try:
        return map_of(text).text
    except ValueError as error:
        if os.path.dirname(text):
            return text
        if text.endswith(".safetensors") or os.path.isfile(text):
            return os.path.join(os.curdir, text)
        raise bad("--feature-map", str(error).removeprefix("feature_map=")) from None


def bad(option: str, message: str) -> typer.BadParameter:
    """Error about the use of an option."""
    return typer.BadParameter(message, param_hint=f"'{option}'")


@dataclass
class InputOptions:
    """Options of input files."""

    format: Format = None
    delimiter: Delimiter = None
    no_header: NoHeader = False

    def reading(self) -> dict[str, Any]:
        """Return the arguments of :func:`counterpoise.readers.source`, checked."""
        from counterpoise.readers.formats import FORMATS as KNOWN

        delimiter = self.delimiter
        if self.format is not None and self.format not in KNOWN:
            raise bad("--format", f"{self.format!r} is not one of {', '.join(KNOWN)}")
        if delimiter is not None:
            delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
            if len(delimiter) != 1 or ord(delimiter) > 127 or delimiter in '"\r\n':
                raise bad("--delimiter", f"{delimiter!r} is not one character")
        return {"format": self.format, "delimiter": delimiter, "header": not self.no_header}


def by_name(
    option: str, values: Iterable[str], convert: Any, what: str, key: str = "LABEL"
) -> dict[str, Any]:
    """NAME=VALUE pairs as a dict."""
    result = {}
    for pair in values:
        name, sign, text = pair.rpartition("=")
        try:
            result[name] = convert(text)
        except ValueError:
            sign = ""
        if not sign or not name:
            raise bad(option, f"{pair!r} is not {key}={what}")
    return result


def names(values: Iterable[str] | None) -> tuple[str, ...]:
    """Names given one by one or with commas between them."""
    return tuple(name for value in values or () for name in value.split(",") if name)


@dataclass
class FeatureOptions:
    """Options of columns: the label, and how others become features."""

    label: Label = None
    drop: Drop = None
    keep: Keep = None
    numeric: Numeric = None
    categorical: Categorical = None
    datetime: Datetime = None
    epoch: Epoch = None
    hash: Hash = None
    seed: Seed = None
    missing: Missing = None
    decimal: Decimal = None
    time_format: TimeFormat = None

    def _roles(self) -> list[tuple[str, str]]:
        """Return pairs of column and role."""
        given = {
            "drop": self.drop, "number": self.numeric, "category": self.categorical,
            "datetime": self.datetime, "epoch": self.epoch,
        }  # fmt: skip
        pairs = [(name, role) for role, some in given.items() for name in names(some)]
        buckets = by_name("--hash", self.hash or (), int, "N", "COLUMN")
        if any(not 1 <= count <= MAX_BUCKETS for count in buckets.values()):
            raise bad("--hash", "the number of buckets must be from 1 to 2**32")
        return pairs + [(name, f"hash:{count}") for name, count in buckets.items()]

    def settings(self, timestamp: str | None = None) -> dict[str, Any]:
        """Return the fields of Columns that options set, checked."""
        result: dict[str, Any] = {} if self.label is None else {"label": self.label}
        roles: dict[str, str] = {}
        for name, role in [*self._roles(), *([(timestamp, "timestamp")] if timestamp else [])]:
            if roles.setdefault(name, role) != role:
                both = [OptionValue("columns", {name: one}) for one in (roles[name], role)]
                options = messages.format_as_options(*both)
                raise bad(options.split()[0], f"column {name!r} has two roles: {options}")
        if roles:
            result["roles"] = dict(sorted(roles.items()))
        if self.keep:
            if self.drop:
                raise bad("--keep", "cannot be combined with --drop")
            result["only"] = tuple(sorted(set(names(self.keep))))
        if self.seed is not None and not 0 <= self.seed < 2**32:
            raise bad("--seed", "must be a whole number below 2**32")
        if self.missing is not None and self.missing not in MISSING_RULES:
            raise bad("--missing", f"{self.missing!r} is not mean, indicate, drop or error")
        if self.decimal is not None and self.decimal not in (".", ","):
            raise bad("--decimal", f"{self.decimal!r} is neither . nor ,")
        if self.time_format is not None and "%" not in self.time_format:
            raise bad("--time-format", f"{self.time_format!r} is not like %d.%m.%Y")
        for name in ("seed", "missing", "decimal", "time_format"):
            if getattr(self, name) is not None:
                result[name] = getattr(self, name)
        return result

    def require_dates(self, timestamp: str | None = None) -> None:
        """Raise if dates have a format, and no column has dates."""
        if self.time_format is not None and not (self.datetime or self.epoch or timestamp):
            text = "name the columns of dates too, with --datetime or --epoch"
            raise bad("--time-format", text)


@dataclass
class ColumnOptions(FeatureOptions):
    """Options of columns, with weights and with the labels that are allowed."""

    weight: Weight = None
    classes: Classes = None

    def _roles(self) -> list[tuple[str, str]]:
        return [*super()._roles(), *([] if self.weight is None else [(self.weight, "weight")])]

    def settings(self, timestamp: str | None = None) -> dict[str, Any]:
        """Return the fields of Columns that options set, checked."""
        result = super().settings(timestamp)
        if self.classes:
            result["classes"] = tuple(sorted(set(names(self.classes))))
            if len(result["classes"]) < 2:
                raise bad("--classes", "name at least two")
        return result


def chosen(
    positive: str | None, classes: list[Any], counts: list[float], stored: Any = None
) -> Any:
    """Return the class of interest."""
    if positive is None and stored is not None:
        return stored
    if positive is None:
        return min(zip(counts, range(0, -len(classes), -1), classes, strict=True))[2]
    by_name = {str(label): label for label in classes}
    if positive not in by_name:
        raise bad("--positive", f"{positive!r} is not one of {', '.join(by_name)}")
    return by_name[positive]


NAME = "cost-miss"
CostMiss = Annotated[
    float | None,
    typer.Option(
        help="What a miss costs: alert where it would cost more than a false alarm.", metavar="COST"
    ),
]
CostAlarm = Annotated[
    float | None, typer.Option(help="What a false alarm costs; 1 by default.", metavar="COST")
]
CostMissColumn = Annotated[
    str | None,
    typer.Option(
        help="Column of the cost of a miss; --cost-miss is for rows without a value.",
        metavar="COLUMN",
    ),
]


class MisclassificationCosts(NamedTuple):
    """Costs of a false alarm and of a miss; a column may contain the cost of a miss of each row."""

    alarm: float
    miss: float | None
    column: str | None


@dataclass
class CostOptions:
    """Options of the costs of mistakes."""

    cost_miss: CostMiss = None
    cost_alarm: CostAlarm = None
    cost_miss_column: CostMissColumn = None

    def costs(self) -> MisclassificationCosts | None:
        """Return the costs, checked; None if no option sets them."""
        for name, value in (("--cost-miss", self.cost_miss), ("--cost-alarm", self.cost_alarm)):
            if value is not None and not 0.0 < value < float("inf"):
                raise bad(name, f"must be a finite number above 0, not {value:g}")
        alarm = 1.0 if self.cost_alarm is None else self.cost_alarm
        if self.cost_miss is not None or self.cost_miss_column is not None:
            return MisclassificationCosts(alarm, self.cost_miss, self.cost_miss_column)
        if self.cost_alarm is not None:
            raise bad("--cost-alarm", "say what a miss costs too, with --cost-miss")
        return None


def hint_calibration(options: Any) -> None:
    """Print how costs get better probabilities, if a model could be calibrated and is not."""
    if not getattr(options, "calibrate", True):
        messages.info(
            "the model is not calibrated, and costs need probabilities; learn it with --calibrate"
        )


# Parameters of commands need a default; the options take its place.
INPUT, COSTS, FEATURES, COLUMNS = InputOptions(), CostOptions(), FeatureOptions(), ColumnOptions()
BOUNDARIES, MODEL = BoundaryOptions(), ModelOptions()
