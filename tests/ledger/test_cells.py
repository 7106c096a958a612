"""Cells are added up where they lie as they are when they are unpacked."""

import numpy as np
import pytest

from counterpoise.ledger.cells import Block, Cells, Key, MomentSum, StoredCell
from counterpoise.moments.moments import Moments

D = 3


def cells(m, seed=0):
    """Cells of one class, of many rows and of one."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(m):
        n = 1 + 40 * (i % 3)
        X = rng.standard_normal((n, D)) + [0.0, 5.0, 1e6]
        cell = Moments.of(X, np.zeros(n, dtype=int))
        rows.append(StoredCell.pack(Key(i, 0, 0), i + 1, n, cell))
    return Block.of(rows)


def summed(block, w, add):
    """Moments of the cells; ``add`` is what a sum is asked to do."""
    total = MomentSum(D)
    anchor = np.array([0.5, 4.0, 1e6])
    add(total, block, anchor, w)
    result = Moments(np.zeros(1, dtype=int), anchor)
    total.store(result, 0)
    return result


def add_unpacked(total, block, anchor, w):
    total.add(Cells.unpack(block, np.zeros(1), anchor), w)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("weights", ["ones", "some", "faded", "none"])
def test_cells_where_they_lie(m, weights):
    w = {
        "ones": np.ones(m),
        "some": np.arange(m) % 2.0,
        "faded": 0.5 ** np.arange(float(m)),
        "none": np.zeros(m),
    }[weights]
    block = cells(m)
    one = summed(block, w, lambda total, b, anchor, w: total.add_block(b, anchor, w))
    two = summed(block, w, add_unpacked)
    for name in ("n", "mean", "C", "nonconstant_weight", "min_row_weight", "max_scatter"):
        found, expected = getattr(one, name), getattr(two, name)
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-12, err_msg=name)
    np.testing.assert_array_equal(one.row_hashes, two.row_hashes)
