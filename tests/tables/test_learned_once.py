"""Each row reaches the moments once, also where it is scored before it is learned."""

import numpy as np
import pandas as pd
import pytest

from counterpoise import AutoClassifier, BalancedRidgeClassifier, Moments, TableClassifier
from counterpoise.engine.candidates import Candidates
from counterpoise.tables.scoring import split_rows


def table(n=600, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.2, "yes", "no")
    return pd.DataFrame(
        {"a": rng.standard_normal(n) + (y == "yes"), "b": rng.choice(["u", "v"], n), "y": y}
    )


@pytest.fixture
def row_counts(monkeypatch):
    """Numbers of rows of which moments were computed."""
    rows, real = [], Moments.of_groups

    def of_groups(X, *arguments):
        rows.append(X.shape[0])
        return real(X, *arguments)

    monkeypatch.setattr(Moments, "of_groups", of_groups)
    return rows


@pytest.mark.parametrize("more", [[], ["--metrics", "m.jsonl"], ["--chunk-rows", "100"]])
def test_learn_accumulates_each_row_once(run, tmp_path, row_counts, more):
    table().to_csv("t.csv", index=False)
    run("learn", "t.csv", "--label", "y", "-m", "m", *more)
    assert sum(row_counts) == 600


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_table_classifier_accumulates_each_row_once(row_counts, method):
    getattr(TableClassifier(BalancedRidgeClassifier()), method)(table(), "y")
    assert sum(row_counts) == 600


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_an_averaging_table_classifier_learns_each_row_once(monkeypatch, method):
    rows, real = [], Candidates.learn

    def learn(self, batch, *arguments, **options):
        rows.append(len(batch.y))
        return real(self, batch, *arguments, **options)

    monkeypatch.setattr(Candidates, "learn", learn)
    getattr(TableClassifier(AutoClassifier(), chunk_rows=250), method)(table(), "y")
    assert sum(rows) == 600


@pytest.mark.parametrize(("before", "n"), [(0, 1), (0, 600), (100, 8192), (600, 600)])
@pytest.mark.parametrize("needed", [0, 1, 300, 10**6])
def test_parts_of_a_chunk_cover_it_and_are_not_longer_than_what_precedes(before, n, needed):
    parts = list(split_rows(before, n, needed))
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == n
    for part in parts:
        if part.start and part.stop > n - needed:
            assert part.stop - part.start <= before + part.start
