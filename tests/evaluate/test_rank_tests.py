"""Ranks and tests over data sets, equal to those of SciPy, scikit-posthocs and baycomp."""

import numpy as np
import pytest
import scikit_posthocs
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from counterpoise.evaluate import (
    bayesian_signed_rank,
    compare_ranks,
    plot_ranks,
    wilcoxon_holm,
)
from counterpoise.evaluate.rank_tests import critical_difference, similar_groups, wilcoxon_p

RNG = np.random.default_rng(3)


@pytest.mark.slow
@given(st.integers(0, 10_000), st.integers(3, 8), st.integers(4, 31))
def test_friedman_is_scipys_and_nemenyi_is_scikit_posthocs(seed, k, n):
    values = np.random.default_rng(seed).random((n, k)).round(1)  # with ties
    names = [str(j) for j in range(k)]
    found = compare_ranks(values, names, "high")
    theirs = stats.friedmanchisquare(*values.T)
    if np.isfinite(theirs.statistic):
        assert found.statistic == pytest.approx(theirs.statistic, rel=1e-12)
        assert found.p == pytest.approx(theirs.pvalue, rel=1e-9)
    # Their p-values follow the critical difference: below 0.05 if and only if ranks differ more.
    p = scikit_posthocs.posthoc_nemenyi_friedman(values).to_numpy()
    assert np.allclose(p, found.nemenyi_p)
    mean = found.ranks.mean(axis=0)
    apart = np.abs(np.subtract.outer(mean, mean))
    clear = np.abs(apart - found.difference) > 1e-6
    assert ((p < 0.05) == (apart > found.difference))[clear].all()


def test_the_critical_difference_is_the_tabled_one():
    # Demšar 2006, table 5: q of 0.05 for 2 to 10 classifiers.
    tabled = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]
    for k, q in enumerate(tabled, 2):
        assert critical_difference(k, 31) == pytest.approx(q * np.sqrt(k * (k + 1) / 186), abs=5e-4)


def test_low_is_the_mirror_of_high():
    values = RNG.random((9, 4))
    high, low = (
        compare_ranks(values, list("abcd"), "high"),
        compare_ranks(-values, list("abcd"), "low"),
    )
    assert high.average == low.average
    with pytest.raises(ValueError, match="best must be"):
        compare_ranks(values, list("abcd"), "best")
    with pytest.raises(ValueError, match="three methods"):
        compare_ranks(values[:, :2], ["a", "b"], "high")
    for names in (["a", "b"], list("abca")):
        with pytest.raises(ValueError, match="different names"):
            compare_ranks(values, names, "high")
    with pytest.raises(ValueError, match="not finite"):
        compare_ranks(values * np.nan, list("abcd"), "low")


def test_groups_are_maximal_and_have_two_at_least():
    assert similar_groups({"a": 1.0, "b": 1.5, "c": 2.4, "d": 5.0}, 1.0) == [["a", "b"], ["b", "c"]]
    assert similar_groups({"a": 1.0, "b": 1.5, "c": 1.9}, 1.0) == [["a", "b", "c"]]
    assert similar_groups({"a": 1.0, "b": 3.0}, 1.0) == []


def test_the_diagram_names_everybody_and_its_difference():
    found = compare_ranks(RNG.random((9, 4)), ["RLS", "NR-RLS", "PE", "CW"], "high")
    axes = plot_ranks(found).axes[0]
    text = " ".join(t.get_text() for t in axes.texts) + axes.get_title()
    assert all(name in text for name in found.names)
    assert f"{found.difference:.3f}" in text


def test_pairs_are_wilcoxons_and_corrected_step_by_step():
    rng = np.random.default_rng(0)
    values = rng.random((30, 5)) - np.array([0.0, 0.05, 0.1, 0.3, 0.0])
    names = list("abcde")
    bare = {m: stats.wilcoxon(values[:, 0], values[:, j]).pvalue for j, m in enumerate(names) if j}
    found = wilcoxon_holm(values, names, "a")
    assert list(found) == sorted(bare, key=bare.get)
    # Holm: from the smallest on, until one is not below α divided by how many are left.
    for alpha in (0.001, 0.01, 0.05, 0.2, 0.5):
        rejected = []
        for i, m in enumerate(sorted(bare, key=bare.get)):
            if (len(bare) - i) * bare[m] >= alpha:
                break
            rejected.append(m)
        assert [m for m, p in found.items() if p < alpha] == rejected
    assert wilcoxon_p(values[:, 0], values[:, 0]) == 1.0
    assert max(found.values()) <= 1.0


# Results of baycomp 1.0.3, SignedRankTest with 50,000 samples and random_state=seed, for rows of
# (seed, sets, rope). It is not a dependency, because it installs a package called tests.
BAYCOMP = {
    (0, 5, 0.01): (0.3738, 0.2040, 0.4222),
    (1, 12, 0.01): (0.0089, 0.2369, 0.7541),
    (2, 12, 0.005): (0.2260, 0.0557, 0.7183),
    (3, 30, 0.01): (0.0045, 0.2776, 0.7179),
    (4, 30, 0.05): (0.0, 1.0, 0.0),
    (5, 40, 0.002): (0.9804, 0.0, 0.0196),
}


@pytest.mark.parametrize("table", BAYCOMP)
def test_the_posterior_is_baycomps(table):
    seed, n, rope = table
    rng = np.random.default_rng(seed)
    one = rng.normal(0.8, 0.05, n)
    other = one + rng.normal(rng.normal(0.0, 0.01), 0.03, n)
    mine = bayesian_signed_rank(one, other, rope, seed)
    # Both are shares of 50,000 samples, whose standard error is at most 0.0022.
    assert mine == pytest.approx(BAYCOMP[table], abs=0.01)
    mirrored = bayesian_signed_rank(other, one, rope, seed)
    assert mine == pytest.approx(mirrored[::-1], abs=1e-12)  # the same samples


def test_equal_methods_are_equivalent():
    values = RNG.random(12)
    assert bayesian_signed_rank(values, values) == (0.0, 1.0, 0.0)
    assert bayesian_signed_rank(values, values + 1.0).worse == pytest.approx(1.0, abs=1e-3)
