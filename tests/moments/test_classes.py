"""Rows by label, for labels of any kind."""

import numpy as np
import pytest

from counterpoise.moments.classes import group_rows


@pytest.mark.parametrize("kind", ["i8", "i4", "i1", "u1", ">i8", "?", "f8", "U3"])
@pytest.mark.parametrize("step", [1, 2])
def test_rows_of_each_label_are_in_order(kind, step):
    y = np.random.default_rng(0).integers(0, 2, 400).astype(kind)[::step]
    known = np.array([1, 0]).astype(kind)
    rows_of, labels = group_rows(y, known)
    assert labels is known
    for label, rows in zip(known, rows_of, strict=True):
        assert rows.tolist() == np.flatnonzero(y == label).tolist()
    if kind != "?":
        more = np.concatenate([y, np.array([7]).astype(kind)])
        rows_of, labels = group_rows(more, known)
        assert labels.tolist() == [*known.tolist(), *more[-1:].tolist()]
        assert [rows.tolist() for rows in rows_of][2] == [len(y)]
