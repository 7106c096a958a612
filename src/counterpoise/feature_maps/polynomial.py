"""Polynomials: complete, reduced, and products of distinct features."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, combinations_with_replacement
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Matrix
from counterpoise.feature_maps.base import Map, check_integer

Factors = tuple[int, ...]


class PolynomialMap(Map):
    """A map whose terms are polynomials up to a degree, ``order``."""

    order: int

    def check(self) -> None:
        check_integer("order", self.order)

    @property
    def degree(self) -> int:
        return int(self.order)

    def features_at(self, inputs: int) -> NDArray[np.intp] | None:
        return np.arange(inputs, dtype=np.intp)


class Monomials(PolynomialMap):
    """Products of features, or of distinct features, degree by degree."""

    distinct: bool

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        return np.concatenate(self._products(X), axis=1)

    def _products(self, X: Matrix) -> list[Matrix]:
        """Return the monomials of each degree: x_j times one of the degree before."""
        blocks = [X]
        for first, rest in monomial_factors(X.shape[1], int(self.order), self.distinct):
            blocks.append(X[:, first] * blocks[-1][:, rest])
        return blocks

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Return the gradient: from the last degree down, by the rule for products."""
        inputs, order = X.shape[1], int(self.order)
        blocks, steps = self._products(X), monomial_factors(inputs, order, self.distinct)
        ends = np.cumsum([block.shape[1] for block in blocks])[:-1]
        parts = np.split(G, ends, axis=1)
        result, g = np.zeros_like(X), parts[-1]
        for k in range(len(steps), 0, -1):
            (first, rest), before = steps[k - 1], blocks[k - 1]
            result += (g * before[:, rest]) @ _sums(inputs, order, self.distinct, k - 1, 0)
            g = parts[k - 1] + (g * X[:, first]) @ _sums(inputs, order, self.distinct, k - 1, 1)
        return result + g

    def _factors(self, inputs: int) -> list[Factors]:
        """Return the factors of every monomial."""
        return [f for k in range(1, self.order + 1) for f in _of_degree(inputs, k, self.distinct)]

    def names(self, names: Sequence[str]) -> list[str]:
        """Return the names of the terms, products of those of the features."""
        return [
            " ".join(_power(names[j], factors.count(j)) for j in dict.fromkeys(factors))
            for factors in self._factors(len(names))
        ]

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        index = {factors: i for i, factors in enumerate(self._factors(inputs))}
        moved = [tuple(sorted(int(at[j]) for j in factors)) for factors in self._factors(len(at))]
        return np.array([index[factors] for factors in moved], dtype=np.intp)


class Polynomial(Monomials):
    """All monomials of total degree up to ``order``."""

    distinct = False

    def __init__(self, order: int = 2) -> None:
        self.order = order

    @property
    def text(self) -> str:
        return f"poly{self.order}"

    def count(self, inputs: int) -> int:
        return terms(inputs, self.order, reduced=False) - 1


class Interactions(Monomials):
    """The features and the products of distinct ones, up to ``order`` of them."""

    distinct = True

    def __init__(self, order: int = 2) -> None:
        self.order = order

    @property
    def text(self) -> str:
        return "interactions" if self.order == 2 else f"interactions{self.order}"

    def count(self, inputs: int) -> int:
        return sum(comb(inputs, k) for k in range(1, self.order + 1))


class ReducedPolynomial(PolynomialMap):
    """Powers of the features, powers of their sum s, and products of the two."""

    def __init__(self, order: int = 2) -> None:
        self.order = order

    @property
    def text(self) -> str:
        return f"rm{self.order}"

    def count(self, inputs: int) -> int:
        return terms(inputs, self.order, reduced=True) - 1

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        s = X.sum(axis=1, keepdims=True)
        powers, sums, products = [X], [s], []
        for k in range(2, self.order + 1):
            products.append(X * sums[-1])
            powers.append(X**k)
            sums.append(s**k)
        return np.concatenate([*powers, *sums, *products], axis=1)

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        r, size, s = self.order, X.shape[1], X.sum(axis=1, keepdims=True)
        ends = np.cumsum([*[size] * r, r, *[size] * (r - 1)])[:-1]
        parts = np.split(G, ends, axis=1)
        powers, sums, products = parts[:r], parts[r], parts[r + 1 :]
        result = np.zeros_like(X)
        for k, g in enumerate(powers, start=1):  # x_j^k
            result += k * g * X ** (k - 1)
        through_s = sum(k * sums[:, k - 1 : k] * s ** (k - 1) for k in range(1, r + 1))
        for k, g in enumerate(products, start=1):  # x_j s^k
            result += g * s**k
            through_s = through_s + k * (g * X).sum(axis=1, keepdims=True) * s ** (k - 1)
        result += through_s
        return result

    def names(self, names: Sequence[str]) -> list[str]:
        """Return the names of the terms; Σ is the sum."""
        r = self.order
        result = [_power(name, k) for k in range(1, r + 1) for name in names]
        result += [_power("Σ", k) for k in range(1, r + 1)]
        return result + [f"{name} {_power('Σ', k)}" for k in range(1, r) for name in names]

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        r = self.order
        powers = [k * inputs + at for k in range(r)]
        sums = np.arange(r, dtype=np.intp) + r * inputs
        products = [r * inputs + r + k * inputs + at for k in range(r - 1)]
        return np.concatenate([*powers, sums, *products])


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
    check_integer("order", order)
    return 1 + order + features * (2 * order - 1) if reduced else comb(features + order, order)


def _of_degree(inputs: int, degree: int, distinct: bool) -> list[Factors]:
    choose = combinations if distinct else combinations_with_replacement
    return list(choose(range(inputs), degree))


@lru_cache(maxsize=32)
def monomial_factors(
    inputs: int, order: int, distinct: bool
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return, for each degree from 2 on, the first factor of its monomials, and the index of the
    product of the other factors among the monomials of the degree before.
    """
    result = []
    before = _of_degree(inputs, 1, distinct)
    for degree in range(2, order + 1):
        index = {factors: i for i, factors in enumerate(before)}
        before = _of_degree(inputs, degree, distinct)
        first = np.array([factors[0] for factors in before], dtype=np.intp)
        rest = np.array([index[factors[1:]] for factors in before], dtype=np.intp)
        result.append((first, rest))
    return result


@lru_cache(maxsize=64)
def _sums(inputs: int, order: int, distinct: bool, step: int, which: int) -> Any:
    """Return a sparse matrix that adds what monomials give to their first factors or the others."""
    from scipy.sparse import csr_array

    factors = monomial_factors(inputs, order, distinct)
    to = inputs if which == 0 or step == 0 else len(factors[step - 1][0])
    at = factors[step][which]
    return csr_array((np.ones(len(at)), at, np.arange(len(at) + 1)), (len(at), to))


def _power(name: str, k: int) -> str:
    return name if k == 1 else f"{name}^{k}"
