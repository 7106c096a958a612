"""counterpoise predict: from a model file and rows to predictions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from counterpoise.cli import messages
from counterpoise.cli import options as opt
from counterpoise.cli.messages import pluralize
from counterpoise.errors import DataError

ABSENT = "column {!r} is not there, and 0 as in the rows that were learned without it"
OUTPUTS = {
    "csv": "csv", "tsv": "tsv", "tab": "tsv", "jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl",
    "parquet": "parquet", "pq": "parquet",
}  # fmt: skip


@dataclass
class OutputOptions:
    """Options of the table of predictions."""

    panel: ClassVar[str] = "Output"
    output: str | None = opt.option("File (default: standard output).", "FILE", "--output", "-o")
    output_format: str | None = opt.option("csv, tsv, jsonl or parquet (default: csv).", "FORMAT")
    id: list[str] | None = opt.option("Columns of the input to copy.", "COLUMNS", "--id")
    with_input: bool = opt.option("Copy all columns of the input.", default=False)
    explain: int | None = opt.option(
        "Name the N columns that contribute most to the score.", "N", limits=(1, 100)
    )


@dataclass
class AlertOptions(opt.CostOptions):
    """Options of the rule that decides which rows get an alert."""

    threshold: float | None = opt.option("Alert where the balanced probability is at least P.", "P")
    alert_rate: float | None = opt.option(
        "Alert on this share of rows, the highest of the recent ones.", "SHARE"
    )
    alerts_per_day: int | None = opt.option(
        "Alert on the highest rows, at most N per day.", "N", limits=opt.POSITIVE
    )
    top_per_day: int | None = opt.option(
        "Alert on exactly the N highest rows of each day, after all rows were read.",
        "N",
        limits=opt.POSITIVE,
    )
    timestamp: str | None = opt.option(
        "Column of the time of each row, for alerts per day (default: the model's).", "COLUMN"
    )
    positive: opt.Positive = None

    def selected_rule(self) -> str:
        """Return the option of the rule, checked; an empty text if there is none."""
        rules = {
            "threshold": self.threshold,
            "cost-miss": self.costs(),
            "alert-rate": self.alert_rate,
            "alerts-per-day": self.alerts_per_day,
            "top-per-day": self.top_per_day,
        }
        found = [name for name, value in rules.items() if value is not None]
        if len(found) > 1:
            raise DataError(f"--{found[1]} cannot be combined with --{found[0]}")
        for name, value in (("threshold", self.threshold), ("alert-rate", self.alert_rate)):
            if value is not None and not 0.0 < value < 1.0:
                raise DataError(f"--{name} must be between 0 and 1; got {value:g}")
        if self.timestamp is not None and self.alerts_per_day is None and self.top_per_day is None:
            raise DataError("--timestamp requires --alerts-per-day or --top-per-day")
        return found[0] if found else ""

    def rule(self, stored: Any, positive: Any) -> Any:
        """Return the rule of a model, or None."""
        from counterpoise.tables import alerts
        from counterpoise.tables.scoring import class_ranks

        columns, costs = stored.encoding.columns, self.costs()
        recent = class_ranks(stored.recent, stored.classes.index(positive))
        if self.threshold is not None:
            return alerts.Threshold(self.threshold)
        if costs is not None:
            return alerts.ExpectedCost(*costs, columns.decimal)
        if self.alert_rate is not None:
            return alerts.TopShare(self.alert_rate, recent)
        if self.alerts_per_day is None and self.top_per_day is None:
            return None
        times = [columns.timestamp] if columns.timestamp else columns.with_role("epoch")
        time = self.timestamp or (times[0] if len(times) == 1 else None)
        if time is None:
            raise DataError(f"--{self.selected_rule()} requires --timestamp")
        time_format = columns.time_format if time in times else None
        if self.alerts_per_day is not None:
            return alerts.DailyQuota(self.alerts_per_day, time, recent, time_format)
        return alerts.TopPerDay(self.top_per_day or 0, time, time_format)


def hint_calibration(model: Any) -> None:
    """Print how costs get better probabilities, if a model is not calibrated."""
    if not model.params.options.calibrate:
        messages.info(
            "the model is not calibrated, and costs need probabilities; learn it with --calibrate"
        )


def predict(
    model: opt.ModelFile,
    files: opt.Files,
    *,
    output: OutputOptions,
    alerts: AlertOptions,
    input: opt.ScoreInputOptions,  # noqa: A002
) -> None:
    """Predict the rows of files, in order and in constant memory.

    The output has the predicted class and the score of each row, and two probabilities of each
    class: one assuming balanced classes, one at the observed class frequencies. Rows of standard
    input are predicted as they arrive.

    Example: counterpoise predict fraud.safetensors today.csv --id payment > scored.csv

    With --explain 3 there are the columns reason_1, share_1 and so on. A share is the contribution
    of the column, relative to all contributions. A positive share is evidence for the class of the
    score. With several classes it is evidence for the predicted class.

    Alerts by cost: counterpoise predict fraud.safetensors today.csv --cost-miss 200
    """
    reading, rule_name, path = input.reading(), alerts.selected_rule(), output.output
    kind = opt.output_format(output.output_format, path, OUTPUTS)
    if path is None and kind == "parquet" and sys.stdout.isatty():
        raise DataError("--output-format parquet requires --output on a terminal")

    from counterpoise.readers import formats
    from counterpoise.tables.alerts import TopPerDay
    from counterpoise.tables.predict import Predictor, flag_top, open_writer
    from counterpoise.tables.predict import predict as predictions

    paths = formats.expand_paths(files)
    stored = opt.load_model(model, files).require_learned()
    counts = stored.class_counts
    positive = opt.select_positive(alerts.positive, counts, stored.positive)
    if rule_name and sum(count > 0 for count in counts.values()) < 2:
        messages.info(
            f"warning: {model} has learned one class only, so there are no alerts; learn rows of "
            "another class first"
        )
    rule = alerts.rule(stored, positive)
    if rule_name == "cost-miss":
        hint_calibration(stored.model)
    copied = None if output.with_input else list(opt.names(output.id))
    predictor = Predictor(stored, positive, rule, copied, input.ignore_unknown, output.explain or 0)
    existing = [one for one in paths if os.path.exists(one)]
    if path and os.path.isfile(path) and any(os.path.samefile(one, path) for one in existing):
        raise DataError(f"--output: {path} is also an input; write another file")
    is_shown = sys.stderr.isatty() and (path is not None or not sys.stdout.isatty())
    with open_writer(path, kind) as out, messages.Progress(is_shown) as progress:

        def tables() -> Iterator[Any]:
            for one in paths:
                source = formats.source(one, **reading, live=one == "-")
                for table in predictions(predictor, source):
                    progress.chunk(source, table.num_rows)
                    yield table

        for table in flag_top(tables(), rule) if isinstance(rule, TopPerDay) else tables():
            out.write(table)
        if not out.names:
            out.write(predictor.empty_table())
    _report(predictor)


def _report(predictor: Any) -> None:
    """Print which columns and rows of the input were not as learned."""
    total = f"of {predictor.rows:,} rows"
    for name in predictor.strange:
        messages.info(f"warning: column {name!r} is unknown to the model and was not used")
    for name in predictor.lacking:
        messages.info(ABSENT.format(name))
    if predictor.bare:
        messages.info(
            f"{predictor.bare:,} {total} have none of the columns of the model and no prediction"
        )
    for line in predictor.outlying.warnings():
        messages.info(line)
    if predictor.skipped:
        messages.info(f"{predictor.skipped:,} {total} have missing values and no prediction")
    for name, count in predictor.blank.items():
        messages.info(
            f"warning: column {name!r}: {pluralize(count, 'cell')} without a value, where every "
            "learned row had one; a number is taken as the mean, text as no category"
        )
    for name, count in predictor.unknown.items():
        messages.info(
            f"column {name!r}: {pluralize(count, 'cell')} with a category that was never learned, "
            "taken as no category"
        )
