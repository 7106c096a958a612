"""Spark's daemon of Python workers, which imports what they need before it forks them.

Spark starts ``python -m spark_daemon pyspark.worker``. A worker that has nothing imported takes
two seconds to do so, and tests in which tasks fail need many. After every task a worker collects
garbage, and for every task it reads the archives on its path again; here both have little to do.
"""

import gc
import importlib
import sys

if __name__ == "__main__":
    sys.path[:] = [path for path in sys.path if not path.endswith(".zip")]  # it is installed, too
    for name in (
        "pandas",
        "pyspark.daemon",
        "pyspark.sql.pandas.serializers",
        "pyspark.worker",
        "counterpoise.spark",
    ):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    sys.modules["pyspark.daemon"].manager()
