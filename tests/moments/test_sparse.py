"""Products of CSR rows that are added to scatters later: the same bits, whenever that is done."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from counterpoise import BalancedRidgeClassifier
from counterpoise.moments import moments as of_moments
from counterpoise.moments.moments import Moments, SparseChunk

D = 300  # more than a tile of columns


def make_chunks(count, rows=40, d=D, filled=0.01, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        X = sp.random_array((rows, d), density=filled, format="csr", rng=rng)
        X = X.toarray()
        X[:, 0] += 3.0  # a column without a zero
        yield sp.csr_array(X), (rng.random(rows) < 0.3).astype(int)


def learn(parts, read_after=()):
    """Return moments that were read after some of the chunks, and the largest number pending."""
    found, most = None, 0
    for i, (X, y) in enumerate(parts):
        if found is None:
            found = Moments.of(X, y)
        else:
            rows_of = [np.flatnonzero(y == label) for label in found.labels]
            found.append(SparseChunk.of_rows(X, rows_of, found, None))
        most = max(most, len(found.pending))
        if i in read_after:
            assert np.isfinite(found.C).all()
            assert not found.pending
    return found, most


@pytest.mark.parametrize("filled", [0.002, 0.01, 0.3])
def test_scatters_have_the_same_bits_whenever_they_are_read(filled):
    parts = list(make_chunks(18, filled=filled))
    once, most = learn(parts)
    assert most > 12
    for read_after in (range(18), {1, 2, 11}):
        again, _ = learn(parts, read_after)
        for name in Moments.ARRAYS:
            assert getattr(again, name).tobytes() == getattr(once, name).tobytes(), name
    np.testing.assert_array_equal(once.C, once.C.swapaxes(1, 2))


@pytest.mark.slow
@given(st.integers(2, 24), st.integers(1, 70), st.sampled_from([0.01, 0.05, 0.2]))
def test_pending_products_give_the_moments_of_all_rows(count, d, filled):
    parts = list(make_chunks(count, 20, d, filled, seed=count))
    found, _ = learn(parts)
    X, y = np.vstack([X.toarray() for X, _ in parts]), np.concatenate([y for _, y in parts])
    for k, label in enumerate(found.labels):
        rows = X[y == label] - X[y == label].mean(axis=0)
        # Rounding of some hundreds of sums of values of at most 4.
        assert np.abs(found.C[k] - rows.T @ rows).max() <= 1e-11


def test_few_products_are_pending(monkeypatch):
    monkeypatch.setattr(of_moments, "MAX_PENDING_CHUNKS", 3)
    limited, most = learn(make_chunks(12))
    assert most == 2 * 3
    monkeypatch.setattr(of_moments, "MAX_PENDING_BYTES", 1)
    alone, most = learn(make_chunks(12))
    assert most == 2
    assert limited.C.tobytes() == alone.C.tobytes() == learn(make_chunks(12))[0].C.tobytes()


@pytest.mark.parametrize("copy", [Moments.copy, lambda one: pickle.loads(pickle.dumps(one, 2))])
def test_copies_have_the_pending_products(copy):
    found, _ = learn(make_chunks(5))
    assert found.pending
    other = copy(found)
    assert other.C.tobytes() == found.C.tobytes()
    assert other.C is not found.C


def test_a_saved_model_has_the_pending_products(tmp_path):
    one, two = BalancedRidgeClassifier(), BalancedRidgeClassifier()
    for i, (X, y) in enumerate(make_chunks(8)):
        one.partial_fit(X, y)
        two.partial_fit(X, y)
        if i == 4:
            two.save(tmp_path / "m.safetensors")
            two = BalancedRidgeClassifier.load(tmp_path / "m.safetensors")
    for name, model in (("a", one), ("b", two)):
        model.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
