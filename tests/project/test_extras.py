"""Without an extra, its features raise an error with the command that installs it."""

import subprocess
import sys

import pytest

CODE = """
import sys
sys.modules["pyarrow"] = None
import counterpoise
for name in ("TableClassifier", "Ledger"):
    try:
        getattr(counterpoise, name)
    except ImportError as error:
        print(error)
counterpoise.BalancedRidgeClassifier().fit([[0.0], [1.0]], [0, 1])
"""


@pytest.mark.slow
def test_tables_without_pyarrow_name_the_extra():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"{name} requires pyarrow: pip install 'counterpoise[cli]'"
        for name in ("TableClassifier", "Ledger")
    ]


@pytest.mark.slow
def test_river_models_without_river_name_the_extra():
    code = 'import sys\nsys.modules["river"] = None\ntry:\n    import counterpoise.river\n'
    code += "except ImportError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = "counterpoise.river requires river: pip install 'counterpoise[river]'"
    assert done.stdout.strip() == expected
