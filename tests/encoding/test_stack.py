"""Columns stacked as rows, and text as codes, compared with NumPy and Arrow."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from counterpoise.encoding._stack import stack_columns, text_codes
from counterpoise.encoding.cell_parsing import coded_texts
from counterpoise.readers.chunk import Chunk, ReadPosition

LIMIT = 1e100
# Blocks of 64 rows and of 4 columns, and the rest of each.
SHAPES = st.tuples(st.integers(1, 140), st.integers(1, 11))


@given(SHAPES.flatmap(lambda shape: arrays(np.float64, shape, elements=st.floats(-LIMIT, LIMIT))))
def test_stacked_columns_are_the_rows_and_their_bounds(X):
    found = stack_columns([np.ascontiguousarray(x) for x in X.T], LIMIT)
    assert found is not None
    rows, low, high = found
    assert rows.flags.c_contiguous
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal([low, high], [X.min(axis=0), X.max(axis=0)])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2e100, -2e100])
@pytest.mark.parametrize("shape", [(1, 1), (64, 4), (70, 5), (200, 8)])
def test_no_column_is_stacked_if_a_value_is_missing_or_too_large(shape, bad):
    n, d = shape
    for row, column in {(0, 0), (n - 1, d - 1), (n // 2, d // 2), (n - 1, 0), (0, d - 1)}:
        X = np.ones(shape)
        X[row, column] = bad
        assert stack_columns([x.copy() for x in X.T], LIMIT) is None


def test_columns_of_different_lengths_are_refused():
    assert stack_columns([], LIMIT) is None
    assert stack_columns([np.empty(0)], LIMIT) is None
    with pytest.raises(ValueError, match="different lengths"):
        stack_columns([np.ones(3), np.ones(2)], LIMIT)


@given(
    st.lists(st.one_of(st.none(), st.sampled_from("abcdefghij"), st.text(max_size=4)), min_size=1)
)
def test_codes_of_texts_are_those_of_arrow(texts):
    for start in (0, 1):
        column = pa.array(["x" * start, *texts], pa.string()).slice(start)
        chunk = Chunk("t", 1, len(column), {"y": column}, ReadPosition())
        codes, found = coded_texts(chunk, "y")
        assert [None if k < 0 else found[k] for k in codes.tolist()] == column.to_pylist()
        assert found == column.dictionary_encode().dictionary.to_pylist()


def test_many_texts_have_no_codes():
    for count, expected in ((8, list(range(8))), (9, None)):
        texts = [str(i) for i in range(count)]
        ends = np.arange(count + 1, dtype=np.int32)
        found = text_codes(ends, np.frombuffer("".join(texts).encode(), np.uint8))
        assert (found if found is None else found[0].tolist()) == expected
