"""Learners by name for studies: functions from (X, y, X_test) to predicted labels."""

import numpy as np
from imblearn.ensemble import BalancedRandomForestClassifier
from river import forest, imblearn, tree
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from counterpoise import AutoClassifier, BalancedRidgeClassifier

GRID = {"svc__C": [0.1, 1.0, 10.0, 100.0], "svc__gamma": [0.1, 0.3, 1.0, 3.0]}


def g_mean(y, predicted):
    """Return the geometric mean of the recalls of the classes."""
    recalls = recall_score(y, predicted, labels=np.unique(y), average=None, zero_division=0.0)
    return float(np.prod(recalls) ** (1.0 / len(recalls)))


def online(make):
    """Learn the rows in one pass."""
    return lambda X, y, X_test: make().partial_fit(X, y).predict(X_test)


def batch(make):
    """Fit rows that are in memory."""
    return lambda X, y, X_test: make().fit(X, y).predict(X_test)


def add_scaler(make):
    """Fit rows after StandardScaler."""
    return batch(lambda: make_pipeline(StandardScaler(), make()))


def equal_priors(make):
    """Fit a discriminant analysis with equal priors after StandardScaler."""

    def run(X, y, X_test):
        c = len(np.unique(y))
        return add_scaler(lambda: make(priors=np.full(c, 1.0 / c)))(X, y, X_test)

    return run


def shared_rest(X, y, X_test):
    """One-vs-rest where every row of all other classes has the same weight, b = 1e-4."""
    one = RidgeClassifier(alpha=1e-4 * len(y) / 2.0, class_weight="balanced")
    return add_scaler(lambda: OneVsRestClassifier(one))(X, y, X_test)


def tune_svc(X, y):
    """Return a fitted search of C and gamma by 5-fold cross-validation for the G-mean."""
    folds = max(2, min(5, int(np.unique(y, return_counts=True)[1].min())))
    return GridSearchCV(
        make_pipeline(StandardScaler(), SVC(class_weight="balanced")),
        {**GRID, "svc__gamma": [g / X.shape[1] for g in GRID["svc__gamma"]]},
        scoring=make_scorer(g_mean),
        cv=StratifiedKFold(folds, shuffle=True, random_state=0),
    ).fit(X, y)


def cut(make):
    """Predict the class whose probability is largest relative to its frequency in training.

    With two classes this cuts the probability at the frequency of the positive class.
    """

    def run(X, y, X_test):
        model = make().fit(X, y)
        frequency = np.unique(y, return_counts=True)[1] / len(y)
        return model.classes_[np.argmax(model.predict_proba(X_test) / frequency, axis=1)]

    return run


def dicts(X):
    """Return rows as events of river."""
    return [dict(enumerate(row)) for row in X.tolist()]


def add_oversampling(make):
    """Learn as many positives as negatives, by river's sampling of the stream."""

    def run(X, y, X_test):
        even = {1.0: 0.5, -1.0: 0.5}
        model = imblearn.RandomOverSampler(make(), desired_dist=even, seed=0)
        for x, label in zip(dicts(X), y.tolist(), strict=True):
            model.learn_one(x, label)
        return np.array([model.predict_one(x) or -1.0 for x in dicts(X_test)])

    return run


def logistic(**options):
    """Return a logistic regression after StandardScaler."""
    return make_pipeline(StandardScaler(), LogisticRegression(**options))


LEARNERS = {
    "averaging": online(AutoClassifier),
    "linear": online(BalancedRidgeClassifier),
    "ovr": online(lambda: BalancedRidgeClassifier(multi_class="ovr")),
    "pooled_rows=100": online(lambda: BalancedRidgeClassifier(pooled_rows=100.0)),
    "pooled_rows=10": online(lambda: BalancedRidgeClassifier(pooled_rows=10.0)),
    "rff:400, gcv": online(lambda: BalancedRidgeClassifier(feature_map="rff:400", ridge="gcv")),
    "SVC, grid": lambda X, y, X_test: tune_svc(X, y).predict(X_test),
    "SVC": add_scaler(lambda: SVC(class_weight="balanced")),
    "Logistic, cut": cut(lambda: logistic(max_iter=2000)),
    "Logistic": batch(lambda: logistic(class_weight="balanced", max_iter=1000)),
    "HistGB, cut": cut(lambda: HistGradientBoostingClassifier(random_state=0)),
    "HistGB": batch(
        lambda: HistGradientBoostingClassifier(class_weight="balanced", random_state=0)
    ),
    "RF, cut": cut(lambda: RandomForestClassifier(300, random_state=0)),
    "balanced RF": batch(lambda: BalancedRandomForestClassifier(300, random_state=0)),
    "HT, over": add_oversampling(tree.HoeffdingTreeClassifier),
    "ARF, over": add_oversampling(lambda: forest.ARFClassifier(seed=0)),
    "shared rest": shared_rest,
    "Ridge": add_scaler(lambda: RidgeClassifier(class_weight="balanced")),
    "LDA": add_scaler(LinearDiscriminantAnalysis),
    "LDA, shrunk": equal_priors(
        lambda priors: LinearDiscriminantAnalysis("lsqr", shrinkage="auto", priors=priors)
    ),
    "QDA": equal_priors(
        lambda priors: QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=0.1, priors=priors)
    ),
}


def choose(*names):
    """Return some learners in this order."""
    return {name: LEARNERS[name] for name in names}


# Learners of a whole stream: functions from (X, y) to labels predicted before each was learned.


def progressive(make):
    """Score each row before it is learned."""
    return lambda X, y: np.where(make().progressive_scores(X, y, classes=[-1, 1]) > 0, 1, -1)


def doubling(fit, max_rows=10**9, first=256):
    """Fit a batch learner again, on all rows so far, whenever their number has doubled."""

    def run(X, y):
        predicted, at, model = np.full(len(y), -1), first, None
        while at < len(y):
            model = fit(X[:at], y[:at]) if at <= max_rows else model
            predicted[at : 2 * at] = model.predict(X[at : 2 * at])
            at *= 2
        return predicted

    return run


def tuned_svc(tuned_rows):
    """Return a fit of an SVC whose C and gamma are searched while the stream is short."""
    best = {}

    def fit(X, y):
        if len(y) > tuned_rows:
            model = make_pipeline(StandardScaler(), SVC(class_weight="balanced"))
            return model.set_params(**best).fit(X, y)
        search = tune_svc(X, y)
        best.update(search.best_params_)
        return search

    return fit


def events(make):
    """Predict and learn events one by one."""

    def run(X, y):
        model, predicted = make(), []
        for x, label in zip(dicts(X), y.tolist(), strict=True):
            predicted.append(model.predict_one(x) or -1)
            model.learn_one(x, label)
        return np.array(predicted)

    return run
