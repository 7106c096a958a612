"""MLflow: the model file as the only artifact, bit-identical predictions, a server on loopback."""

import contextlib
import doctest
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from builders import stream

mlflow = pytest.importorskip("mlflow", reason="requires the extra mlflow")

import counterpoise.mlflow as flavor  # noqa: E402
from counterpoise import AutoClassifier, BalancedRidgeClassifier, TableClassifier  # noqa: E402
from counterpoise.errors import DataError  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*integer column.*:UserWarning"),
]
ROOT = Path(__file__).parents[2]
FILES = {
    "MLmodel",
    "conda.yaml",
    "data/model.safetensors",
    "input_example.json",
    "python_env.yaml",
    "requirements.txt",
    "serving_input_example.json",
}
START_SECONDS = 300


def payments():
    return pd.read_csv(ROOT / "examples" / "payments.csv").drop(columns="payment")


def arrays(classes):
    X, y = stream(400, d=4, classes=classes, minority=0.2)
    return X, y


def fitted_models():
    """Estimators with rows to predict."""
    rows = payments()
    X, y = arrays(2)
    frame = pd.DataFrame(X, columns=list("abcd"))
    several, labels = arrays(3)
    return {
        "table": (TableClassifier().fit(rows, "fraud"), rows.drop(columns="fraud")),
        "frame": (BalancedRidgeClassifier(feature_map="poly2").fit(frame, y), frame),
        "auto": (AutoClassifier().fit(frame, y), frame),
        "several": (BalancedRidgeClassifier(calibrate=True).fit(several, labels), several),
    }


def outputs(model, X):
    names = "predict", "decision_function", "predict_proba", "predict_stream_proba"
    return [getattr(model, name)(X) for name in names]


@pytest.mark.parametrize("name", ["table", "frame", "auto", "several"])
def test_a_round_trip_is_bit_identical_and_has_no_pickle(tmp_path, name):
    model, X = fitted_models()[name]
    folder = tmp_path / "model"
    flavor.save_model(model, folder, input_example=X[:3])
    loaded = flavor.load_model(folder)
    assert type(loaded) is type(model)
    for one, two in zip(outputs(model, X), outputs(loaded, X), strict=True):
        np.testing.assert_array_equal(one, two)
    found = mlflow.pyfunc.load_model(str(folder)).predict(X)
    label, score, balanced, observed = outputs(model, X)
    np.testing.assert_array_equal(found["prediction"], label)
    np.testing.assert_array_equal(
        found.filter(regex="^score").to_numpy().reshape(score.shape), score
    )
    np.testing.assert_array_equal(found.filter(regex="^proba_balanced").to_numpy(), balanced)
    np.testing.assert_array_equal(found.filter(regex="^proba_stream").to_numpy(), observed)
    assert_only_text_and_numbers(folder, model, tmp_path)


def assert_only_text_and_numbers(folder, model, tmp_path):
    """Check each file of a folder: the model file, JSON, YAML or names of packages."""
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == FILES
    model.save(tmp_path / "own.safetensors")
    own = (tmp_path / "own.safetensors").read_bytes()
    assert (folder / "data" / "model.safetensors").read_bytes() == own
    for name in FILES - {"data/model.safetensors"}:
        text = (folder / name).read_text()
        assert "pickle" not in text, name
        if name.endswith("json"):
            assert json.loads(text)
        else:
            assert yaml.safe_load(text.replace("==", " ")) is not None


def test_a_loaded_model_continues_to_learn(tmp_path):
    X, y = arrays(2)
    flavor.save_model(BalancedRidgeClassifier().fit(X[:200], y[:200]), tmp_path / "model")
    loaded = flavor.load_model(tmp_path / "model").partial_fit(X[200:], y[200:])
    whole = BalancedRidgeClassifier().fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(loaded.coef_, whole.coef_)


def test_a_model_is_logged_with_its_signature(tmp_path):
    rows = payments()
    model = TableClassifier().fit(rows, "fraud")
    X = rows.drop(columns="fraud")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    experiment = mlflow.create_experiment("fraud", artifact_location=(tmp_path / "a").as_uri())
    with mlflow.start_run(experiment_id=experiment):
        logged = flavor.log_model(model, "fraud", input_example=X[:3], metadata={"owner": "risk"})
    assert logged.signature.inputs.input_names() == list(X.columns)
    assert logged.signature.outputs.input_names()[:2] == ["prediction", "score"]
    assert logged.flavors["counterpoise"]["model_class"] == "TableClassifier"
    loaded = flavor.load_model(logged.model_uri)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    with pytest.raises(mlflow.exceptions.MlflowException, match="amount"):
        mlflow.pyfunc.load_model(logged.model_uri).predict(X.drop(columns="amount"))


def test_other_models_and_folders_are_refused(tmp_path):
    from sklearn.linear_model import RidgeClassifier

    with pytest.raises(DataError, match="AutoClassifier or a TableClassifier; got RidgeClassifier"):
        flavor.save_model(RidgeClassifier(), tmp_path / "ridge")
    with pytest.raises(ValueError, match="fit"):
        flavor.save_model(BalancedRidgeClassifier(), tmp_path / "empty")
    assert not list(tmp_path.iterdir())
    other = tmp_path / "other"
    other.mkdir()
    mlflow.models.Model().save(str(other / "MLmodel"))
    with pytest.raises(DataError, match="has no flavor counterpoise"):
        flavor.load_model(other)
    X, y = arrays(2)
    flavor.save_model(BalancedRidgeClassifier().fit(X, y), tmp_path / "model")
    file = tmp_path / "model" / "data" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(ValueError, match="damaged or truncated"):
        flavor.load_model(tmp_path / "model")


@contextlib.contextmanager
def serve(folder):
    """Serve a folder on a free port of loopback, and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(folder)]
    command += ["--env-manager", "local", "--host", "127.0.0.1", "--port", str(port)]
    log = folder.parent / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True)
    try:
        end = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=10).close()
                break
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/invocations"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.mark.skipif(sys.platform == "win32", reason="ends a group of processes")
def test_a_served_model_predicts(tmp_path):
    rows = payments()
    model = TableClassifier().fit(rows, "fraud")
    X = rows.drop(columns="fraud")
    flavor.save_model(model, tmp_path / "model", input_example=X[:3])
    body = json.dumps({"dataframe_split": X.to_dict(orient="split")}).encode()
    with serve(tmp_path / "model") as address:
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = pd.DataFrame(json.load(answer)["predictions"])
    np.testing.assert_array_equal(found["prediction"], model.predict(X))
    np.testing.assert_array_equal(found["score"], model.decision_function(X))


def test_the_examples_of_the_module_run(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert doctest.testmod(flavor, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0
