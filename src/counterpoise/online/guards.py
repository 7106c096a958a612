"""What online rules refuse, and why."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from counterpoise.arrays import Labels


def too_large() -> ValueError:
    """Return the error that weights overflow."""
    return ValueError(
        "these rows make the weights overflow, or a second moment singular; scale the features, "
        "for example with sklearn.preprocessing.StandardScaler, or take a larger ridge"
    )


def indefinite() -> ValueError:
    """Return the error that a covariance is lost."""
    return ValueError(
        "with these rows the covariance of the weights is no longer positive definite, so they are "
        "not learned; scale the features, for example with sklearn.preprocessing.StandardScaler, "
        "leave out columns that follow from others, or take a larger ridge"
    )


def two_labels(y: Labels, classes: Any) -> Labels:
    """Return the two labels of y (n,), or those named by ``classes``, in order."""
    check_classification_targets(y)
    labels: Labels = np.unique(y if classes is None else np.asarray(classes))
    if len(labels) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass, with "
            f"{len(labels)} labels. Wrap the rule in sklearn.multiclass.OneVsRestClassifier"
        )
    if len(labels) < 2:
        raise ValueError(
            f"only one class is in the data, {labels.tolist()}; learning begins with both, or "
            "with partial_fit(X, y, classes=[negative, positive])"
        )
    return labels
