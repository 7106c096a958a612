"""Tables of three databases give the model of the same rows in a file, each row once."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from databases import ENGINES, HOSTILE, Database, payments, quote, try_names

from counterpoise import Ledger, TableClassifier
from counterpoise.readers import ReadPosition, source
from counterpoise.readers.chunk import MAX_RANGES
from counterpoise.readers.database import hide_password, public_address
from counterpoise.tables.model import TableModel

pytest.importorskip("adbc_driver_sqlite")
pytest.importorskip("duckdb")

LEARN = ("--label", "fraud", "--drop", "id", "--model", "m.safetensors")
TABLE = ("--table", "payments")
BY_ID = ("--cursor", "id")
pytestmark = pytest.mark.slow


@pytest.fixture(params=ENGINES)
def database(request, tmp_path):
    uri = request.getfixturevalue("postgres").uri if request.param == "postgresql" else ""
    found = Database(request.param, tmp_path, uri)
    yield found
    if uri:
        found.drop()


def coefficients(path):
    return TableClassifier.load(path).estimator_.coef_


def learn(run, database, *more, code=0):
    return run("learn", database.uri, *TABLE, *LEARN, *more, code=code)


def test_a_table_gives_the_model_of_a_file(database, run, tmp_path):
    rows = payments(3000)
    database.create(rows)
    before = database.dump()
    pa.parquet.write_table(rows, tmp_path / "rows.parquet")
    run("learn", "rows.parquet", *LEARN[:-1], "file.safetensors", "--chunk-rows", 256)
    learn(run, database, "--chunk-rows", 256)
    both = [coefficients(tmp_path / name) for name in ("m.safetensors", "file.safetensors")]
    np.testing.assert_allclose(both[0], both[1], rtol=0, atol=1e-12)
    predicted = [
        run("predict", "m.safetensors", one, *more, "--id", "id").out
        for one, more in (("rows.parquet", ()), (database.uri, TABLE))
    ]
    assert predicted[0] == predicted[1]
    assert database.dump() == before


def test_a_query_gives_the_rows_that_it_selects(database, run, tmp_path):
    database.create(payments(2000))
    query = "select amount, country, fraud from payments where id < 3000 -- a comment"
    done = run("learn", database.uri, "--query", query, "--label", "fraud", "--model", "m")
    assert "999 rows" not in done.err
    assert f"{len(payments(2000).filter(pa.compute.field('id') < 3000)):,} rows" in done.err
    assert "nothing new" in run("learn", database.uri, "--query", query + ";", "--model", "m").err
    for command in ("evaluate", "check", "benchmark"):
        arguments = ["m"] if command == "evaluate" else []
        more = [] if command == "evaluate" else ["--label", "fraud"]
        run(command, *arguments, database.uri, "--query", query, *more)


def test_new_rows_at_the_end_of_a_table_are_learned_once(database, run, tmp_path):
    database.create(payments(500))
    learn(run, database)
    database.insert(payments(300, 500))
    assert "300 new rows after 500" in learn(run, database).err
    assert "nothing new" in learn(run, database).err
    database.execute("update payments set amount = 5 where id = 7")
    assert "has changed" in learn(run, database, code=2).err


def test_a_cursor_learns_each_row_once(database, run, tmp_path):
    database.create()
    for night in range(6):
        database.insert(payments(137, 137 * night))
        done = learn(run, database, *(BY_ID if not night else ()), "--chunk-rows", 64)
        assert "137 " in done.err
        assert "nothing new" in learn(run, database).err
    whole = payments(137)
    for night in range(1, 6):
        whole = pa.concat_tables([whole, payments(137, 137 * night)])
    pa.parquet.write_table(whole, tmp_path / "rows.parquet")
    run("learn", "rows.parquet", *LEARN[:-1], "file", "--chunk-rows", 64)
    both = [coefficients(tmp_path / name) for name in ("m.safetensors", "file")]
    np.testing.assert_allclose(both[0], both[1], rtol=0, atol=1e-12)
    record = next(iter(TableModel.load(str(tmp_path / "m.safetensors")).records.values()))
    assert record.mark.rows == sum(one.rows for one in record.mark.cursor.ranges) == 6 * 137


CHANGES = {
    "a value": "update payments set amount = 5 where id = 130",
    "a missing value": "update payments set country = null where country is not null and id < 130",
    "a deleted row": "delete from payments where id = 130",
    "a late row": "insert into payments values (131, 5, 'DE', 'no')",
    "an equal id": "insert into payments values (130, 5, 'DE', 'no')",
    "a moved row": "update payments set id = 8 where id = 7",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_past_is_refused_with_its_range(change, database, run, tmp_path):
    database.create(payments(400))
    learn(run, database, *BY_ID, "--chunk-rows", 100)
    model = (tmp_path / "m.safetensors").read_bytes()
    database.execute(change)
    done = learn(run, database, *BY_ID, code=2)
    assert "has changed: 100 rows were learned with 'id' up to 304" in done.err
    assert done.err.count("\n") == 1
    assert (tmp_path / "m.safetensors").read_bytes() == model
    database.insert(payments(50, 400))
    assert "50 new rows" in learn(run, database, *BY_ID, "--allow-changed-past").err
    assert "nothing new" in learn(run, database, *BY_ID).err
    done = run("unlearn", "m.safetensors", database.uri, *TABLE, code=2)
    assert "a change of its learned rows was accepted" in done.err


def test_rows_of_a_cursor_are_unlearned(database, run, tmp_path):
    database.create(payments(300))
    learn(run, database, *BY_ID)
    database.execute("update payments set amount = amount where id = 7")  # moves it, in PostgreSQL
    done = run("unlearn", "m.safetensors", database.uri, *TABLE, "--where", "country=DE")
    assert f"{payments(300)['country'].to_pylist().count('DE')} rows unlearned" in done.err
    assert "rows unlearned" in run("unlearn", "m.safetensors", database.uri, *TABLE).err


def test_a_time_is_a_cursor(database, run, tmp_path):
    if database.engine == "sqlite":
        pytest.skip("SQLite has no times")
    kinds = {"timestamp": "timestamp '2026-01-01' + {} * interval '1 minute'",
             "timestamptz": "timestamptz '1960-01-01 00:00:00.000001+03' + {} * interval '1 hour'",
             "date": "cast(timestamp '1950-01-01' + {} * interval '1 day' as date)"}  # fmt: skip
    for kind, value in kinds.items():
        columns = {"at": kind, "x": "integer", "y": "text"}
        database.create(name=kind, columns=columns)
        more = "insert into {} select {}, i % 7, case when i % 3 = 0 then 'a' else 'b' end from " \
            "generate_series({}, {}) as t(i)"  # fmt: skip
        database.execute(more.format(quote(kind), value.format("cast(i as integer)"), 1, 200))
        arguments = ["--label", "y", "--drop", "at", "-m", f"{kind}.safetensors"]
        rows = ["learn", database.uri, "--table", kind, "--cursor", "at", *arguments]
        assert "200 rows" in run(*rows).err
        database.execute(more.format(quote(kind), value.format("cast(i as integer)"), 201, 300))
        assert "100 new rows after 200" in run(*rows).err
        database.execute(f"update {quote(kind)} set x = 9 where x = 1")
        assert "has changed: 200 rows were learned with 'at' up to" in run(*rows, code=2).err


def test_a_ledger_learns_a_table_once(database, run, tmp_path):
    database.create(payments(400))
    arguments = ["--ledger", "l.ledger", "--label", "fraud", "--timestamp", "id", *BY_ID]
    run("ledger", "learn", database.uri, *TABLE, *arguments)
    database.insert(payments(100, 400))
    assert ": 100 rows" in run("ledger", "learn", database.uri, *TABLE, *arguments).err
    assert ": nothing new" in run("ledger", "learn", database.uri, *TABLE, *arguments).err
    database.execute("update payments set amount = 5 where id = 130")
    done = run("ledger", "learn", database.uri, *TABLE, *arguments, code=2)
    assert "has changed" in done.err
    with Ledger.open(tmp_path / "l.ledger") as book:
        assert sum(book.summary()["classes"].values()) == 500


def test_ranges_stay_few_and_exact(database, run, tmp_path):
    database.create(payments(2000))
    learn(run, database, *BY_ID, "--chunk-rows", 8)
    path = str(tmp_path / "m.safetensors")
    (record,) = TableModel.load(path).records.values()
    ranges = record.mark.cursor.ranges
    assert len(ranges) == MAX_RANGES
    assert max(one.rows for one in ranges) <= 2 * 8 * -(-2000 // 8 // MAX_RANGES) + 8
    assert "nothing new" in learn(run, database).err


def test_the_model_does_not_depend_on_where_a_run_stopped(database, tmp_path, run):
    database.create(payments(2000))
    names, given = ("one", "two"), {"table": "payments", "cursor": "id"}
    for name in names:
        path = str(tmp_path / name)
        columns = {"label": "fraud", "roles": {"id": "drop"}}
        found = source(f"{database.uri}", database=given) if database.engine == "postgresql" \
            else source(database.uri.replace("///", f"///{tmp_path}/"), database=given)  # fmt: skip
        model, position = TableModel.open(path, columns, {}, 16), ReadPosition()
        key = model.key(found.path)
        for number, chunk in enumerate(model.chunks(found, key, position)):
            model.learn(chunk, key)
            if name == "two" and number % 7 == 6:
                break
        while name == "two" and model.rows < 2000:
            model.save()
            model = TableModel.open(path, columns, {}, 16)
            for number, chunk in enumerate(model.chunks(found, key, model.records.position(key))):
                model.learn(chunk, key)
                if number == 30:
                    break
        model.finish()
        model.save()
    one, two = ((tmp_path / name).read_bytes() for name in names)
    assert one == two


# Bad input


def test_bad_tables_are_one_message_each(database, run, tmp_path):
    database.create(payments(50))
    database.create(name="empty")
    database.create(payments(50).set_column(3, "fraud", pa.array(["no"] * 50)), "one class")
    labels = pa.array(["no", "yes", None, *["no"] * 47], pa.string())
    database.create(payments(50).set_column(3, "fraud", labels), "no label")
    database.create(payments(50).set_column(0, "id", pa.array([1, 1, *range(2, 50)])), "twice")
    database.create(payments(50).set_column(0, "id", pa.array([None, *range(49)])), "null id")
    amounts = pa.array([np.inf, *[1.0] * 49])
    database.create(payments(50).set_column(1, "amount", amounts), "infinite")
    learn(run, database, *BY_ID)
    model = (tmp_path / "m.safetensors").read_bytes()
    mistakes = [
        (("learn", database.uri, *LEARN), "which rows to read; name a table with --table TABLE"),
        (("learn", database.uri, *TABLE, "--query", "x", *LEARN), "cannot be combined"),
        (("learn", database.uri, "--table", "payment", *LEARN), "did you mean 'payments'?"),
        (("learn", database.uri, "--query", "select nope from payments", *LEARN), "nope"),
        (("learn", database.uri, "--query", "delete from payments", *LEARN), "cannot be read"),
        (("learn", database.uri, *TABLE, "--label", "nope", "-m", "n"), "no column 'nope'"),
        (("learn", database.uri, *TABLE, *LEARN[:-1], "n", "--cursor", "nope"), "no column 'nope'"),
        (("learn", database.uri, *TABLE, *LEARN, "--cursor", "amount"), "learned by the cursor"),
        (("learn", database.uri, *TABLE, *LEARN[:-1], "n", "--cursor", "amount"), "integers"),
        (("learn", "rows.csv", *TABLE, *LEARN), "rows.csv is not a database, and --table"),
        (("benchmark", database.uri, "--table", "one class", "--label", "fraud"), "two classes"),
    ]  # fmt: skip
    (tmp_path / "rows.csv").write_text("x,fraud\n1,a\n2,b\n")
    learns = ("learn", database.uri, "--table")
    new = (*LEARN[:-1], "n")
    mistakes += [
        ((*learns, "no label", *new), "row 3: "),
        ((*learns, "twice", *new, *BY_ID), "several rows have 1"),
        ((*learns, "null id", *new, *BY_ID), "without a value"),
        ((*learns, "infinite", *new), "row 1: column 'amount'"),
        ((*learns, "empty", *new), "no rows to learn"),
        ((*learns, "empty", *new, *BY_ID), "no rows to learn"),
    ]
    for arguments, problem in mistakes:
        done = run(*arguments, code=2)
        assert problem in done.err, (arguments, done.err)
        assert done.err.count("\n") == 1 + ("no rows" in problem), done.err
    assert (tmp_path / "m.safetensors").read_bytes() == model
    assert not (tmp_path / "n").exists()
    done = run("learn", database.uri, "--table", "one class", *LEARN[:-1], "one")
    assert "one: no: 50" in done.err


def test_types_that_cannot_be_features_are_refused(database, run, tmp_path):
    kinds = {
        "sqlite": {"blob": "x'00ff'"},
        "duckdb": {"json": "'{}'", "integer[]": "[1, 2]", "interval": "interval 1 day",
                   "blob": "'a'::blob", "struct(a integer)": "{'a': 1}"},
        "postgresql": {"json": "'{}'", "jsonb": "'{}'", "integer[]": "'{1}'", "xml": "'<a/>'",
                       "interval": "'1 day'", "bytea": "'a'", "inet": "'1.2.3.4'"},
    }[database.engine]  # fmt: skip
    for kind, value in kinds.items():
        database.create(name="t", columns={"x": "integer", "bad one": kind, "y": "integer"})
        database.execute(*(f"insert into t values ({i}, {value}, {i % 2})" for i in range(4)))
        done = run("learn", database.uri, "--table", "t", "--label", "y", "-m", "m", code=2)
        assert "column 'bad one': values of type" in done.err
        assert "--drop 'bad one'" in done.err
        done = run("learn", database.uri, "--table", "t", "--label", "y", "--drop", "bad one",
                   "-m", f"m {kind}")  # fmt: skip
        assert "4 rows" in done.err


def test_types_of_numbers_and_text_are_learned(database, run, tmp_path):
    if database.engine == "sqlite":
        kinds = {"decimal(9,2)": "{}.5", "boolean": "{} % 2", "date": "'2026-01-0' || {}"}
    else:
        kinds = {"decimal(9,2)": "{}.5", "boolean": "{} = 2", "smallint": "{}", "real": "{}.25",
                 "date": "date '2026-01-0{}'", "timestamp": "timestamp '2026-01-0{}'",
                 "uuid": "'0f8fad5b-d9cb-469f-a165-70867728950{}'", "mood": "'m{}'"}  # fmt: skip
        database.execute(
            "drop type if exists mood",
            "create type mood as enum ('m0', 'm1', 'm2', 'm3', 'm4', 'm5', 'm6')",
        )
    for kind, value in kinds.items():
        database.create(name="t", columns={"x": kind, "y": "integer"})
        values = (f"insert into t values ({value.format(i % 7)}, {i % 2})" for i in range(1, 7))
        database.execute(*values, "insert into t values (null, 1)")
        name = f"{kind.split('(')[0]}.safetensors"
        run("learn", database.uri, "--table", "t", "--label", "y", "-m", name)
        predicted = run("predict", name, database.uri, "--table", "t").out
        assert len(predicted.splitlines()) == 8


def test_a_column_of_sqlite_may_begin_without_values(tmp_path, run):
    database = Database("sqlite", tmp_path)
    database.create(name="t", columns={"x": "real", "s": "text", "any": "", "y": "text"})
    values = [f"({'null' if i < 40_000 else i}, {'null' if i < 40_000 else repr('a')}, "
              f"{i if i % 2 else i + 0.5}, 'c{i % 2}')" for i in range(41_000)]  # fmt: skip
    database.execute("insert into t values " + ", ".join(values))
    learned = ("learn", database.uri, "--table", "t", "--label", "y", "--model")
    assert "41,000 rows" in run(*learned, "m").err
    database.execute("update t set x = 'text' where rowid = 39000")
    done = run(*learned, "n", code=2)
    assert "column 'x' contains values of type" in done.err
    assert not (tmp_path / "n").exists()


@pytest.mark.parametrize("engine", ENGINES[:2])
def test_a_missing_driver_names_the_extra(engine, run, tmp_path, monkeypatch):
    database = Database(engine, tmp_path)
    database.create(payments(10))
    for name in ("duckdb", "adbc_driver_sqlite.dbapi"):
        monkeypatch.setitem(sys.modules, name, None)
    done = learn(run, database, code=1)
    assert "requires" in done.err
    assert done.err.endswith(": pip install 'counterpoise[sql]'\n")


def test_addresses_have_no_credentials():
    secret = "postgresql://me:s3cr%40t@db.example:5433/shop?sslmode=require&password=x9"
    assert public_address(secret) == "postgresql://db.example:5433/shop"
    assert public_address("postgres://me:p/w?d@h/shop") == "postgresql://h/shop"
    assert (
        public_address("postgresql:///shop?host=/run/pg&port=5")
        == "postgresql://%2Frun%2Fpg:5/shop"
    )
    assert public_address("postgresql://?service=shop") == "postgresql:///?service=shop"
    assert public_address("sqlite:///a.db") == "sqlite:///a.db"
    text = hide_password(f"{secret}: wrong s3cr@t\n and s3cr%40t or x9", secret)
    assert text == "***: wrong *** and *** or ***"


@pytest.mark.parametrize("password", ["s3cret", "sec ret", "p/w", "a@b", "%zz", "q?w", "x:y"])
def test_a_password_is_never_shown_or_stored(password, run, tmp_path):
    address = f"postgresql://me:{password}@127.0.0.1:1/shop?connect_timeout=2"
    for command in (["learn", address, *TABLE, *LEARN], ["check", address, *TABLE],
                    ["benchmark", address, *TABLE, "--label", "y"],
                    ["predict", address, "m.safetensors"]):  # fmt: skip
        done = run(*command, code=2)
        assert password not in done.err + done.out
        assert done.err.count("\n") == 1


def test_rights_passwords_and_lost_connections(postgres, run, tmp_path):
    database = Database("postgresql", tmp_path, postgres.uri)
    database.create(payments(100))
    database.execute("create role reader login password 'w0rd'")
    try:
        reader = postgres.uri.replace("postgres@", "reader:w0rd@")
        done = run("learn", reader, *TABLE, *LEARN, code=2)
        assert "permission denied for table payments; correct" in done.err
        database.execute("grant select on payments to reader")
        run("learn", reader, *TABLE, *LEARN, *BY_ID)
        assert b"w0rd" not in (tmp_path / "m.safetensors").read_bytes()
        assert "w0rd" not in run("inspect", "m.safetensors", "--json").out
        assert "nothing new" in learn(run, database).err  # the same input for another user
    finally:
        database.drop()
        database.execute("drop role reader")
    postgres.kill()
    try:
        done = learn(run, database, code=2)
        assert "cannot be read: " in done.err
        assert "; check the address" in done.err
    finally:
        postgres.start()


def test_hostile_names_are_names(database, run):
    names = HOSTILE[ENGINES.index(database.engine) :: 45]  # proofs/databases.py tries all
    assert try_names(database, names, run) == len(names)


def test_memory_does_not_grow_with_the_rows(database, tmp_path):
    from benchmarks.proofs.databases import KINDS, LEARN, insert, peak_memory

    database.create(name="rows", columns=KINDS)
    peaks, before = [], 0
    cached = (
        100 if database.engine == "duckdb" else 45
    )  # MB; buffers of the drivers, and parts of files in DuckDB
    for rows in (200_000, 1_000_000):  # the difference takes 46 MB in memory
        insert(database, before + 1, rows)
        before = rows
        peaks.append(peak_memory(tmp_path, "learn", database.uri, *LEARN, f"{rows}")[0])
    assert peaks[1] - peaks[0] < cached


def test_a_killed_night_is_learned_once(postgres, tmp_path):
    from benchmarks.proofs.databases import KINDS, run_nights

    database = Database("postgresql", tmp_path, postgres.uri)
    database.create(name="rows", columns=KINDS)
    try:
        assert run_nights(tmp_path, database, postgres, 2, 20_000, 2, 1) == (2, 1)
    finally:
        database.drop()
