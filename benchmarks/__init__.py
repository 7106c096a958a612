"""Measurements: ``python -m benchmarks.speed.NAME`` and ``python -m benchmarks.proofs.NAME``."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # the paper's data sets and the tests' samples
