"""Apache Spark: a cluster whose model equals the single-machine model to rounding.

- ``fit``, ``predict``, ``save``: a model of a DataFrame, and its predictions
- ``BalancedRidge``, ``BalancedRidgeModel``: stages of a pipeline
- ``ModelSink``: a model that learns a streaming query exactly once
- ``ledger``: a ledger of a DataFrame

Needs the extra ``spark`` and Java 17: ``pip install 'counterpoise[spark]'``. The package must be
installed where the executors run, too.
"""

from counterpoise.spark.fit import fit
from counterpoise.spark.ledger import ledger
from counterpoise.spark.pipeline import BalancedRidge, BalancedRidgeModel
from counterpoise.spark.predict import predict, save
from counterpoise.spark.streaming import ModelSink

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise ImportError(
        "counterpoise.spark requires pyspark: pip install 'counterpoise[spark]'", name="pyspark"
    ) from error


__all__ = ["BalancedRidge", "BalancedRidgeModel", "ModelSink", "fit", "ledger", "predict", "save"]
