"""Tables of databases: the model of the same rows in a file, flat memory, CPU, nightly kills.

Rows are synthetic. PostgreSQL is a server of its own in a temporary folder.
"""

import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from databases import HOSTILE, Database, try_names
from postgres import postgres_server

from benchmarks import processes, report
from counterpoise import BalancedRidgeClassifier, TableClassifier
from counterpoise.readers import source
from counterpoise.tables.model import TableModel, learn_inputs

ENGINES = ("sqlite", "duckdb", "postgresql")
WIDTH = 30  # numbers of a row in the measurement of CPU
NUMBERS = ", ".join(f"(i * {7919 + 2 * j}) % {997 + j} * 0.01 as x{j}" for j in range(4))
ROW = f"i as id, {NUMBERS}, 'c' || (i*31%11) as kind, case when i*37%50 = 0 then 1 else 0 "
ROW += "end as y"
SERIES = {
    "sqlite": "with recursive t(i) as (select {0} union all select i + 1 from t where i < {1}) "
    "insert into rows select " + ROW + " from t",
    "duckdb": "insert into rows select " + ROW + " from range({0}, {1} + 1) t(i)",
    "postgresql": "insert into rows select " + ROW + " from generate_series({0}::bigint, {1}) t(i)",
}
KINDS = {"id": "bigint primary key", **{f"x{j}": "double precision" for j in range(4)}}
KINDS |= {"kind": "text", "y": "integer"}
LEARN = ["--table", "rows", "--label", "y", "--drop", "id", "--model"]


@contextmanager
def database(engine, folder):
    """Create an empty database of one kind."""
    if engine != "postgresql":
        yield Database(engine, folder), None
        return
    with postgres_server() as server:
        yield Database(engine, folder, server.uri), server


def insert(found, first, last):
    """Insert rows with consecutive ids."""
    found.execute(SERIES[found.engine].format(first, last))


# Of a child that was forked, wait4 would return the memory of its parent.
MEASURED = """
import os, sys
from counterpoise.cli import main
try:
    main()
finally:
    times = os.times()
    memory = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
    with open("usage", "w") as file:
        file.write(f"{int(memory.split()[1]) / 1024} {times.user + times.system}")
"""


def peak_memory(folder, *arguments):
    """Run a command; return its largest resident memory in MB, and its seconds of CPU."""
    command = [sys.executable, "-c", MEASURED, *arguments]
    subprocess.run(command, cwd=folder, check=True, **processes.QUIET)
    return tuple(map(float, (folder / "usage").read_text().split()))


def measure_memory(sizes):
    """Return rows of a table: engine, and for each size peak memory and CPU per row."""
    lines = []
    for engine in ENGINES:
        with tempfile.TemporaryDirectory(dir="/tmp") as name:
            folder = Path(name)
            with database(engine, folder) as (found, _):
                found.create(name="rows", columns=KINDS)
                before, line, again = 0, [engine], 0.0
                for size in sizes:
                    insert(found, before + 1, size)
                    before = size
                    peak, seconds = peak_memory(folder, "learn", found.uri, *LEARN, f"{size}.m")
                    line += [f"{peak:.0f}", f"{1e6 * seconds / size:.2f}"]
                    arguments = ["learn", found.uri, *LEARN, "cursor.m", "--cursor", "id"]
                    again, seconds = peak_memory(folder, *arguments)
                    line += [f"{again:.0f}"]
                    print(line, flush=True)
                lines.append(line)
    return lines


# CPU


def wide_rows(rows):
    """Return rows of WIDTH numbers and a label."""
    rng = np.random.default_rng(0)
    y = rng.random(rows) < 0.1
    X = rng.standard_normal((rows, WIDTH)) + 0.3 * y[:, None]
    columns = {f"x{j}": X[:, j] for j in range(WIDTH)}
    return pa.table({"id": np.arange(rows), **columns, "y": y.astype(np.int64)})


def cpu_seconds(work):
    """Return the seconds of CPU of a function, in all threads."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def batches(found):
    """Open the reader of the driver itself."""
    if found.engine == "duckdb":
        import duckdb

        with duckdb.connect(found._file, read_only=True) as connection:
            yield connection.sql("select * exclude (id) from rows").to_arrow_reader(1 << 15)
        return
    import adbc_driver_postgresql.dbapi
    import adbc_driver_sqlite.dbapi

    columns = ", ".join([f"x{j}" for j in range(WIDTH)] + ["y"])
    drivers = {"sqlite": adbc_driver_sqlite.dbapi, "postgresql": adbc_driver_postgresql.dbapi}
    address = found.uri if found.engine == "postgresql" else str(found._file)
    with drivers[found.engine].connect(address) as connection, connection.cursor() as cursor:
        if found.engine == "sqlite":
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(1 << 15)})
        cursor.execute(f"select {columns} from rows")
        yield cursor.fetch_record_batch()


def arrow_loop(found, table):
    """Learn the batches of a driver by the loop that a user would write."""
    model = TableClassifier(label="y") if table else BalancedRidgeClassifier()
    with batches(found) as reader:
        for batch in reader:
            if table:
                model.partial_fit(pa.table(batch))
            else:
                X = np.column_stack([batch[f"x{j}"].to_numpy() for j in range(WIDTH)])
                model.partial_fit(X, batch["y"].to_numpy())
    return model


def learn_table(found, folder, **given):
    """Learn a table as ``counterpoise learn`` does; the model is not saved."""
    address = (
        found.uri.replace(":///", f":///{folder}/") if found.engine != "postgresql" else found.uri
    )
    rows = source(address, database={"table": "rows", **given})
    model = TableModel.open(str(folder / "never"), {"label": "y", "roles": {"id": "drop"}}, {})
    model.save = lambda: None
    learn_inputs(model, [(rows, "rows")])
    return model


def measure_cpu(rows, repeats=5):
    """Return rows of a table: microseconds per row of each way, and their ratios."""
    lines, worst = [], 0.0
    for engine in ENGINES:
        with tempfile.TemporaryDirectory(dir="/tmp") as name:
            folder = Path(name)
            with database(engine, folder) as (found, _):
                columns = {f"x{j}": "double precision" for j in range(WIDTH)}
                columns = {"id": "bigint primary key", **columns, "y": "bigint"}
                found.create(wide_rows(rows), "rows", columns)
                works = (
                    partial(arrow_loop, found, True),
                    partial(arrow_loop, found, False),
                    partial(learn_table, found, folder),
                    partial(learn_table, found, folder, cursor="id"),
                )
                times = [[cpu_seconds(work) for work in works] for _ in range(repeats)]
                table, arrays, ours, cursor = (1e6 * t / rows for t in np.min(times, axis=0))
                ratios = ours / table, cursor / table
                worst = max(worst, *ratios)
                lines.append([engine, *(f"{t:.2f}" for t in (arrays, table, ours, cursor)),
                              *(f"{ratio:.2f}" for ratio in ratios)])  # fmt: skip
                print(lines[-1], flush=True)
    return lines, worst


# Equality


def measure_equality(rows):
    """Return rows of a table: the largest difference of a coefficient from that of a file."""
    import adbc_driver_sqlite.dbapi
    import duckdb
    import ibis
    import polars

    lines, table = [], wide_rows(rows)
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        pa.parquet.write_table(table, folder / "rows.parquet")
        processes.run(folder, "learn", "rows.parquet", *LEARN[2:], "file.safetensors")
        expected = TableClassifier.load(folder / "file.safetensors").estimator_.coef_

        def add(what, coefficients):
            lines.append([what, f"{np.abs(coefficients - expected).max():.1e}"])
            print(lines[-1], flush=True)

        columns = {f"x{j}": "double precision" for j in range(WIDTH)}
        columns = {"id": "bigint primary key", **columns, "y": "bigint"}
        for engine in ENGINES:
            with database(engine, folder) as (found, _):
                found.create(table, "rows", columns)
                for more in ((), ("--cursor", "id")):
                    model = f"{engine} {len(more)}"
                    processes.run(folder, "learn", found.uri, *LEARN, model, *more)
                    coefficients = TableClassifier.load(folder / model).estimator_.coef_
                    add(" ".join(("learn", engine, *more)), coefficients)
        file = str(folder / "shop.duckdb")
        connection = adbc_driver_sqlite.dbapi.connect(str(folder / "shop.sqlite"))
        cursor = connection.cursor()
        cursor.execute("select * from rows")
        frames = {
            "polars DataFrame": lambda: polars.from_arrow(table),
            "polars LazyFrame": lambda: polars.scan_parquet(folder / "rows.parquet"),
            "DuckDB relation": lambda: duckdb.connect(file, read_only=True).table("rows"),
            "Ibis table": lambda: ibis.duckdb.connect(file, read_only=True).table("rows"),
            "ADBC cursor": lambda: cursor,
            "RecordBatchReader": lambda: table.to_reader(1000),
            "iterable of frames": lambda: (table.slice(i, 777) for i in range(0, rows, 777)),
        }
        for what, frame in frames.items():
            model = TableClassifier(columns={"id": "drop"}).fit(frame(), "y")
            add(f"fit {what}", model.estimator_.coef_)
        cursor.close()
        connection.close()
    return lines, max(float(value) for _, value in lines)


# Nightly


def night(folder, name, found):
    """Return the arguments of the job of a night."""
    more = ["--cursor", "id", "--checkpoint-every", "8192"]
    return ["learn", found.uri, *LEARN, name, *more]


def run_nights(folder, found, server, nights, rows, kills, server_kills, seed=0):
    """Learn each night's rows under kills, and without; the models must be the same bytes.

    Return the number of kills of the command and of the server that met a running command.
    """
    rng, done, server_done = np.random.default_rng(seed), 0, 0
    for number in range(nights):
        insert(found, number * rows + 1, (number + 1) * rows)
        began = time.monotonic()
        processes.run(folder, *night(folder, "calm.m", found))
        seconds = time.monotonic() - began
        goal = kills * (number + 1) // nights
        server_goal = server_kills * (number + 1) // nights
        while done < goal:
            process = processes.start(folder, *night(folder, "killed.m", found))
            done += processes.kill_after(process, rng.uniform(0.3, 1.0) * seconds)
        while server_done < server_goal:
            process = processes.start(folder, *night(folder, "killed.m", found))
            time.sleep(rng.uniform(0.3, 1.0) * seconds)
            server.kill()
            code = process.wait()
            assert code in (0, 2), code
            server_done += code == 2
            server.start()
        processes.run(folder, *night(folder, "killed.m", found))
        one, two = ((folder / f"{name}.m").read_bytes() for name in ("calm", "killed"))
        assert one == two, f"the models of night {number + 1} differ"
        (record,) = TableModel.load(str(folder / "killed.m")).records.values()
        assert record.mark.rows == (number + 1) * rows
        print(f"night {number + 1}: {done} kills, {server_done} of the server", flush=True)
    return done, server_done


def prove_nights(nights, rows, kills, server_kills):
    """Run the nightly job on PostgreSQL; return the numbers of kills."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name, postgres_server() as server:
        found = Database("postgresql", Path(name), server.uri)
        found.create(name="rows", columns=KINDS)
        return run_nights(Path(name), found, server, nights, rows, kills, server_kills)


# Names


def prove_names():
    """Try hostile names in databases of each kind, a third in each; return their number."""
    tried = 0
    for number, engine in enumerate(ENGINES):
        with tempfile.TemporaryDirectory(dir="/tmp") as name:
            folder = Path(name)

            def run(*arguments, code=0, folder=folder):
                command = [*processes.COMMAND, *arguments]
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
                assert done.returncode == code, done
                return SimpleNamespace(out=done.stdout, err=done.stderr)

            with database(engine, folder) as (found, _):
                names = HOSTILE[number :: len(ENGINES)]
                assert try_names(found, names, run) == len(names)
                tried += len(names)
        print(engine, tried, flush=True)
    return tried


PARTS = ("equality", "names", "cpu", "memory", "nightly")


def main():
    options = report.parse(__doc__, PARTS, rows=200_000, small=1_000_000, large=20_000_000,
                           kills=50, server_kills=10)  # fmt: skip
    parts = []
    if "equality" in options.parts:
        lines, worst = measure_equality(20_000)
        assert worst < 1e-9
        parts += ["## Coefficients", "Largest difference of a coefficient from that of "
                  "`counterpoise learn` on a Parquet file of the same 20,000 rows.",
                  report.table(["rows from", "difference"], lines)]  # fmt: skip
    if "names" in options.parts:
        tried = prove_names()
        parts += ["## Names", f"{tried} hostile names of tables, columns and labels were learned "
                  "and predicted, a third in each database. As names of what does not exist they "
                  "were refused by one message each. No table changed."]  # fmt: skip
    if "cpu" in options.parts:
        lines, worst = measure_cpu(options.rows)
        head = ["database", "arrays", "loop", "learn", "learn --cursor", "ratio", "with cursor"]
        parts += ["## CPU", f"Microseconds of CPU per row of {WIDTH} numbers, of all threads, best "
                  f"of 5 interleaved runs over {options.rows:,} rows. `loop` is `TableClassifier."
                  "partial_fit` of each batch of the driver's reader, `arrays` is "
                  "`BalancedRidgeClassifier.partial_fit` of its columns. Ratios are to `loop`. The "
                  "server's own CPU is not counted.", report.table(head, lines)]  # fmt: skip
    if "memory" in options.parts:
        sizes = options.small, options.large
        lines = measure_memory(sizes)
        head = ["database", *(f"{what}, {size / 1e6:g}M" for size in sizes
                              for what in ("MB", "µs", "MB by cursor"))]  # fmt: skip
        text = "Largest resident memory of `counterpoise learn` of all rows, its CPU per row, and "
        text += "the memory of a run by a cursor. That one learns the small table first, and then "
        text += "verifies it and learns the other rows."
        parts += ["## Memory", text, report.table(head, lines)]
    if "nightly" in options.parts:
        done, server_done = prove_nights(10, 60_000, options.kills, options.server_kills)
        parts += ["## Nightly jobs", f"Ten nights of 60,000 new rows in PostgreSQL, learned with "
                  f"`--cursor id`. The command was killed {done} times and the server "
                  f"{server_done} times. After each night the model was bit-identical to that of "
                  "runs that were not interrupted, and had learned each row once."]  # fmt: skip
    report.write("databases", "Rows from databases", *parts)


if __name__ == "__main__":
    main()
