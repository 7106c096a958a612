"""The model of any selection is the one that a fresh classifier learns from just those rows.

benchmarks/proofs/ledger.py requests 200 selections of each set.
"""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from builders import data_set
from ledgers import a_year, cut_into_days, random_selection, same_weights

from counterpoise import BalancedRidgeClassifier, Ledger, Moments
from counterpoise.ledger import ingest
from counterpoise.ledger.cells import Key, StoredCell
from counterpoise.ledger.storage import File


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    tables, beside = a_year(days=366, rows=30)
    path = tmp_path_factory.mktemp("year") / "l"
    with Ledger.open(path, label="fraud", timestamp="at", by="country") as ledger:
        for table in tables:
            ledger.learn(table, allow_new_columns=True)
        yield ledger, beside


def check_selections(ledger, beside, count, seed):
    rng, checked = np.random.default_rng(seed), 0
    while checked < count:
        named, weight = random_selection(rng, beside)
        if len(np.unique(beside.y[weight > 0])) < 2:
            continue
        options = {} if rng.random() < 0.7 else {"ridge": 0.1, "class_weight": None}
        model = ledger.model(**named, **options)
        fresh = beside.fresh(weight, **options)
        assert model.classes_.tolist() == fresh.classes_.tolist()
        # sums of at most 2**53 ones are exact; decayed ones are not
        assert np.allclose(model.class_count_, fresh.class_count_, rtol=1e-12, atol=0.0)
        same_weights(model, beside.names, fresh, beside.X[weight > 0])
        checked += 1


@pytest.mark.parametrize("d", [1, 3, 8, 30, 70])
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e9])
def test_small_cells_packed_together_equal_cells_packed_one_by_one(d, offset):
    rng, most = np.random.default_rng(d), ingest.MAX_PACKED_ROWS
    sizes = [1, 2, most, *rng.integers(1, most + 1, 40).tolist()]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    X = offset * rng.normal(size=d) + rng.normal(size=(ends[-1], d))
    X[:, 0] = rng.integers(0, 2, len(X))  # constant in some cells
    X[ends[2] : ends[3]] = 1e6 * np.eye(most)[:, [0]]  # the first row is far from all others
    X[ends[2], 0] = 0.0
    keys = [Key(g, g % 3, g % 2) for g in range(len(sizes))]
    stops = [key.start + 1 for key in keys]
    packed = list(StoredCell.pack_groups(keys, stops, X, ends))
    for g, (i, j) in enumerate(pairwise(ends.tolist())):
        alone = Moments.of_groups(X[i:j], [np.arange(j - i)], np.array([0]))
        assert packed[g] == StoredCell.pack(keys[g], stops[g], j - i, alone)


@pytest.mark.slow
def test_random_selections_of_payments_with_a_late_column_and_a_late_category(year):
    check_selections(*year, count=40, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spambase", "ijcnn1", "cod-rna"])
def test_random_selections_of_public_sets_cut_into_buckets(name, tmp_path):
    X, y = data_set(name)
    table, beside = cut_into_days(X[:4000], y[:4000])
    with Ledger.open(tmp_path / "l", label="y", timestamp="at", by="town") as ledger:
        ledger.learn(table)
        check_selections(ledger, beside, count=15, seed=2)


@pytest.mark.slow
def test_rows_fade_by_their_age_in_days(year):
    ledger, beside = year
    model = ledger.model(half_life=7)
    fresh = beside.fresh(2.0 ** (-(beside.day.max() - beside.day) / 7.0))
    same_weights(model, beside.names, fresh, beside.X)
    for same in ("1w", "7"):
        assert np.array_equal(ledger.model(half_life=same).coef_, model.coef_)


@pytest.mark.slow
def test_a_model_without_one_segment_is_that_of_the_rows_of_all_others(year, monkeypatch):
    ledger, beside = year
    read, blocks = [], File.blocks
    monkeypatch.setattr(
        File, "blocks", lambda self, heads: read.append(len(heads)) or blocks(self, heads)
    )
    for named in ({}, {"half_life": 20}, {"exclude": [("2024-03-01", "2024-05-01")]}):
        for country in ("US", "NO"):  # the second came late
            read.clear()
            model = ledger.model(where={"country": {"not": country}}, **named)
            assert sum(read) < 0.7 * ledger.summary()["cells"]  # totals, and cells of the country
            weight = (beside.segment["country"] != country).astype(float)
            weight *= 2.0 ** (-(beside.day.max() - beside.day) / named.get("half_life", np.inf))
            if "exclude" in named:
                weight[(beside.day >= 19783) & (beside.day < 19844)] = 0.0
            same_weights(model, beside.names, beside.fresh(weight), beside.X)


@pytest.mark.parametrize("size", [1.0, 1e9])
def test_a_model_without_a_segment_of_huge_values_loses_no_digits(tmp_path, size):
    rng = np.random.default_rng(0)
    town = rng.integers(0, 4, 600)
    X, y = rng.standard_normal((600, 2)), rng.integers(0, 2, 600)
    X[town == 0, 1] *= size
    day = np.where(town == 0, 20, rng.integers(0, 20, 600)).astype("datetime64[D]")
    columns = {"at": day, "town": town.astype(str), "a": X[:, 0], "b": X[:, 1], "y": y}
    fresh = BalancedRidgeClassifier().fit(
        X[town > 0], y[town > 0], 2.0 ** (-(19 - day[town > 0].astype(float)) / 5)
    )
    with Ledger.open(
        tmp_path / "l", label="y", timestamp="at", by="town", columns={"town": "drop"}
    ) as ledger:
        ledger.learn(pa.table(columns))
        model = ledger.model(where={"town": {"not": "0"}}, half_life=5)
        assert np.allclose(model.coef_, fresh.coef_, rtol=1e-10)
        ledger.unlearn(pa.table(columns).filter(pa.array(town == 0)))
        assert np.allclose(ledger.model(half_life=5).coef_, fresh.coef_, rtol=1e-10)


@pytest.mark.slow
def test_each_segment_has_a_model_with_a_share_of_the_whole(year):
    ledger, beside = year
    models = ledger.models(by="country", share_of_all=0.01)
    assert sorted(models) == ["DE", "FR", "NL", "NO", "US"]
    for country, model in models.items():
        fresh = beside.fresh(0.01 + (beside.segment["country"] == country))
        same_weights(model, beside.names, fresh, beside.X)
    alone = ledger.models(by="country")["DE"]
    assert np.allclose(alone.coef_, ledger.model(where={"country": "DE"}).coef_, rtol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_segments_without_rows_in_the_selection_have_no_model(tmp_path, share):
    at = ["2024-01-01", "2024-01-01", "2024-01-02", "2024-01-02"] * 2
    frame = {"at": at, "x": np.arange(8.0), "y": [0, 1] * 4, "land": ["DE", "DE", "NO", "NO"] * 2}
    keys = {"label": "y", "timestamp": "at", "by": "land"}
    with Ledger.open(tmp_path / "l", **keys) as ledger:
        ledger.learn(frame)
        assert list(ledger.models("land", share)) == ["DE", "NO"]
        assert list(ledger.models("land", share, until="2024-01-02")) == ["DE"]


@pytest.mark.slow
def test_a_model_can_go_on_learning_and_forgetting(year):
    ledger, beside = year
    model = ledger.model()
    at = [beside.names.index(name) for name in model.names_]
    rows = beside.day == beside.day.max()
    model.unlearn(beside.X[rows][:, at], beside.y[rows])
    same_weights(model, beside.names, beside.fresh(1.0 - rows), beside.X, 1e-9)


@pytest.mark.slow
def test_rows_of_a_frame_are_scored_as_the_model_learned_them(year):
    ledger, beside = year
    model = ledger.model(since="2024-07-01")
    tables, _ = a_year(days=366, rows=30)
    X, y = ledger.encode(tables[1], model)
    fresh = beside.fresh((beside.day >= 19905).astype(float))
    assert y.tolist() == beside.y[beside.day >= 19905].tolist()
    wanted = fresh.decision_function(beside.X[beside.day >= 19905])
    assert np.allclose(model.decision_function(X), wanted, atol=1e-10)


@pytest.mark.slow
def test_buckets_merged_and_then_selected_equal_those_selected_and_then_merged(tmp_path):
    tables, beside = a_year(days=130, rows=20)
    with Ledger.open(tmp_path / "l", label="fraud", timestamp="at", by="country") as ledger:
        ledger.learn(tables[0])
        since = {"since": "2024-02-01", "where": {"country": ["DE", "FR"]}}
        before, size = ledger.model(**since), (tmp_path / "l").stat().st_size
        assert ledger.rollup("2024-04-15") > 0
        after = ledger.model(**since)
        assert (tmp_path / "l").stat().st_size < size / 2
        assert np.allclose(after.coef_, before.coef_, rtol=0.0, atol=1e-12)
        assert after.class_count_.tolist() == before.class_count_.tolist()
        # April is not over by then: it still has days
        ledger.model(since="2024-04-07")
        with pytest.raises(ValueError, match="within the bucket from 2024-03-01 to 2024-04-01"):
            ledger.model(since="2024-03-07")
        # rows of a day that is within a month now go into the month
        ledger.learn(tables[0].slice(0, 100), name="again", allow_overlap=True)
        weight = np.ones(len(beside.y))
        weight[:100] = 2.0
        same_weights(ledger.model(), beside.names, beside.fresh(weight), beside.X)


@pytest.mark.slow
def test_what_is_dropped_was_never_learned(tmp_path):
    tables, beside = a_year(days=60, rows=30)
    with Ledger.open(tmp_path / "l", label="fraud", timestamp="at", by="country") as ledger:
        ledger.learn(tables[0])
        assert ledger.drop("2024-02-01") > 0
        late = beside.day >= 19754
        same_weights(ledger.model(), beside.names, beside.fresh(late.astype(float)), beside.X)
        assert ledger.model().class_count_.sum() == late.sum()
        assert ledger.learn(tables[0]) == 0
        with pytest.raises(ValueError, match=r"row 1: 2024-01-01.* is before 2024-02-01"):
            ledger.learn(tables[0].slice(0, 10), name="again", allow_overlap=True)


@pytest.mark.slow
def test_what_is_unlearned_was_never_learned(tmp_path):
    tables, beside = a_year(days=40, rows=50)
    first, second = tables[0].slice(0, 900), tables[0].slice(900)
    with Ledger.open(tmp_path / "l", label="fraud", timestamp="at", by="country") as ledger:
        ledger.learn(first)
        ledger.learn(second)
        assert ledger.unlearn(first) == 900
        late = np.arange(len(beside.y)) >= 900
        same_weights(ledger.model(), beside.names, beside.fresh(late.astype(float)), beside.X, 1e-9)
        assert len(ledger.records) == 1
        assert ledger.learn(first) == 900
        same_weights(ledger.model(), beside.names, beside.fresh(np.ones(len(late))), beside.X, 1e-9)
        before = ledger.model().coef_
        with pytest.raises(ValueError, match=r"cannot unlearn .* rows of class"):
            ledger.unlearn(pa.concat_tables([first, first, first]))
        assert np.array_equal(ledger.model().coef_, before)
