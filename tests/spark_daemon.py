"""Spark's daemon of Python workers, which imports what they need before it forks them.

Spark starts ``python -m spark_daemon pyspark.worker``. A worker that has nothing imported takes
two seconds to do so, and tests in which tasks fail need many.
"""

import importlib

import pyspark.daemon

if __name__ == "__main__":
    for name in (
        "pandas",
        "pyspark.sql.pandas.serializers",
        "pyspark.worker",
        "counterpoise.spark",
    ):
        importlib.import_module(name)
    pyspark.daemon.manager()
