"""Lines of text: the shortest numbers that are read back, and quotes where they are needed."""

import csv
import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.tables._text_rows import join_rows
from counterpoise.tables.predict import open_writer

POWERS_OF_TWO = 2.0 ** np.arange(-1074, 1024)
POWERS_OF_TEN = 10.0 ** np.arange(-323, 309)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 9999999999.5, 99999999999.0, 5e-324]


def numbers(kind):
    rng, n = np.random.default_rng(0), 200_000
    if kind == "bits":
        return rng.integers(0, 2**64, n, dtype=np.uint64).view(np.float64)
    if kind == "denormal":
        return np.arange(n, dtype=np.uint64).view(np.float64)
    if kind == "boundaries":
        edges = np.concatenate([POWERS_OF_TWO, POWERS_OF_TEN])
        near = [np.nextafter(edges, to) for to in (0.0, np.inf)]
        return np.concatenate([edges, -edges, *near, SPECIAL])
    if kind == "decimals":
        return np.round(rng.standard_normal(n) * 1000.0, 3)
    if kind == "integers":
        return rng.integers(-(10**12), 10**12, n).astype(float)
    return rng.random(n) ** rng.integers(1, 30, n)


@pytest.mark.parametrize(
    "kind", ["bits", "denormal", "boundaries", "decimals", "integers", "probabilities"]
)
def test_numbers_are_the_shortest_text_as_arrow_writes_it(kind):
    x = numbers(kind)
    lines = join_rows([(x, None, None, None)], len(x), ord(",")).decode().splitlines()
    assert lines == pa.array(x).cast(pa.string()).to_pylist()
    np.testing.assert_array_equal(np.array(lines, dtype=float), x)


@given(x=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_integers_are_written_with_all_their_digits(x):
    lines = join_rows([(np.array(x), None, None, None)], len(x), ord(",")).decode().splitlines()
    assert lines == list(map(str, x))


def written(table, kind, tmp_path):
    with open_writer(str(tmp_path / "out"), kind) as out:
        out.write(table)
    return (tmp_path / "out").read_bytes().decode()


CELLS = st.one_of(st.none(), st.text(st.sampled_from('ab,"\t\r\né '), max_size=5))


@given(cells=st.lists(CELLS, min_size=1), kind=st.sampled_from(["csv", "tsv"]))
def test_cells_are_read_back_and_quoted_only_where_needed(cells, kind, tmp_path_factory):
    x = [None if i % 3 == 0 else i / 7 for i in range(len(cells))]
    table = pa.table({"a": pa.array(cells, pa.string()), "x": pa.array(x), "b": [True] * len(x)})
    text = written(table, kind, tmp_path_factory.mktemp("out"))
    delimiter = "," if kind == "csv" else "\t"
    head, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    assert head == ["a", "x", "b"]
    assert [row[0] for row in rows] == [cell or "" for cell in cells]
    assert [float(row[1]) if row[1] else None for row in rows] == x
    special = {delimiter, '"', "\r", "\n"}
    assert text.count('"') == sum(
        2 + 2 * cell.count('"') for cell in cells if cell and special & set(cell)
    )


def test_slices_of_a_table_are_written_as_parts_of_it(tmp_path):
    x = np.arange(1000) / 3
    table = pa.table({"x": x, "text": [f"t{i}" for i in range(1000)], "n": range(1000)})
    whole = written(table, "csv", tmp_path).splitlines()
    with open_writer(str(tmp_path / "parts"), "csv") as out:
        for start in range(0, 1000, 300):
            out.write(table.slice(start, 300))
    assert (tmp_path / "parts").read_text().splitlines() == whole
    assert written(table.slice(0, 0), "csv", tmp_path) == "x,text,n\n"
