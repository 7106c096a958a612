"""The paper's data sets, from the folder that COUNTERPOISE_DATA names."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Matrix

VARIABLE = "COUNTERPOISE_DATA"


def load(name: str) -> tuple[Matrix, NDArray[np.int64]]:
    """Rows and labels of one set, in the order of its file.

    Parameters
    ----------
    name : str
        For example "ijcnn1": the file is ``ijcnn1.csv.gz``, with a header, the features, and last
        the label, −1 or 1.

    Returns
    -------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise FileNotFoundError(
            f"set {VARIABLE} to the folder that holds the prepared files, {name}.csv.gz among them"
        )
    path = Path(folder) / f"{name}.csv.gz"
    if not path.exists():
        raise FileNotFoundError(f"{path.name} is not in the folder that {VARIABLE} names")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
