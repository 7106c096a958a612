"""Learners of the study by name: functions of a seed.

All learners get the same chunks and labels. Batch learners fit again after ``NIGHT`` rows, on all
rows so far unless their name states something else. Classes are balanced where a learner has an
option for it. Half-lives and windows are chosen by the same rule: the best progressive G-mean on
the last 1,000 rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from imblearn.ensemble import BalancedRandomForestClassifier, EasyEnsembleClassifier
from lightgbm import LGBMClassifier
from river import ensemble, forest, imblearn, tree
from sklearn.ensemble import HistGradientBoostingClassifier

from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.evaluate import RetrainedClassifier

from .other_learners import (
    ChosenClassifier,
    ClassRecodedRLS,
    LastLabel,
    MajorityClass,
    RefittedLightGBM,
    ResamplingBagging,
    ScaledClassifier,
    WeightedAROW,
)

NIGHT = 500  # rows between two fits
WINDOWS = (None, 1_000, 3_000)
HALF_LIVES = (None, 100.0, 500.0)  # in rows of the own class
TREES = 10  # of river's ensembles, as by default


def boost(seed: int) -> Any:
    """Return LightGBM with balanced classes, in one thread."""
    return LGBMClassifier(class_weight="balanced", random_state=seed, n_jobs=1, verbose=-1)


def nightly(make: Callable[[int], Any], **options: Any) -> Callable[[int], Any]:
    """Return a learner that fits again every night."""
    return lambda seed: RetrainedClassifier(make(seed), **{"every": NIGHT, **options})


def resample(make: Callable[[int], Any]) -> Callable[[int], Any]:
    """Return a learner of events that sees as many rows of both classes."""
    even = {0: 0.5, 1: 0.5}
    return lambda seed: imblearn.RandomUnderSampler(make(seed), desired_dist=even, seed=seed)


LEARNERS: dict[str, Callable[[int], Any]] = {
    "ridge": lambda seed: BalancedRidgeClassifier(),
    "ridge, half-life chosen": lambda seed: ChosenClassifier(
        {str(one): BalancedRidgeClassifier(half_life=one) for one in HALF_LIVES}
    ),
    "averaging": lambda seed: AutoClassifier(),
    "averaging, half-life chosen": lambda seed: ChosenClassifier(
        {str(one): AutoClassifier(half_life=one) for one in HALF_LIVES}
    ),
    "LightGBM, frozen": nightly(boost, every=None, first=NIGHT),
    "LightGBM, nightly": nightly(boost),
    "LightGBM, window chosen": lambda seed: ChosenClassifier(
        {
            str(window): RetrainedClassifier(boost(seed), every=NIGHT, window=window)
            for window in WINDOWS
        }
    ),
    "LightGBM, refitted": lambda seed: RefittedLightGBM(boost(seed), every=NIGHT),
    "HistGradientBoosting, nightly": nightly(
        lambda seed: HistGradientBoostingClassifier(class_weight="balanced", random_state=seed)
    ),
    "BalancedRandomForest, nightly": nightly(
        lambda seed: BalancedRandomForestClassifier(
            random_state=seed, sampling_strategy="all", replacement=True, bootstrap=False
        )
    ),
    "EasyEnsemble, every 4 nights": nightly(
        lambda seed: EasyEnsembleClassifier(random_state=seed), every=4 * NIGHT
    ),
    "ARF, resampled": resample(lambda seed: forest.ARFClassifier(seed=seed)),
    "SRP, resampled": resample(lambda seed: ensemble.SRPClassifier(n_models=TREES, seed=seed)),
    "leveraging bagging, resampled": resample(
        lambda seed: ensemble.LeveragingBaggingClassifier(
            tree.HoeffdingTreeClassifier(), n_models=TREES, seed=seed
        )
    ),
    "OOB": lambda seed: ResamplingBagging(tree.HoeffdingTreeClassifier, True, TREES, seed=seed),
    "UOB": lambda seed: ResamplingBagging(tree.HoeffdingTreeClassifier, False, TREES, seed=seed),
    "AROW, class weights": lambda seed: ScaledClassifier(WeightedAROW()),
    "class-recoded RLS": lambda seed: ScaledClassifier(ClassRecodedRLS()),
    "majority": lambda seed: MajorityClass(),
    "last label": lambda seed: LastLabel(),
}
TWO_CLASSES_ONLY = (
    "LightGBM, refitted", "ARF, resampled", "SRP, resampled", "leveraging bagging, resampled",
    "AROW, class weights",
)  # fmt: skip
ABLATIONS: dict[str, Callable[[int], Any]] = {
    "averaging": LEARNERS["averaging"],
    "averaging, 16 kept rows": lambda seed: AutoClassifier(kept_rows=16),
    "averaging, calibrated": lambda seed: AutoClassifier(calibrate=True),
    "averaging, linear candidates": lambda seed: AutoClassifier(candidates=["linear"]),
    "averaging, without landmarks": lambda seed: AutoClassifier(
        candidates=["linear", "pooled_rows=10", "ranks", "hinges", "rm2"]
    ),
    "ridge": LEARNERS["ridge"],
    "ridge, calibrated": lambda seed: BalancedRidgeClassifier(calibrate=True),
    "ridge, gcv": lambda seed: BalancedRidgeClassifier(ridge="gcv"),
    "ridge, ranks, gcv": lambda seed: BalancedRidgeClassifier(feature_map="ranks", ridge="gcv"),
    "ridge, unweighted": lambda seed: BalancedRidgeClassifier(class_weight=None),
}
