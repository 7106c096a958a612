"""Vocabularies: codes of cells equal those of a dict, for any text, missing cell and order."""

import pickle

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.encoding.vocabulary import Vocabulary
from counterpoise.moments import categories

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), unique=True)


@given(TEXTS, TEXTS, st.data())
def test_cells_have_the_codes_of_a_dict(first, more, data):
    before = Vocabulary.of(first, 0)
    after = before.append(more)
    cells = data.draw(st.lists(st.sampled_from([None, "", *first, *more])))
    start = data.draw(st.integers(0, len(cells)))
    array = pa.array([None, *cells], pa.string())[1 + start :]
    for one in (after, before, pickle.loads(pickle.dumps(after))):
        code = {value: i for i, value in enumerate(one.values, 1)}
        assert one.find(array).tolist() == [code.get(cell, 0) for cell in cells[start:]]


def test_many_texts_are_found_after_others_were_added():
    values = [f"{i}é{'x' * (i % 50)}" for i in range(5000)]
    vocabulary, cells = Vocabulary(), pa.array(values)
    for start in range(0, 5000, 700):
        vocabulary = vocabulary.append(values[start : start + 700])
        found = vocabulary.find(cells)
        assert found.tolist() == [i if i <= vocabulary.size else 0 for i in range(1, 5001)]


@given(st.lists(st.integers(-1, 40)), st.sampled_from([0, 64]))
def test_codes_are_ranked_in_order(codes, most):
    codes = np.array(codes, dtype=np.intp)
    allowed, categories.MAX_CODES_PER_ROW = categories.MAX_CODES_PER_ROW, most
    try:
        found, places = categories.rank_codes(codes)
    finally:
        categories.MAX_CODES_PER_ROW = allowed
    assert found.tolist() == sorted(set(codes.tolist()) - {-1})
    assert np.append(found, -1)[places].tolist() == codes.tolist()
