"""The maps as scikit-learn transformers, which learn only the number of features.

A model needs a map and not its transformer: reading and using one does not import scikit-learn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from counterpoise.arrays import Labels, Matrix
from counterpoise.feature_maps import base, fitted, kernel_maps, piecewise, polynomial
from counterpoise.feature_maps.base import Map


class Transformer(TransformerMixin, BaseEstimator, Map):
    """A map for a pipeline."""

    drawn_: Matrix
    n_features_in_: int

    def fit(self, X: ArrayLike, y: Any = None) -> Transformer:
        """Record the number of features, and the parameters of maps that the rows determine.

        Parameters
        ----------
        X : array-like of shape (n, l)
            The rows.
        y : array-like of shape (n,), optional
            Their labels, by which landmarks are chosen; other maps ignore them.

        Returns
        -------
        self
        """
        self.check()
        rows = validate_data(self, X, dtype=np.float64)
        labels, drawn = None if y is None else np.asarray(y), self.draw(self.n_features_in_)
        self.drawn_ = self.draw_from(drawn, rows, labels, np.ones(len(rows)))
        return self

    def transform(self, X: ArrayLike) -> Matrix:
        """Map the rows.

        Parameters
        ----------
        X : array-like of shape (n, l)
            The rows.

        Returns
        -------
        ndarray of shape (n, terms)
        """
        check_is_fitted(self, "n_features_in_")
        self.check()
        with np.errstate(over="ignore", invalid="ignore"):
            terms = self.apply(validate_data(self, X, reset=False, dtype=np.float64), self.drawn_)
        if not np.isfinite(terms).all():
            raise ValueError(f"terms of {self.text} overflow; scale the features to [0, 1]")
        return terms

    def get_feature_names_out(self, input_features: Any = None) -> Labels:
        """Return the names of the terms.

        Parameters
        ----------
        input_features : array-like of shape (l,), optional
            Names of the features; by default those seen in fit, or x0, x1, ...

        Returns
        -------
        ndarray of shape (terms,)
        """
        names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        return np.array(self.names(names.tolist()), dtype=object)


class Polynomial(Transformer, polynomial.Polynomial):
    """All monomials of total degree up to ``order``, without the constant 1.

    Their number is C(l + r, r) − 1: 1,890 for 60 features and order 2.

    Parameters
    ----------
    order : int, default=2
        r, the highest total degree.

    Examples
    --------
    >>> from counterpoise.feature_maps import Polynomial
    >>> Polynomial(2).fit_transform([[0.5, 0.25]]).tolist()
    [[0.5, 0.25, 0.25, 0.125, 0.0625]]
    """


class Interactions(Transformer, polynomial.Interactions):
    """The features and the products of distinct ones, up to ``order`` of them.

    Their number is l + l(l − 1)/2 at order 2. Squares are left out: for features that are 0 or 1
    they would add nothing.

    Parameters
    ----------
    order : int, default=2
        The most factors of a product.

    Examples
    --------
    >>> from counterpoise.feature_maps import Interactions
    >>> Interactions().fit_transform([[0.5, 0.25, 2.0]]).tolist()
    [[0.5, 0.25, 2.0, 0.125, 1.0, 0.5]]
    """


class ReducedPolynomial(Transformer, polynomial.ReducedPolynomial):
    """The reduced multivariate model (RM): 1 + r + l(2r − 1) terms instead of C(l + r, r).

    With s = x₁ + … + x_l the terms are x_j^k for k = 1..r, s^k for k = 1..r, and x_j s^k for
    k = 1..r − 1; their names call it Σ. At order 1 the sum is collinear with the features:
    harmless to ridge regression, harmful to first-order rules.

    Parameters
    ----------
    order : int, default=2
        r.

    References
    ----------
    Toh, Tran and Srinivasan, "Benchmarking a reduced multivariate polynomial pattern classifier",
    IEEE TPAMI 26, 2004.

    Examples
    --------
    >>> from counterpoise.feature_maps import ReducedPolynomial
    >>> ReducedPolynomial(2).fit_transform([[0.5, 0.25]]).tolist()
    [[0.5, 0.25, 0.25, 0.0625, 0.75, 0.5625, 0.375, 0.1875]]
    """


class RandomFourier(Transformer, kernel_maps.RandomFourier):
    """Random Fourier features of the Gaussian kernel.

    Parameters
    ----------
    terms : int, default=400
        D, the number of terms; even.
    width : float or tuple of float, default=1.0
        σ, the width of the kernel for features of standard deviation 1, in units of the square
        root of their number. scikit-learn's ``gamma="scale"`` is 0.707; a large width is nearly
        linear. Several widths share the terms: (0.5, 1, 2) covers coarse and fine structure.
    seed : int, default=0
        Seed of the frequencies.

    References
    ----------
    Rahimi and Recht, "Random features for large-scale kernel machines", NIPS 2007. Yu et al.,
    "Orthogonal random features", NIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.feature_maps import RandomFourier
    >>> Z = RandomFourier(2000).fit_transform([[0.0, 0.0], [1.0, 1.0]])
    >>> round(float(Z[0] @ Z[1]), 2), round(float(np.exp(-2 / (2 * 2))), 2)
    (0.6, 0.61)
    """


class Hinges(Transformer, piecewise.Hinges):
    """The features, and each of them bent at quantiles of the rows: max(0, x − q).

    A model of them is a broken line in every feature, and adds these up.

    Parameters
    ----------
    knots : int, default=3
        Quantiles: 3 are the quartiles.

    Examples
    --------
    >>> from counterpoise.feature_maps import Hinges
    >>> Hinges(1).fit_transform([[0.0], [1.0], [4.0]]).tolist()
    [[0.0, 0.0], [1.0, 0.0], [4.0, 3.0]]
    """


class Ranks(Transformer, piecewise.Ranks):
    """Each feature as the normal score of its rank among the rows that fix the map.

    At most 64 values of a feature are kept; between them scores are interpolated, and beyond the
    outermost they stay.

    Examples
    --------
    >>> from counterpoise.feature_maps import Ranks
    >>> Ranks().fit_transform([[0.0], [1.0], [1000.0]]).round(2).tolist()
    [[-0.97], [0.0], [0.97]]
    """


class Steps(Transformer, piecewise.Steps):
    """Steps at random thresholds of random features, and products of two of them.

    A model of them adds up small trees of depth two: its boundaries follow the axes.

    Parameters
    ----------
    terms : int, default=300
        Number of terms, a multiple of 3: each pair of steps has a product.

    References
    ----------
    Geurts, Ernst and Wehenkel, "Extremely randomized trees", Machine Learning 63, 2006.

    Examples
    --------
    >>> from counterpoise.feature_maps import Steps
    >>> Steps(3).fit_transform([[0.0], [1.0], [4.0]]).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """


class Landmarks(Transformer, kernel_maps.Landmarks):
    """Nearness of a row to the first rows of each class, exp(−‖x − x_i‖²/(2 l σ²)).

    The landmarks are rows of each class in turn, and stay in the model: ``unlearn`` does not remove
    them. :class:`RandomFourier` stores no rows.

    Parameters
    ----------
    terms : int, default=256
        Number of landmarks. A model waits for twice as many rows before they are fixed.
    width : float or tuple of float, default=1.0
        σ, as of :class:`RandomFourier`; several widths share the landmarks.

    References
    ----------
    Williams and Seeger, "Using the Nyström method to speed up kernel machines", NIPS 2000.

    Examples
    --------
    >>> from counterpoise.feature_maps import Landmarks
    >>> Landmarks(2).fit_transform([[0.0], [1.0], [4.0]]).round(2).tolist()
    [[1.0, 0.61], [0.61, 1.0], [0.0, 0.01]]
    """


class MapUnion(Transformer, base.MapUnion):
    """The terms of several maps, one after the other.

    Parameters
    ----------
    maps : sequence of Map
        The maps; their names are joined by a plus, as in ``rm2+rff:300``.

    Examples
    --------
    >>> from counterpoise.feature_maps import Interactions, RandomFourier, MapUnion
    >>> both = MapUnion([Interactions(), RandomFourier(4)])
    >>> both.text, both.fit_transform([[0.0, 0.0]]).round(2).tolist()
    ('interactions+rff:4', [[0.0, 0.0, 0.0, 0.71, 0.71, 0.0, 0.0]])
    """


TRANSFORMERS = {name: globals()[kind.__name__] for name, kind in fitted.KINDS.items()}


def map_of(given: Any) -> Map:
    """Return a map by its name, or the map itself.

    Parameters
    ----------
    given : str or Map
        ``poly2``, ``interactions``, ``rm3``, ``rff:400``, ``rff:400,width=0.5,seed=1``,
        ``rff:400,width=0.5/1/2``, ``hinges``, ``hinges5``, ``ranks``, ``steps:300``,
        ``landmarks:256``, ``landmarks:256,width=0.7``, and several side by side:
        ``rm2+rff:300``.

    Returns
    -------
    Map

    Examples
    --------
    >>> from counterpoise.feature_maps import map_of
    >>> map_of("rff:400,width=0.5")
    RandomFourier(width=0.5)
    """
    return fitted.map_of(given, TRANSFORMERS)
