"""What Gaussian releases cost together: exact at full participation, nothing claimed for sampling.

A release adds N(0, (sigma C)^2) to each coordinate of a vector whose change is at most C in L2 norm.
T releases with sigma_1 ... sigma_T, each free to depend on those before it, are together exactly one
release with sigma = (sum sigma_i^-2)^(-1/2) (Dong, Roth, Su 2019, arXiv:1905.02383, corollary 3.3).
One release is (epsilon, delta)-differentially private exactly if

    delta >= Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu),    mu = 1/sigma

(Balle, Wang 2018, arXiv:1805.06530, theorem 8). Sites take part in every round and whoever is absent
was not drawn by lot, so there is no amplification by sampling to claim.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from stitch.errors import ConfigError

Adjacency = Literal["add_remove", "replace"]
"""What must not be told apart: a site's contribution there or not there; or any two data sets of it."""

MOST_EPSILON = 1e6
_MOST_PASSES = 1_000_000
_CONTINUED_FROM = 4.0
_TERMS = 160


@dataclass(frozen=True, slots=True)
class Budget:
    """What a data set may give away in all.

    Attributes:
        epsilon, delta: of differential privacy.
        adjacency: with "add_remove" one release changes by at most C, since a clipped contribution
            is compared with none; with "replace" by at most 2 C, since two clipped contributions are
            compared, whatever the data sets that they came from.

    Raises:
        ConfigError: a value is out of its range.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = "add_remove"

    def __post_init__(self) -> None:
        if not 0.0 < self.epsilon <= MOST_EPSILON:
            raise ConfigError(
                f"epsilon is {self.epsilon:g}", hint=f"Wanted: above 0, at most {MOST_EPSILON:g}."
            )
        if not 0.0 < self.delta < 1.0:
            raise ConfigError(f"delta is {self.delta:g}", hint="Wanted: above 0 and below 1, such as 1e-5.")

    def spent(self, sigmas: Iterable[float]) -> float:
        """The epsilon of releases with these noise multipliers, at this budget's delta."""
        return epsilon_of(effective(sigmas) / self._factor, delta=self.delta)

    def holds(self, sigmas: Iterable[float]) -> bool:
        """Whether these releases stay within the budget."""
        return delta_of(effective(sigmas) / self._factor, epsilon=self.epsilon) <= self.delta

    def noise(self, passes: int, *, spent: Iterable[float] = ()) -> float:
        """The least noise multiplier with which `passes` further releases stay within the budget.

        Args:
            passes: 1 or more.
            spent: noise multipliers of earlier releases of the same data set.

        Raises:
            ConfigError: the earlier releases leave nothing, or `passes` is no count.
        """
        if not 1 <= passes <= _MOST_PASSES:
            raise ConfigError(f"{passes} passes cannot be planned", hint="Wanted: 1 to 1000000.")
        gone = [*spent]
        left = (_most_mu(self.epsilon, self.delta) / self._factor) ** 2 - _squares(gone)
        if left <= 0.0 or not math.isfinite(left):
            raise ConfigError(
                f"nothing is left of epsilon {self.epsilon:g}: {len(gone)} earlier releases spent it",
                hint="No noise makes another release free: raise the budget, or use other data.",
            )
        sigma = math.sqrt(passes / left)
        while not self.holds([*gone, *[sigma] * passes]):
            sigma *= 1.0 + 1e-12
        return sigma

    def passes(self, sigma: float, *, spent: Iterable[float] = (), most: int = _MOST_PASSES) -> int:
        """How many further releases with this noise multiplier stay within the budget, up to `most`."""
        gone = _squares(spent)
        low, high = 0, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            total = gone + middle / sigma**2
            if delta_of(1.0 / (math.sqrt(total) * self._factor), epsilon=self.epsilon) <= self.delta:
                low = middle
            else:
                high = middle
        return low

    @property
    def _factor(self) -> float:
        return 2.0 if self.adjacency == "replace" else 1.0


def rounded_up(sigma: float) -> float:
    """A noise multiplier to four significant digits, never downward: the same number at every site."""
    scale = 10.0 ** (3 - math.floor(math.log10(sigma)))
    return math.ceil(sigma * scale) / scale


def effective(sigmas: Iterable[float]) -> float:
    """The noise multiplier of the one release that all these are together; infinite for none."""
    total = _squares(sigmas)
    return 1.0 / math.sqrt(total) if total > 0.0 else math.inf


def delta_of(sigma: float, *, epsilon: float) -> float:
    """The least delta of one release with noise multiplier `sigma`, at `epsilon` >= 0."""
    if math.isinf(sigma):
        return 0.0
    mu = 1.0 / sigma
    low, high = epsilon / mu - mu / 2.0, epsilon / mu + mu / 2.0
    # e^epsilon Phi(-high) is exp(-low^2 / 2) scaled(high), since high^2 - low^2 = 2 epsilon: no overflow.
    height = math.exp(-low * low / 2.0)
    if low >= 0.0:
        return max(0.0, height * (_scaled_tail(low) - _scaled_tail(high)))
    return min(1.0, max(0.0, 1.0 - height * (_scaled_tail(-low) + _scaled_tail(high))))


def epsilon_of(sigma: float, *, delta: float) -> float:
    """The least epsilon of one release with noise multiplier `sigma`, at `delta`; rounded up."""
    if delta_of(sigma, epsilon=0.0) <= delta:
        return 0.0
    mu = 1.0 / sigma
    low, high = 0.0, mu * mu / 2.0 + mu * math.sqrt(2.0 * math.log(1.0 / delta))
    while low < (middle := (low + high) / 2.0) < high:
        low, high = (low, middle) if delta_of(sigma, epsilon=middle) <= delta else (middle, high)
    return high


def _most_mu(epsilon: float, delta: float) -> float:
    """The largest mu = 1/sigma of one release that is (epsilon, delta)-private; rounded down."""
    low, high = 0.0, 1.0
    while delta_of(1.0 / high, epsilon=epsilon) <= delta:
        high *= 2.0
    while low < (middle := (low + high) / 2.0) < high:
        low, high = (middle, high) if delta_of(1.0 / middle, epsilon=epsilon) <= delta else (low, middle)
    return low


def _squares(sigmas: Iterable[float]) -> float:
    """The sum of sigma^-2: what composition adds up."""
    return math.fsum(sigma**-2 for sigma in sigmas)


def _scaled_tail(x: float) -> float:
    """e^(x^2/2) times the normal distribution's upper tail, for x >= 0."""
    if x < _CONTINUED_FROM:
        return math.exp(x * x / 2.0) * 0.5 * math.erfc(x / math.sqrt(2.0))
    fraction = x  # Laplace's continued fraction of Mills' ratio: 1/(x + 1/(x + 2/(x + ...)))
    for term in range(_TERMS, 0, -1):
        fraction = x + term / fraction
    return 1.0 / (fraction * math.sqrt(2.0 * math.pi))
