"""MLflow: models as a flavor whose artifact is the model file, without pickles.

- ``save_model``, ``log_model``: write a model into a folder, or log it with the current run
- ``load_model``: the estimator of a saved or logged model

``mlflow.pyfunc.load_model`` and ``mlflow models serve`` return the columns that the command
``predict`` writes. Needs the extra ``mlflow``: ``pip install 'counterpoise[mlflow]'``.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from counterpoise.errors import DataError
from counterpoise.estimators.auto import AutoClassifier
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.estimators.table import TableClassifier
from counterpoise.tables.model_io import read_contents
from counterpoise.version import VERSION

try:
    import mlflow.pyfunc
    from mlflow.artifacts import download_artifacts
    from mlflow.models import Model
except ImportError as error:
    raise ImportError(
        "counterpoise.mlflow requires mlflow: pip install 'counterpoise[mlflow]'", name="mlflow"
    ) from error

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["load_model", "log_model", "save_model"]

Estimator = BalancedRidgeClassifier | AutoClassifier | TableClassifier
FLAVOR = "counterpoise"
FILE = "model.safetensors"
DATA = f"data/{FILE}"  # where MLflow puts it


def save_model(
    model: Estimator,
    path: str | os.PathLike[str],
    *,
    signature: Any = None,
    input_example: Any = None,
    pip_requirements: Sequence[str] | None = None,
    metadata: dict[str, Any] | None = None,
    mlflow_model: Any = None,
) -> None:
    """Save a fitted estimator as a folder that MLflow can load and serve.

    Parameters
    ----------
    model : BalancedRidgeClassifier, AutoClassifier or TableClassifier
        The estimator. Its model file is the only artifact; the folder does not contain code.
    path : path-like
        The folder, which must be new or empty.
    signature : mlflow.models.ModelSignature, optional
        Columns of the input and of the predictions; by default those of the example.
    input_example : data frame or array, optional
        A few rows of input, without labels.
    pip_requirements : sequence of str, optional
        Packages that serving needs; by default this version of counterpoise with its extra.
    metadata : dict, optional
        Values for JSON that MLflow stores with the model.
    mlflow_model : mlflow.models.Model, optional
        The description to which the flavor is added; MLflow passes it when a model is logged.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pandas as pd
    >>> import counterpoise.mlflow
    >>> from counterpoise import TableClassifier
    >>> payments = pd.read_csv("examples/payments.csv").drop(columns="payment")
    >>> model = TableClassifier().fit(payments, "fraud")
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "fraud"
    >>> counterpoise.mlflow.save_model(model, folder)
    >>> counterpoise.mlflow.load_model(folder).predict(payments[:3]).tolist()
    ['no', 'no', 'no']
    """
    if not isinstance(model, Estimator):
        raise DataError(
            "model must be a BalancedRidgeClassifier, an AutoClassifier or a TableClassifier; "
            f"got {type(model).__name__}"
        )
    described = Model() if mlflow_model is None else mlflow_model
    name = type(model).__name__
    described.add_flavor(FLAVOR, counterpoise_version=VERSION, data=DATA, model_class=name)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, FILE)
        model.save(file)
        if signature is None and input_example is not None:
            predictions = Predictor(model).predict(input_example)
            signature = mlflow.models.infer_signature(input_example, predictions)
        mlflow.pyfunc.save_model(
            os.fspath(path),
            loader_module=__name__,
            data_path=file,
            mlflow_model=described,
            signature=signature,
            input_example=input_example,
            pip_requirements=list(pip_requirements or [f"counterpoise[mlflow]=={VERSION}"]),
            metadata=metadata,
        )


def log_model(model: Estimator, name: str, **options: Any) -> Any:
    """Log a fitted estimator with the current run of MLflow.

    Parameters
    ----------
    model : BalancedRidgeClassifier, AutoClassifier or TableClassifier
        The estimator.
    name : str
        Name of the logged model.
    **options
        Further parameters of :func:`save_model`, and of ``mlflow.models.Model.log``, such as
        ``registered_model_name``.

    Returns
    -------
    mlflow.models.model.ModelInfo
        With the ``model_uri`` for :func:`load_model`.

    Examples
    --------
    >>> import counterpoise.mlflow, mlflow
    >>> from counterpoise import BalancedRidgeClassifier
    >>> def train(X, y):
    ...     with mlflow.start_run():
    ...         model = BalancedRidgeClassifier().fit(X, y)
    ...         return counterpoise.mlflow.log_model(model, "fraud", input_example=X[:3])
    """
    return Model.log(None, sys.modules[__name__], name=name, model=model, **options)


def load_model(model_uri: str | os.PathLike[str]) -> Estimator:
    """Load the estimator of a saved or logged model, to predict or to continue learning.

    Parameters
    ----------
    model_uri : str or path-like
        A folder, or an address of MLflow such as ``models:/fraud/1`` or ``runs:/ID/fraud``.

    Returns
    -------
    BalancedRidgeClassifier, AutoClassifier or TableClassifier
        The estimator that was saved; its predictions and scores are bit-identical.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import counterpoise.mlflow
    >>> from counterpoise import BalancedRidgeClassifier
    >>> model = BalancedRidgeClassifier().fit([[0.0], [1.0], [4.0]], [0, 0, 1])
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "small"
    >>> counterpoise.mlflow.save_model(model, folder)
    >>> counterpoise.mlflow.load_model(folder).partial_fit([[5.0]], [1]).predict([[3.5]])
    array([1])
    """
    folder = download_artifacts(os.fspath(model_uri))
    flavor = Model.load(folder).flavors.get(FLAVOR)
    if flavor is None:
        raise DataError(f"{model_uri} has no flavor {FLAVOR}; save it with counterpoise.mlflow")
    return _load_file(os.path.join(folder, flavor["data"]))


def _load_file(path: str) -> Estimator:
    """Load the estimator of a model file."""
    contents = read_contents(path)
    if contents.stream is not None:
        return TableClassifier.load(path)
    kind = AutoClassifier if contents.kind == "AutoClassifier" else BalancedRidgeClassifier
    loaded: Estimator = kind.load(path)
    return loaded


def _load_pyfunc(path: str) -> Predictor:
    """Return the model that MLflow calls; the name is that of MLflow."""
    return Predictor(_load_file(path))


class Predictor:
    """An estimator with the method that MLflow calls."""

    def __init__(self, model: Estimator) -> None:
        self._model = model

    def get_raw_model(self) -> Estimator:
        """Return the estimator."""
        return self._model

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Return the label, the scores and both probabilities of rows; there are no parameters."""
        import pandas as pd

        model, labels = self._model, self._model.classes_.tolist()
        scores = model.decision_function(data)
        columns = {"prediction": model.predict(data)}
        if scores.ndim == 1:
            columns["score"] = scores
        else:
            columns |= {f"score_{k}": f for k, f in zip(labels, scores.T, strict=True)}
        for kind, found in (
            ("proba_balanced", model.predict_proba(data)),
            ("proba_stream", model.predict_stream_proba(data)),
        ):
            columns |= {f"{kind}_{k}": p for k, p in zip(labels, found.T, strict=True)}
        index = data.index if isinstance(data, pd.DataFrame) else None
        return pd.DataFrame(columns, index=index)
