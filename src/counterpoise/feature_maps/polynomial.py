"""Polynomials: complete, reduced, and products of distinct features."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, combinations, combinations_with_replacement
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Matrix
from counterpoise.feature_maps.base import Map, whole

Factors = tuple[int, ...]


class Polynomial(Map):
    """All monomials of total degree up to ``order``."""

    def __init__(self, order: int = 2, *, constant: bool = False) -> None:
        self.order = order
        self.constant = constant

    @property
    def text(self) -> str:
        """The name of the map on the command line and in model files."""
        return f"poly{self.order}"

    def check(self) -> None:
        """Raise if a parameter has no meaning."""
        whole("order", self.order)

    def count(self, inputs: int) -> int:
        """Number of terms of a row of l features."""
        return terms(inputs, self.order, reduced=False) - (not self.constant)

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Terms of rows."""
        products = _products(X, self.order, distinct=False)
        one = [np.ones((len(X), 1))] if self.constant else []
        return np.concatenate([*one, *products], axis=1)

    @property
    def degree(self) -> int:
        """Degree of the terms."""
        return int(self.order)

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Gradient of Σ_t G_t term_t."""
        return _pulled(X, G[:, int(self.constant) :], self.order, distinct=False)

    def features_at(self, inputs: int) -> NDArray[np.intp] | None:
        """Places of the features among the terms."""
        return np.arange(inputs, dtype=np.intp) + int(self.constant)

    def names(self, names: Sequence[str]) -> list[str]:
        """Names of the terms, given those of the features."""
        one = ["1"] if self.constant else []
        return one + _names(names, _monomials(len(names), self.order, False))

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        """New place of each term when feature j becomes feature at[j] of l."""
        return _places(at, inputs, self.order, distinct=False, first=int(self.constant))


class Interactions(Map):
    """The features and the products of distinct ones, up to ``order`` of them."""

    def __init__(self, order: int = 2) -> None:
        self.order = order

    @property
    def text(self) -> str:
        """The name of the map on the command line and in model files."""
        return "interactions" if self.order == 2 else f"interactions{self.order}"

    def check(self) -> None:
        """Raise if a parameter has no meaning."""
        whole("order", self.order)

    def count(self, inputs: int) -> int:
        """Number of terms of a row of l features."""
        return sum(comb(inputs, k) for k in range(1, self.order + 1))

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Terms of rows."""
        return np.concatenate(_products(X, self.order, distinct=True), axis=1)

    @property
    def degree(self) -> int:
        """Degree of the terms."""
        return int(self.order)

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Gradient of Σ_t G_t term_t."""
        return _pulled(X, G, self.order, distinct=True)

    def features_at(self, inputs: int) -> NDArray[np.intp] | None:
        """Places of the features among the terms."""
        return np.arange(inputs, dtype=np.intp)

    def names(self, names: Sequence[str]) -> list[str]:
        """Names of the terms, given those of the features."""
        return _names(names, _monomials(len(names), self.order, True))

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        """New place of each term when feature j becomes feature at[j] of l."""
        return _places(at, inputs, self.order, distinct=True)


class ReducedPolynomial(Map):
    """Powers of the features, powers of their sum s, and products of the two."""

    def __init__(self, order: int = 2, *, constant: bool = False) -> None:
        self.order = order
        self.constant = constant

    @property
    def text(self) -> str:
        """The name of the map on the command line and in model files."""
        return f"rm{self.order}"

    def check(self) -> None:
        """Raise if a parameter has no meaning."""
        whole("order", self.order)

    def count(self, inputs: int) -> int:
        """Number of terms of a row of l features."""
        return terms(inputs, self.order, reduced=True) - (not self.constant)

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Terms of rows."""
        s = X.sum(axis=1, keepdims=True)
        one = [np.ones((len(X), 1))] if self.constant else []
        powers, sums, products = [X], [s], []
        for k in range(2, self.order + 1):
            products.append(X * sums[-1])
            powers.append(X**k)
            sums.append(s**k)
        return np.concatenate([*one, *powers, *sums, *products], axis=1)

    @property
    def degree(self) -> int:
        """Degree of the terms."""
        return int(self.order)

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Gradient of Σ_t G_t term_t."""
        r, size, first = self.order, X.shape[1], int(self.constant)
        s = X.sum(axis=1, keepdims=True)
        powers = [G[:, first + k * size : first + (k + 1) * size] for k in range(r)]
        sums = G[:, first + r * size : first + r * size + r]
        rest = G[:, first + r * size + r :]
        products = [rest[:, k * size : (k + 1) * size] for k in range(r - 1)]
        result = np.zeros_like(X)
        for k, g in enumerate(powers, start=1):  # x_j^k
            result += k * g * X ** (k - 1)
        through_s = sum(k * sums[:, k - 1 : k] * s ** (k - 1) for k in range(1, r + 1))
        for k, g in enumerate(products, start=1):  # x_j s^k
            result += g * s**k
            through_s = through_s + k * (g * X).sum(axis=1, keepdims=True) * s ** (k - 1)
        result += through_s
        return result

    def features_at(self, inputs: int) -> NDArray[np.intp] | None:
        """Places of the features among the terms."""
        return np.arange(inputs, dtype=np.intp) + int(self.constant)

    def names(self, names: Sequence[str]) -> list[str]:
        """Names of the terms, given those of the features."""
        r = self.order
        result = ["1"] if self.constant else []
        result += [_power(name, k) for k in range(1, r + 1) for name in names]
        result += [_power("Σ", k) for k in range(1, r + 1)]
        return result + [f"{name} {_power('Σ', k)}" for k in range(1, r) for name in names]

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        """New place of each term when feature j becomes feature at[j] of l."""
        r, first = self.order, int(self.constant)
        powers = [first + k * inputs + at for k in range(r)]
        sums = np.arange(r, dtype=np.intp) + first + r * inputs
        products = [first + r * inputs + r + k * inputs + at for k in range(r - 1)]
        return np.concatenate([np.arange(first, dtype=np.intp), *powers, sums, *products])


def terms(features: int, order: int, reduced: bool) -> int:
    """Count the terms of a polynomial, the constant among them.

    Parameters
    ----------
    features : int
        l, the number of features.
    order : int
        r.
    reduced : bool
        Of the reduced model, or of the complete polynomial.

    Returns
    -------
    int

    Examples
    --------
    >>> from counterpoise.feature_maps import terms
    >>> terms(60, 2, reduced=False), terms(60, 2, reduced=True)
    (1891, 183)
    """
    whole("order", order)
    return 1 + order + features * (2 * order - 1) if reduced else comb(features + order, order)


def _monomials(inputs: int, order: int, distinct: bool) -> list[Factors]:
    """Factors of every monomial, degree by degree."""
    of_degree = combinations if distinct else combinations_with_replacement
    return list(chain.from_iterable(of_degree(range(inputs), k) for k in range(1, order + 1)))


@lru_cache(maxsize=32)
def recipe(
    inputs: int, order: int, distinct: bool
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """For each degree from 2 on: the first factor of its monomials, and the rest among the last."""
    result = []
    before: list[Factors] = [(j,) for j in range(inputs)]
    for degree in range(2, order + 1):
        index = {factors: i for i, factors in enumerate(before)}
        of_degree = combinations if distinct else combinations_with_replacement
        now = list(of_degree(range(inputs), degree))
        first = np.array([factors[0] for factors in now], dtype=np.intp)
        rest = np.array([index[factors[1:]] for factors in now], dtype=np.intp)
        result.append((first, rest))
        before = now
    return result


def _products(X: Matrix, order: int, distinct: bool) -> list[Matrix]:
    """Monomials of each degree: those of degree k are x_j times one of degree k − 1."""
    blocks = [X]
    for first, rest in recipe(X.shape[1], int(order), distinct):
        blocks.append(X[:, first] * blocks[-1][:, rest])
    return blocks


def _pulled(X: Matrix, G: Matrix, order: int, distinct: bool) -> Matrix:
    """Gradient of Σ_t G_t term_t: from the last degree down, by the rule for products."""
    inputs, order = X.shape[1], int(order)
    blocks, steps = _products(X, order, distinct), recipe(inputs, order, distinct)
    ends = np.cumsum([block.shape[1] for block in blocks])[:-1]
    parts = np.split(G, ends, axis=1)
    result, g = np.zeros_like(X), parts[-1]
    for k in range(len(steps), 0, -1):
        (first, rest), before = steps[k - 1], blocks[k - 1]
        result += (g * before[:, rest]) @ _sums(inputs, order, distinct, k - 1, 0)
        g = parts[k - 1] + (g * X[:, first]) @ _sums(inputs, order, distinct, k - 1, 1)
    return result + g


@lru_cache(maxsize=64)
def _sums(inputs: int, order: int, distinct: bool, step: int, which: int) -> Any:
    """A sparse matrix that adds up what monomials give to their first factors, or to the rest."""
    from scipy.sparse import csr_array

    at = recipe(inputs, order, distinct)[step]
    to = inputs if which == 0 or step == 0 else len(recipe(inputs, order, distinct)[step - 1][0])
    rows = np.arange(len(at[which]) + 1)
    return csr_array((np.ones(len(at[which])), at[which], rows), (len(at[which]), to))


def _names(names: Sequence[str], monomials: list[Factors]) -> list[str]:
    return [
        " ".join(_power(names[j], factors.count(j)) for j in dict.fromkeys(factors))
        for factors in monomials
    ]


def _power(name: str, k: int) -> str:
    return name if k == 1 else f"{name}^{k}"


def _places(
    at: NDArray[np.intp], inputs: int, order: int, distinct: bool, first: int = 0
) -> NDArray[np.intp]:
    index = {
        factors: i for i, factors in enumerate(_monomials(inputs, order, distinct), start=first)
    }
    moved = (
        tuple(sorted(int(at[j]) for j in factors))
        for factors in _monomials(len(at), order, distinct)
    )
    return np.array([*range(first), *(index[factors] for factors in moved)], dtype=np.intp)
