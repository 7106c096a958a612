"""One thread of BLAS, where no bit may depend on the number of cores."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import scipy.linalg.lapack  # noqa: F401  (it brings a library of its own, beside numpy's)
from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """A block in which products take one thread."""
    limit: AbstractContextManager[Any] = _libraries().limit(limits=1)
    return limit


@cache
def _libraries() -> Any:
    """The libraries of this process; to look for them takes longer than to learn a few rows."""
    return ThreadpoolController().select(user_api="blas")
