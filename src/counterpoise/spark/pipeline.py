"""An Estimator and its Model for pyspark.ml pipelines, with persistence."""

from __future__ import annotations

import json
from typing import Any

from pyspark import keyword_only
from pyspark.ml import Estimator, Model
from pyspark.ml.functions import array_to_vector
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasInputCols,
    HasLabelCol,
    HasPredictionCol,
    HasRawPredictionCol,
    HasWeightCol,
)
from pyspark.ml.util import (
    DefaultParamsReadable,
    DefaultParamsReader,
    DefaultParamsWritable,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql import DataFrame

from counterpoise.encoding.columns import parse_roles
from counterpoise.engine.parameters import RIDGE_PARAMETERS, parse_ridge_parameters
from counterpoise.engine.ridge import RidgeModel
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.feature_maps import FittedMap
from counterpoise.modelfile import container as modelfile
from counterpoise.modelfile.engines import options_of, plain_options
from counterpoise.spark.dataframes import column_of
from counterpoise.spark.fit import fit, with_feature_names
from counterpoise.spark.predict import predict, stored_of
from counterpoise.tables.model import TableModel
from counterpoise.tables.model_io import contents_of


class _ColumnParams(
    HasFeaturesCol,
    HasInputCols,
    HasLabelCol,
    HasPredictionCol,
    HasRawPredictionCol,
    HasWeightCol,
):
    """Names of the columns of a stage."""


class BalancedRidge(
    Estimator,  # type: ignore[type-arg]
    _ColumnParams,
    DefaultParamsReadable,  # type: ignore[type-arg]
    DefaultParamsWritable,
):
    """The exact balanced ridge classifier as a stage of a pipeline.

    Parameters
    ----------
    featuresCol : str, default="features"
        Column of vectors.
    inputCols : list of str, optional
        Columns to learn from instead.
    labelCol : str, default="label"
        Column of the labels.
    predictionCol, rawPredictionCol : str
        Columns for the label and for the score, or the scores.
    weightCol : str, optional
        Column of the weights of rows.
    missing : str, default="mean"
        Rule for missing values; see :func:`counterpoise.spark.fit`.
    columns : dict of str to str, optional
        Roles of columns, such as ``{"merchant": "many"}``; see :func:`counterpoise.spark.fit`.
    options : dict, optional
        Parameters of BalancedRidgeClassifier.

    Examples
    --------
    >>> from pyspark.ml import Pipeline
    >>> from pyspark.ml.feature import VectorAssembler
    >>> from counterpoise.spark import BalancedRidge
    >>> rows = [(12.5, 9.0, 0), (980.0, 2.0, 1), (20.0, 8.0, 0), (700.0, 3.0, 1)]
    >>> payments = spark.createDataFrame(rows, ["amount", "hour", "fraud"])  # a SparkSession
    >>> vectors = VectorAssembler(inputCols=["amount", "hour"], outputCol="features")
    >>> fitted = Pipeline(stages=[vectors, BalancedRidge(labelCol="fraud")]).fit(payments)
    >>> [row.prediction for row in fitted.transform(payments).collect()]
    [0.0, 1.0, 0.0, 1.0]
    """

    missing: Param[str] = Param(
        Params._dummy(), "missing", "mean, indicate, drop or error", TypeConverters.toString
    )
    columns: Param[str] = Param(
        Params._dummy(), "columns", "roles of columns, as JSON", TypeConverters.toString
    )
    options: Param[str] = Param(
        Params._dummy(), "options", "parameters of the classifier, as JSON", TypeConverters.toString
    )

    @keyword_only
    def __init__(
        self,
        *,
        featuresCol: str = "features",
        inputCols: list[str] | None = None,
        labelCol: str = "label",
        predictionCol: str = "prediction",
        rawPredictionCol: str = "rawPrediction",
        weightCol: str | None = None,
        missing: str = "mean",
        columns: dict[str, str] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        defaults = plain_options(parse_ridge_parameters().estimator_parameters)
        self._setDefault(missing="mean", columns="{}", options=json.dumps(defaults))
        given: dict[str, Any] = dict(vars(self)["_input_kwargs"])
        if given.get("columns") is not None:
            given["columns"] = json.dumps(parse_roles(given["columns"]))
        if given.get("options") is not None:
            params = parse_ridge_parameters(**given["options"])
            if isinstance(params.feature_map, FittedMap):
                raise ValueError("a stage fits its map to the frame; give the map by its name")
            given["options"] = json.dumps(plain_options(params.estimator_parameters))
        self._set(**{name: value for name, value in given.items() if value is not None})

    def _fit(self, dataset: DataFrame) -> Any:
        chosen = self.isDefined("inputCols") and self.getInputCols()
        plain = {"feature_map": None, **json.loads(self.getOrDefault("options"))}
        options = options_of(plain, RIDGE_PARAMETERS)
        roles = json.loads(self.getOrDefault("columns"))
        if self.isDefined("weightCol"):
            roles[self.getWeightCol()] = "weight"
        model = fit(
            dataset,
            self.getLabelCol(),
            roles,
            chosen or [self.getFeaturesCol()],
            missing=self.getOrDefault("missing"),
            feature_map=options.pop("feature_map"),
            **options,
        )
        result = BalancedRidgeModel(model)
        return self._copyValues(result)


class BalancedRidgeModel(
    Model,
    _ColumnParams,
    MLReadable,  # type: ignore[type-arg]
    MLWritable,
):
    """Fitted :class:`BalancedRidge`.

    Parameters
    ----------
    model : BalancedRidgeClassifier, optional
        The model.

    Examples
    --------
    >>> from counterpoise.spark import BalancedRidge
    >>> rows = [(12.5, 9.0, 0), (980.0, 2.0, 1), (20.0, 8.0, 0), (700.0, 3.0, 1)]
    >>> payments = spark.createDataFrame(rows, ["amount", "hour", "fraud"])  # a SparkSession
    >>> fitted = BalancedRidge(inputCols=["amount", "hour"], labelCol="fraud").fit(payments)
    >>> fitted.model.class_count_.tolist()
    [2.0, 2.0]
    >>> fitted.transform(payments).columns[-2:]
    ['prediction', 'rawPrediction']
    """

    def __init__(self, model: BalancedRidgeClassifier | None = None) -> None:
        super().__init__()
        self.model = model

    def _transform(self, dataset: DataFrame) -> DataFrame:
        if self.model is None:
            raise ValueError("this model is not fitted")
        label, raw = self.getPredictionCol(), self.getRawPredictionCol()
        made = predict(dataset, self.model, label, raw)
        # Evaluators of pipelines expect numbers as doubles and several scores as a vector.
        if self.model.classes_.dtype.kind not in "UO":
            made = made.withColumn(label, column_of(label).cast("double"))
        if len(self.model.classes_) > 2:
            made = made.withColumn(raw, array_to_vector(column_of(raw)))
        return made

    def write(self) -> MLWriter:
        """Return the writer of the model."""
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader[BalancedRidgeModel]:
        """Return the reader of models."""
        return _Reader(cls)


class _Writer(MLWriter):
    def __init__(self, instance: BalancedRidgeModel) -> None:
        super().__init__()
        self.instance = instance

    def saveImpl(self, path: str) -> None:
        """Write the parameters as pipelines do, and the model file next to them."""
        if self.instance.model is None:
            raise ValueError("this model is not fitted")
        DefaultParamsWriter.saveMetadata(self.instance, path, self.sparkSession)
        data = modelfile.to_bytes(contents_of(stored_of(self.instance.model)))
        frame = self.sparkSession.createDataFrame([(bytearray(data),)], "model binary")
        frame.coalesce(1).write.parquet(f"{path}/data")


class _Reader(MLReader[BalancedRidgeModel]):
    def __init__(self, cls: type[BalancedRidgeModel]) -> None:
        super().__init__()
        self.cls = cls

    def load(self, path: str) -> BalancedRidgeModel:
        """Read the parameters and the model file."""
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        row = self.sparkSession.read.parquet(f"{path}/data").first()
        if row is None:
            raise ValueError(f"{path} contains no model")
        stored = TableModel.from_contents(modelfile.from_bytes(bytes(row["model"])), path)
        if not isinstance(stored.model, RidgeModel):
            raise ValueError(f"{path} contains a {stored.estimator.kind}")
        result = self.cls(with_feature_names(stored.model, stored.encoding))
        result._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(result, metadata)
        return result
