"""The noise: its law, its lattice, and that nobody can draw it again.

Sizes are such that a sound generator fails a test once in a million runs or less.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from stitch.privacy.noise import Noise

COUNT = 200_000


@pytest.mark.parametrize("std", [1e-7, 0.37, 1.0, 5e4])
def test_draws_follow_the_normal_law(std: float) -> None:
    """Kolmogorov and Smirnov's distance against the standard library's normal distribution."""
    noise = Noise(std)
    draws = np.sort(noise.draw(COUNT) * noise.step) / std
    law = NormalDist()
    spots = range(0, COUNT, 97)
    distance = max(abs(law.cdf(float(draws[i])) - (i + 0.5) / COUNT) for i in spots)
    assert distance < 2.7 / math.sqrt(COUNT)
    assert abs(float(np.mean(draws**4)) - 3) < 0.25
    assert float(np.abs(draws).max()) > 4


def test_neighbouring_draws_do_not_know_of_one_another() -> None:
    noise = Noise(1.0)
    draws = noise.draw(COUNT) * noise.step
    half = COUNT // 2
    for one, other in (
        (draws[:-1], draws[1:]),
        (draws[:half], draws[half:]),
        (draws[:half] ** 2, draws[half:] ** 2),
    ):
        assert abs(float(np.corrcoef(one, other)[0, 1])) < 5 / math.sqrt(half)


def test_every_result_lies_on_one_lattice_whatever_the_value_was() -> None:
    """So no result is possible for one value and impossible for another, as floating-point noise allows."""
    noise = Noise(0.3)
    for value in (0.0, 1 / 3, -math.pi, 1e-9):
        steps = noise.whole(np.full(1000, value)) + noise.draw(1000)
        assert np.array_equal(steps, np.rint(steps))
        assert float(np.abs(steps).max()) < 2**52
        assert np.array_equal(steps * noise.step / noise.step, steps)
    assert 2.0**-31 < noise.step / 0.3 <= 2.0**-30


def test_truncation_makes_no_vector_longer() -> None:
    noise = Noise(1.0)
    values = np.random.default_rng(7).normal(size=10_000) * 1e-8
    cut = noise.whole(values) * noise.step
    assert np.all(np.abs(cut) <= np.abs(values))
    assert np.all(np.abs(values - cut) < noise.step)


def test_no_two_generators_share_a_draw() -> None:
    assert not np.intersect1d(Noise(1.0).draw(1000), Noise(1.0).draw(1000)).size > 2


def test_odd_and_empty_counts_are_drawn_too() -> None:
    noise = Noise(1.0)
    assert [noise.draw(count).shape for count in (0, 1, 7)] == [(0,), (1,), (7,)]
