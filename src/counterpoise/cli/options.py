"""Groups of options that several commands share, and how their values are parsed.

A group is a dataclass whose fields are options. It is declared once and is a panel in ``--help``.
:func:`counterpoise.cli.messages.with_option_groups` passes it to a command as one object.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import typer

from counterpoise.cli import messages
from counterpoise.encoding.columns import MANY_CATEGORIES, MAX_BUCKETS, MISSING_RULES
from counterpoise.errors import DataError, OptionValue, unknown_name

Names = list[str]
FORMATS = ("csv", "tsv", "jsonl", "libsvm", "parquet", "arrow")
POSITIVE = (1, float("inf"))  # limits of a count
MISSING_ID = "--labels requires --id, the column that joins rows and labels"

_FILES = typer.Argument(
    metavar="FILES",
    help="CSV, TSV, JSON lines or arrays, LIBSVM, Parquet or Arrow files, text also compressed "
    "(gzip, zstd, bzip2, xz, zip of one file); patterns; - for standard input; a database as "
    "postgresql://HOST/NAME, sqlite:///FILE or duckdb:///FILE.",
    show_default=False,
)
Files = Annotated[Names, _FILES]
SomeFiles = Annotated[Names | None, _FILES]
ModelFile = Annotated[str, typer.Argument(help="Model file.", metavar="MODEL", show_default=False)]


def _define_option(panel: str | None, help: str, metavar: str | None, *flags: str) -> Any:  # noqa: A002
    """Return an option that is in several groups and commands."""
    return typer.Option(*flags, help=help, metavar=metavar, rich_help_panel=panel)


_ID = _define_option("Labels", "Column that joins rows and labels.", "COLUMN", "--id")
_POSITIVE = _define_option(
    "Monitoring", "Class of interest (default: the model's or the rarest).", "LABEL"
)
_NEW_COLUMNS = _define_option(
    "Monitoring", "Learn tables with more or fewer columns, 0 where absent.", None,
    "--allow-new-columns",
)  # fmt: skip
_ALLOW_FUTURE = _define_option("Monitoring", "Accept times after now.", None, "--allow-future")
_REPORT = _define_option(None, "Write an HTML report.", "FILE.html")
_WHERE = _define_option(
    None, "Only rows with this value; all of several.", "COLUMN=VALUE", "--where"
)
Id = Annotated[str | None, _ID]
Positive = Annotated[str | None, _POSITIVE]
NewColumns = Annotated[bool, _NEW_COLUMNS]
AllowFuture = Annotated[bool, _ALLOW_FUTURE]
Report = Annotated[str | None, _REPORT]
WhereOption = Annotated[Names | None, _WHERE]


def option(
    help: str,  # noqa: A002
    metavar: str | None = None,
    *flags: str,
    default: Any = None,
    limits: tuple[float, float] | None = None,
    **more: Any,
) -> Any:
    """Return the field of a group that is an option; its number must be within the limits."""
    info = typer.Option(*flags, help=help, metavar=metavar, **more)
    return field(default=default, metadata={"option": info, "limits": limits})


def parse_not_negative(text: str) -> float:
    """Parse a finite number that is not negative."""
    value = float(text)
    if not 0.0 <= value < float("inf"):
        raise ValueError(text)
    return value


def parse_positive(text: str) -> float:
    """Parse a finite number above 0."""
    value = parse_not_negative(text)
    if value == 0.0:
        raise ValueError(text)
    return value


def _bucket_count(text: str) -> int:
    """Parse a number of buckets of a hash."""
    value = int(text)
    if not 1 <= value <= MAX_BUCKETS:
        raise ValueError(text)
    return value


def _many_role(text: str) -> tuple[str, str]:
    """Return a column with many categories and its role, given COLUMN or COLUMN=ROWS."""
    name, equals, rows = text.rpartition("=")
    if not equals:
        return text, MANY_CATEGORIES
    expected = "COLUMN, or COLUMN=ROWS with the rows that the ridge is worth"
    parse_number("--many", rows, {}, expected, parse_positive)
    return name, f"{MANY_CATEGORIES}:{float(rows):g}"


def require_choice(option: str, value: str | None, choices: Iterable[str]) -> None:
    """Raise if an option has a value that is not one of its choices."""
    *first, last = choices
    if value is not None and value not in (*first, last):
        raise DataError(f"{option} must be {', '.join(first)} or {last}; got {value!r}")


def require_folder(report: str | None) -> None:
    """Raise if the folder of a report does not exist."""
    folder = None if report is None else messages.missing_folder(report)
    if folder is not None:
        raise DataError(f"folder {folder} does not exist")


def parse_number(
    option: str,
    text: str,
    names: Mapping[str, Any],
    expected: str,
    convert: Callable[[str], float] = parse_not_negative,
) -> Any:
    """Parse a number, or a name that stands for a value."""
    try:
        return names[text] if text in names else convert(text)
    except ValueError:
        raise DataError(f"{option} must be {expected}; got {text!r}") from None


def names(values: Iterable[str] | None) -> tuple[str, ...]:
    """Return names that were given one by one or with commas between them."""
    return tuple(name for value in values or () for name in value.split(",") if name)


def by_name(
    option: str, values: Iterable[str], convert: Callable[[str], Any], expected: str
) -> dict[str, Any]:
    """Parse pairs NAME=VALUE."""
    result = {}
    for pair in values:
        name, sign, text = pair.rpartition("=")
        try:
            result[name] = convert(text)
        except ValueError:
            sign = ""
        if not sign or not name:
            raise DataError(f"{option} must be {expected}; got {pair!r}")
    return result


def parse_where(where: Names | None) -> Any:
    """Parse conditions COLUMN=VALUE; return None if there are none."""
    if not where:
        return None
    values: dict[str, tuple[str, ...]] = {}
    for pair in where:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise DataError(f"--where must be COLUMN=VALUE; got {pair!r}")
        values[name] = (*values.get(name, ()), value)

    from counterpoise.tables.records import RowFilter

    return RowFilter(values)


@dataclass
class InputOptions:
    """Options of input files."""

    panel: ClassVar[str] = "Input"
    format: str | None = option(f"{', '.join(FORMATS)} (default: by the name).", "FORMAT")
    delimiter: str | None = option("Field delimiter of CSV (default: comma).", "CHAR")
    no_header: bool = option("CSV has no header; columns are 'column 1' and so on.", default=False)
    table: str | None = option("Table or view of a database.", "TABLE")
    query: str | None = option("Rows of a database, instead of a table.", "SQL")

    def reading(self) -> dict[str, Any]:
        """Return the arguments of :func:`counterpoise.readers.source`, checked."""
        require_choice("--format", self.format, FORMATS)
        delimiter = self.delimiter
        if delimiter is not None:
            delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
            if len(delimiter) != 1 or ord(delimiter) > 127 or delimiter in '"\r\n':
                raise DataError(f"--delimiter must be one character; got {delimiter!r}")
        database = _set_fields(self, ("table", "query"))
        reading = {"format": self.format, "delimiter": delimiter, "header": not self.no_header}
        return {**reading, "database": database} if database else reading


@dataclass
class ScoreInputOptions(InputOptions):
    """Options of inputs that a model scores."""

    ignore_unknown: bool = option("Ignore columns that the model has not learned.", default=False)


@dataclass
class LearnInputOptions(InputOptions):
    """Options of inputs each row of which is learned once."""

    allow_overlap: bool = option("Learn a file that begins like another one.", default=False)
    complete: bool = option("Also learn a last line without a line end.", default=False)
    stdin_name: str | None = option("Name of standard input in the records.", "NAME")
    cursor: str | None = option(
        "Column of a table that only grows: learn the rows above the highest learned value.",
        "COLUMN",
    )
    allow_changed_past: bool = option(
        "Continue although learned rows of a table have changed.", default=False
    )

    def reading(self) -> dict[str, Any]:
        """Return the arguments of :func:`counterpoise.readers.source`, checked."""
        reading = super().reading() | {"stdin_name": self.stdin_name, "complete": self.complete}
        database = {**reading.get("database", {}), **_set_fields(self, ("cursor",))}
        if self.allow_changed_past:
            database["allow_changed_past"] = True
        return {**reading, "database": database} if database else reading


@dataclass
class LabelOptions:
    """Options of labels that are in files of their own."""

    panel: ClassVar[str] = "Labels"
    labels: Names | None = option("File of labels by id. Repeatable.", "FILE", "--labels")
    id: Id = None


@dataclass
class SavingOptions:
    """Options of how often a model is saved, and of the rows in memory."""

    panel: ClassVar[str] = "Saving"
    checkpoint_every: int = option(
        "Rows between two saves.", "N", default=1_000_000, limits=POSITIVE
    )
    chunk_rows: int | None = option(
        "Rows learned in one step (default: 8192).", "N", limits=(1, 10_000_000)
    )


@dataclass
class MonitoringOptions:
    """Options of what a model may learn, and of its progressive metrics."""

    panel: ClassVar[str] = "Monitoring"
    allow_new_classes: bool = option("Learn labels that an old model has not seen.", default=False)
    allow_new_columns: NewColumns = False
    allow_future: AllowFuture = False
    positive: Positive = None
    metrics: str | None = option("Append progressive metrics to this file.", "FILE.jsonl")
    metrics_every: int = option(
        "Rows between two lines of metrics.", "N", default=10_000, limits=POSITIVE
    )


@dataclass
class BoundaryOptions:
    """Options of the boundaries between classes."""

    panel: ClassVar[str] = "Model"
    ridge: str | None = option("Penalty: a number, auto or gcv (default: auto).", "NUMBER|NAME")
    multi_class: str | None = option("lda or ovr (one-vs-rest); default: lda.", "NAME")
    pooled_rows: str | None = option(
        "Quadratic boundaries: one covariance per class, shrunk toward the pooled covariance with "
        "the weight of ROWS rows (default: none).",
        "ROWS",
    )

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the classifier that options set, checked."""
        result: dict[str, Any] = {}
        if self.ridge is not None:
            known = {"auto": "auto", "gcv": "gcv"}
            result["ridge"] = parse_number("--ridge", self.ridge, known, "0 or more, auto or gcv")
        require_choice("--multi-class", self.multi_class, ("lda", "ovr"))
        if self.multi_class is not None:
            result["multi_class"] = self.multi_class
        if self.pooled_rows is not None:
            rows = parse_number(
                "--pooled-rows", self.pooled_rows, {"none": None}, "0 or more, or none"
            )
            if rows is not None and self.multi_class == "ovr":
                raise DataError("--pooled-rows cannot be combined with --multi-class ovr")
            result["pooled_rows"] = rows
        return result


@dataclass
class ModelOptions(BoundaryOptions):
    """Options of the model."""

    class_weight: Names | None = option("balanced, none, or weights by label.", "LABEL=WEIGHT")
    class_factor: Names | None = option("Factors on balanced class weights.", "LABEL=FACTOR")
    scale: str | None = option("standard or none.", "NAME")
    intercept: str | None = option("penalized, free or none.", "NAME")
    half_life: Names | None = option(
        "Rows of a class, or a time, after which a weight is halved.", "ROWS|LABEL=ROWS|7d"
    )
    calibrate: bool | None = option(
        "Correct probabilities by progressive scores.", None, "--calibrate/--no-calibrate",
        show_default="no-calibrate",
    )  # fmt: skip
    memory_limit: float | None = option("Bytes of memory that learning may use.", "BYTES")
    feature_map: str | None = option(
        "Map of the features, such as poly2, interactions, rm3 or rff:400. auto averages several "
        "maps. The path of a model file reuses its map, and auto:FILE the maps that it averages.",
        "MAP",
    )

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the classifier that options set, checked."""
        result = super().parameters()
        if result.get("pooled_rows") is not None and self.intercept == "none":
            raise DataError("--pooled-rows cannot be combined with --intercept none")
        if self.class_weight:
            named, given = {"balanced": "balanced", "none": None}, names(self.class_weight)
            is_named = len(given) == 1 and given[0] in named
            expected = "balanced, none, or LABEL=WEIGHT with weights above 0"
            result["class_weight"] = (
                named[given[0]]
                if is_named
                else by_name("--class-weight", given, parse_positive, expected)
            )
        if self.class_factor:
            given, expected = names(self.class_factor), "LABEL=FACTOR with factors above 0"
            result["class_factors"] = by_name("--class-factor", given, parse_positive, expected)
        require_choice("--scale", self.scale, ("standard", "none"))
        if self.scale is not None:
            result["scale"] = None if self.scale == "none" else self.scale
        require_choice("--intercept", self.intercept, ("penalized", "free", "none"))
        if self.intercept is not None:
            result["fit_intercept"] = self.intercept != "none"
            result["penalize_intercept"] = self.intercept != "free"
        if self.half_life:
            result["half_life"] = _parse_half_life(names(self.half_life))
        if self.feature_map is not None:
            result["feature_map"] = parse_feature_map(self.feature_map)
        return result | _set_fields(self, ("memory_limit", "calibrate"))


def _set_fields(group: Any, fields: Iterable[str]) -> dict[str, Any]:
    """Return the values of options that were set."""
    return {name: getattr(group, name) for name in fields if getattr(group, name) is not None}


def _parse_half_life(given: tuple[str, ...]) -> Any:
    """Parse rows of a class, rows by label, or a time."""
    if any("=" in one for one in given):
        return by_name("--half-life", given, parse_positive, "LABEL=ROWS with rows above 0")
    if len(given) > 1:
        raise DataError("--half-life must be one value, or one for each label: LABEL=ROWS")
    from counterpoise.moments.decay import parse_time_span

    if parse_time_span(given[0]) is not None:
        return given[0]
    expected = "a number of rows above 0, or a time such as 12h, 7d or 2w"
    return parse_number("--half-life", given[0], {}, expected, parse_positive)


def parse_feature_map(text: str) -> str:
    """Return a feature map, checked; the path of a model file gets a separator."""
    auto, colon, path = text.partition(":")
    if auto == "auto":
        return f"auto:{os.path.join(os.curdir, path)}" if colon else text

    from counterpoise.feature_maps.fitted import PYTHON_MAPS, map_of

    try:
        return map_of(text).text
    except ValueError as error:
        if os.path.dirname(text):
            return text
        if text.endswith(".safetensors") or os.path.isfile(text):
            return os.path.join(os.curdir, text)
        problem = str(error).removeprefix("feature_map=")
        problem = problem.replace(f"or {PYTHON_MAPS}", "auto, or a model file")
        raise DataError(f"--feature-map: {problem}") from None


@dataclass
class FeatureOptions:
    """Options of columns: the label, and how other columns become features."""

    panel: ClassVar[str] = "Columns"
    label: str | None = option("Column that contains the class.", "COLUMN")
    drop: Names | None = option("Columns to leave out, comma-separated or repeated.", "COLUMNS")
    keep: Names | None = option("The only columns to learn from.", "COLUMNS")
    numeric: Names | None = option("Columns that are numbers.", "COLUMNS")
    categorical: Names | None = option("Columns that are categories.", "COLUMNS")
    datetime: Names | None = option("Dates: seconds, and phases of day, week, year.", "COLUMNS")
    epoch: Names | None = option("Dates: only seconds since 1970.", "COLUMNS")
    hash: Names | None = option("Hash the categories of a column into N buckets.", "COLUMN=N")
    seed: int | None = option("Seed of the hashes.", "N")
    many: Names | None = option(
        "Columns with many categories; ROWS fixes the ridge.", "COLUMN[=ROWS]"
    )
    missing: str | None = option("Missing values: mean, indicate, drop or error.", "RULE")
    decimal: str | None = option("Decimal sign of numbers in text: . or ,", "CHAR")
    time_format: str | None = option("Format of dates in text, such as %d.%m.%Y.", "FORMAT")

    def _roles(self) -> list[tuple[str, str]]:
        """Return pairs of column and role."""
        given = {
            "drop": self.drop, "number": self.numeric, "category": self.categorical,
            "datetime": self.datetime, "epoch": self.epoch,
        }  # fmt: skip
        pairs = [(name, role) for role, some in given.items() for name in names(some)]
        expected = f"COLUMN=N with N from 1 to {MAX_BUCKETS:,}"
        buckets = by_name("--hash", self.hash or (), _bucket_count, expected)
        pairs += [(name, f"hash:{count}") for name, count in buckets.items()]
        return pairs + [_many_role(one) for one in names(self.many)]

    def settings(self) -> dict[str, Any]:
        """Return the fields of Columns that options set, checked."""
        result: dict[str, Any] = {} if self.label is None else {"label": self.label}
        roles: dict[str, str] = {}
        for name, role in self._roles():
            if roles.setdefault(name, role) != role:
                both = [OptionValue("columns", {name: one}) for one in (roles[name], role)]
                options = messages.format_as_options(*both)
                raise DataError(f"column {name!r} has two roles: {options}; leave one out")
        if roles:
            result["roles"] = dict(sorted(roles.items()))
        if self.keep:
            result["only"] = names(self.keep)
        require_choice("--missing", self.missing, MISSING_RULES)
        require_choice("--decimal", self.decimal, (".", ","))
        if self.time_format is not None and "%" not in self.time_format:
            raise DataError(f"--time-format must be like %d.%m.%Y; got {self.time_format!r}")
        return result | _set_fields(self, ("seed", "missing", "decimal", "time_format"))

    def require_dates(self) -> None:
        """Raise if dates have a format, and no column has dates."""
        has_dates = self.datetime or self.epoch or getattr(self, "timestamp", None)
        if self.time_format is not None and not has_dates:
            raise DataError("--time-format requires --datetime or --epoch")


@dataclass
class ColumnOptions(FeatureOptions):
    """Options of columns, with weights and with the labels that are allowed."""

    weight: str | None = option("Column that contains sample weights.", "COLUMN")
    classes: Names | None = option("The only labels that are allowed.", "LABELS")

    def _roles(self) -> list[tuple[str, str]]:
        return [*super()._roles(), *([] if self.weight is None else [(self.weight, "weight")])]

    def settings(self) -> dict[str, Any]:
        """Return the fields of Columns that options set, checked."""
        result = super().settings()
        if self.classes:
            result["classes"] = tuple(sorted(set(names(self.classes))))
            if len(result["classes"]) < 2:
                raise DataError("--classes must be at least two labels")
        return result


@dataclass
class ModelColumnOptions(ColumnOptions):
    """Options of the columns of a model, whose rows may decay by time."""

    timestamp: str | None = option("Time of each row, for --half-life 7d; not a feature.", "COLUMN")

    def _roles(self) -> list[tuple[str, str]]:
        times = [(self.timestamp, "timestamp")] if self.timestamp else []
        return [*super()._roles(), *times]


class MisclassificationCosts(NamedTuple):
    """Costs of a false alarm and of a miss; a column may contain the cost of a miss of each row."""

    alarm: float
    miss: float | None
    column: str | None


@dataclass
class CostOptions:
    """Options of the costs of mistakes."""

    panel: ClassVar[str] = "Monitoring"
    cost_miss: float | None = option("Cost of a miss; alert where that costs less.", "COST")
    cost_alarm: float | None = option("Cost of a false alarm (default: 1).", "COST")
    cost_miss_column: str | None = option("Column of the cost of a miss of each row.", "COLUMN")

    def costs(self) -> MisclassificationCosts | None:
        """Return the costs, checked; None if no option sets them."""
        for name, value in (("--cost-miss", self.cost_miss), ("--cost-alarm", self.cost_alarm)):
            if value is not None and not 0.0 < value < float("inf"):
                raise DataError(f"{name} must be a finite number above 0; got {value:g}")
        if self.cost_miss is not None or self.cost_miss_column is not None:
            alarm = 1.0 if self.cost_alarm is None else self.cost_alarm
            return MisclassificationCosts(alarm, self.cost_miss, self.cost_miss_column)
        if self.cost_alarm is not None:
            raise DataError("--cost-alarm requires --cost-miss")
        return None


def load_model(path: str, files: Iterable[str] = ()) -> Any:
    """Load a model file; the error reports whether MODEL and FILES may be swapped."""
    from counterpoise.errors import ModelFileError
    from counterpoise.tables.model import TableModel

    try:
        return TableModel.load(path)
    except ModelFileError as error:
        if not any(one.endswith(".safetensors") for one in files):
            raise
        raise ModelFileError(f"{error}; are MODEL and FILES swapped?") from None


def select_positive(positive: str | None, counts: Mapping[Any, float], usual: Any = None) -> Any:
    """Return the positive class: by option, the usual one, or the rarest."""
    from counterpoise.tables.model import rarest_class

    if positive is None:
        return rarest_class(counts) if usual is None else usual
    by_text = {str(label): label for label in counts}
    if positive not in by_text:
        raise unknown_name("--positive", "class", positive, by_text)
    return by_text[positive]


def output_format(option: str | None, output: str | None, formats: Mapping[str, str]) -> str:
    """Return the format of an output: by option, by the ending of its name, or the first one.

    ``formats`` are formats by ending.
    """
    require_choice("--output-format", option, dict.fromkeys(formats.values()))
    if option is not None:
        return option
    if output is None:
        return next(iter(formats.values()))
    found = formats.get(output.rsplit(".", 1)[-1].lower())
    if found is None:
        *first, last = (f".{ending}" for ending in formats)
        text = f"cannot infer the format of {output!r}; use {', '.join(first)} or {last}"
        raise DataError(f"--output: {text}")
    return found


# Defaults of groups that are not keyword-only parameters.
COLUMNS, INPUT, BOUNDARIES = ColumnOptions(), InputOptions(), BoundaryOptions()
