"""A kind of column is one class: everything else takes it from ``KINDS``."""

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pytest

from counterpoise import TableClassifier
from counterpoise.encoding import cell_parsing
from counterpoise.encoding.columns import Columns, by_option, parse_roles
from counterpoise.encoding.kinds import KINDS, NumberKind
from counterpoise.errors import DataError
from counterpoise.export import load_to_export, onnx, sklearn_pipeline
from counterpoise.tables.model import TableModel


class LengthKind(NumberKind):
    """Text as its number of characters."""

    role = "length"

    def read(self, columns, chunk, name, remedies):
        lengths = pc.utf8_length(cell_parsing.texts(chunk, name))
        return lengths.cast("double").to_numpy(zero_copy_only=False)


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setitem(KINDS, "length", LengthKind())
    rng = np.random.default_rng(0)
    y = rng.random(300) < 0.3
    text = ["x" * (1 + k) for k in rng.poisson(3 + 4 * y)]
    text[5] = None
    return pd.DataFrame({"c": text, "a": rng.normal(size=300), "y": np.where(y, "yes", "no")})


def lengths(table):
    return table.assign(c=table["c"].str.len())


def test_a_new_kind_learns_explains_and_is_saved(table, tmp_path):
    model = TableClassifier(columns={"c": "length"}, label="y").fit(table)
    plain = TableClassifier(label="y").fit(lengths(table))
    X = table.drop(columns="y")
    p = model.predict_proba(X)
    np.testing.assert_array_equal(p, plain.predict_proba(lengths(X)))
    assert model.get_feature_names_out().tolist() == ["c", "a", "c is missing"]
    assert np.abs(model.explain(X).values).sum(axis=0)[0] > 0
    model.save(tmp_path / "model")
    again = TableClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(p, again.partial_fit(table.head(0)).predict_proba(X))
    assert again.merge(model).unlearn(table).predict(X).tolist() == model.predict(X).tolist()


def test_an_export_of_a_new_kind_is_right_or_refused(table, tmp_path):
    model = TableClassifier(columns={"c": "length"}, label="y").fit(table)
    model.save(tmp_path / "model")
    stored = load_to_export(str(tmp_path / "model"))
    assert isinstance(stored, TableModel)
    X = table.drop(columns="y")
    np.testing.assert_allclose(
        sklearn_pipeline.build_pipeline(stored).predict_proba(X), model.predict_proba(X), rtol=1e-12
    )
    with pytest.raises(DataError, match="kind length, which cannot be exported as ONNX"):
        onnx.build_graph(stored)


def test_roles_are_parsed_once(table):
    roles = parse_roles({"id": "drop", "city": "hash:0256", "c": "length", "w": "weight"})
    assert roles == {"c": "length", "city": "hash:256", "id": "drop", "w": "weight"}
    options = by_option({"label": "y", "roles": roles})
    assert options == {
        "label": "y", "length": ("c",), "hash": {"city": 256}, "drop": ("id",), "weight": "w"
    }  # fmt: skip
    assert Columns("y").by_option()["length"] == ()
    for role in ("length:", "length:3", "hash", "hash:0", "hash:-1", "hash:4294967297", "x", 3):
        with pytest.raises(
            DataError, match=r"must be drop, weight, .*, hash:N, many:ROWS or length; got"
        ):
            parse_roles({"c": role})
