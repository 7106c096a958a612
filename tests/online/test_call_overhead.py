"""Work that calls do not repeat: quantiles are found once, states are copied array by array."""

from statistics import NormalDist

import numpy as np
import pytest

from counterpoise.online import ConfidenceWeighted, SoftConfidenceWeighted


@pytest.mark.parametrize("rule", [ConfidenceWeighted, SoftConfidenceWeighted])
def test_a_quantile_is_found_once_for_a_parameter(rule, monkeypatch):
    asked = []
    plain = NormalDist.inv_cdf

    def counting(self, p):
        asked.append(p)
        return plain(self, p)

    monkeypatch.setattr(NormalDist, "inv_cdf", counting)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 3)), np.arange(20) % 2
    model = rule(eta=0.8125)
    for _ in range(5):
        model.progressive_scores(X, y)
    assert len(asked) <= 1
    model.set_params(eta=0.6875).progressive_scores(X, y)
    assert len(asked) <= 2
    assert model._kernel()[1][0] == plain(NormalDist(), 0.6875)


def test_a_copy_of_a_state_shares_nothing_with_it():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((20, 3)), np.arange(20) % 2
    model = ConfidenceWeighted().partial_fit(X, y)
    before = [array.copy() for array in (model._state.w, model._state.S, model._state.z)]
    copied = model._state.copy()
    copied.w += 1.0
    copied.S += 1.0
    copied.z += 1.0
    after = (model._state.w, model._state.S, model._state.z)
    assert all(map(np.array_equal, before, after))
