"""What Gaussian releases cost, against numerical integrals of the two densities.

The closed form is not used here: the loss of privacy is integrated on a grid. A third computation,
dp-accounting's, is in tests/oracle.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stitch.errors import ConfigError
from stitch.rounds.accountant import Adjacency, Budget, delta_of, effective, epsilon_of

DELTA = 1e-5


def divergence(sigma: float, epsilon: float, *, shift: float = 1.0) -> float:
    """The hockey-stick divergence of N(shift, sigma^2) from N(0, sigma^2), by the midpoint rule."""
    steps, reach = 40_000, 14.0
    width = (2 * reach * sigma + shift) / steps
    total = 0.0
    for step in range(steps):
        x = -reach * sigma + (step + 0.5) * width
        with_it = math.exp(-(((x - shift) / sigma) ** 2) / 2)
        without = math.exp(-((x / sigma) ** 2) / 2)
        total += max(0.0, with_it - math.exp(epsilon) * without)
    return total * width / (sigma * math.sqrt(2 * math.pi))


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.5, 3.0), (1.0, 0.0), (1.0, 4.377), (4.0, 0.2)])
def test_delta_is_the_area_by_which_one_density_exceeds_the_other(sigma: float, epsilon: float) -> None:
    assert delta_of(sigma, epsilon=epsilon) == pytest.approx(divergence(sigma, epsilon), rel=2e-4)


def test_composition_is_that_of_vectors_with_one_coordinate_a_release() -> None:
    """Releases side by side are one Gaussian vector; along the line between the means its noise is 1."""
    sigmas = [1.5, 2.0, 4.0]
    distance = math.hypot(*(1 / sigma for sigma in sigmas))
    assert delta_of(effective(sigmas), epsilon=1.0) == pytest.approx(
        divergence(1.0, 1.0, shift=distance), rel=2e-4
    )


@pytest.mark.parametrize(
    ("sigma", "passes", "adjacency", "wanted"),
    [
        (1, 1, "add_remove", 4.377),
        (2, 10, "add_remove", 7.511),
        (5, 10, "add_remove", 2.594),
        (2, 10, "replace", 17.86),
    ],
)
def test_published_figures(sigma: float, passes: int, adjacency: Adjacency, wanted: float) -> None:
    spent = Budget(8, DELTA, adjacency).spent([sigma] * passes)
    assert spent == pytest.approx(wanted, abs=6e-4 if wanted < 10 else 6e-3)


def test_the_usual_defaults_permit_two_of_a_hundred_passes() -> None:
    budget = Budget(8, DELTA)
    assert budget.passes(1.0, most=100) == 2
    assert budget.noise(100) == pytest.approx(6.0, abs=0.01)


@given(
    epsilon=st.floats(0.05, 60),
    delta=st.floats(1e-12, 0.05),
    passes=st.integers(1, 400),
    spent=st.lists(st.floats(30, 200), max_size=3),
    adjacency=st.sampled_from(["add_remove", "replace"]),
)
def test_planned_noise_is_enough_and_a_little_less_is_not(
    epsilon: float, delta: float, passes: int, spent: list[float], adjacency: Adjacency
) -> None:
    budget = Budget(epsilon, delta, adjacency)
    try:
        sigma = budget.noise(passes, spent=spent)
    except ConfigError:
        assert not budget.holds([*spent, 1e6])
        return
    assert budget.holds([*spent, *[sigma] * passes])
    assert not budget.holds([*spent, *[sigma * (1 - 1e-6)] * passes])
    assert budget.passes(sigma * (1 + 1e-9), spent=spent, most=passes + 5) == passes
    assert budget.spent([*spent, *[sigma] * passes]) == pytest.approx(epsilon, rel=1e-6)


def test_nothing_released_costs_nothing() -> None:
    assert Budget(8, DELTA).spent([]) == 0.0
    assert epsilon_of(1e9, delta=DELTA) == 0.0


@pytest.mark.parametrize("sigma", [1e-3, 1e-2, 40.0, 1e5])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 700.0, 5e5])
def test_far_out_values_stay_probabilities_and_fall_with_epsilon(sigma: float, epsilon: float) -> None:
    here, beyond = delta_of(sigma, epsilon=epsilon), delta_of(sigma, epsilon=epsilon + 1)
    assert 0.0 <= beyond <= here <= 1.0


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 1e-5), (-1, 1e-5), (math.nan, 1e-5), (8, 0), (8, 1)])
def test_a_budget_that_means_nothing_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ConfigError):
        Budget(epsilon, delta)
