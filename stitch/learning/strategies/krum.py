"""Krum and Multi-Krum: the models that lie closest to their neighbours.

Blanchard, El Mhamdi, Guerraoui, Stainer: Machine Learning with Adversaries: Byzantine Tolerant Gradient
Descent, NeurIPS 2017, arXiv:1703.02757, section 4.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from stitch.errors import ConfigError
from stitch.learning.part import Floats, Part
from stitch.learning.specs import Array
from stitch.learning.strategies.robust import Robust, lower_median
from stitch.learning.strategies.settings import MOST, within
from stitch.learning.strategy import FitResult, Round
from stitch.learning.streaming import ranges, sum_of_squares, total, weighted_sum

_ELEMENTS = 1 << 20  # of all sites' ranges together


class MultiKrum(Robust):
    r"""The mean of the `keep` models whose nearest neighbours are nearest.

        score(i) = sum of ||w_i - w_j||^2 over the K - f - 2 models j closest to w_i
        w_{t+1} = mean of the `keep` models of the smallest scores (equal scores: by site id)

    It withstands f poisoned sites if 2f + 2 < K. Distances run over all floating-point tensors. Sites count
    alike. Integers and booleans are carried as the lower median of the chosen.

    Args:
        byzantine: f.
        keep: how many models are averaged; all K - f unless given.
    """

    def __init__(self, *, byzantine: int = 1, keep: int | None = None) -> None:
        self._f = int(within("byzantine", byzantine, low=0, high=MOST))
        self._keep = None if keep is None else int(within("keep", keep, low=1, high=MOST))
        self._chosen: list[FitResult] = []

    def prepare(self, round_: Round) -> dict[str, float]:
        """Score the models and choose.

        Raises:
            ConfigError: too few sites for f.
            NotFinite: a site's model is not finite.
        """
        count = len(round_.results)
        if count < 2 * self._f + 3:
            raise ConfigError(
                f"Krum with byzantine = {self._f} has {count} sites",
                hint=f"It needs {2 * self._f + 3}: lower byzantine, or require more sites in [policy].",
            )
        scores = krum_scores(distances(round_), nearest=count - self._f - 2)
        keep = count - self._f if self._keep is None else min(self._keep, count)
        ranked = sorted(range(count), key=lambda place: (scores[place], place))
        self._chosen = [round_.results[place] for place in sorted(ranked[:keep])]
        return {f"chosen.{one.site}"[:64]: 1.0 for one in self._chosen[:32]}

    def counted(self, part: Part) -> list[FitResult]:  # noqa: ARG002  the same in every range
        """The chosen."""
        return self._chosen

    def step(self, part: Part) -> Floats:
        """See the class."""
        terms = ((1.0, part.candidate(one)) for one in self._chosen)
        return weighted_sum(terms, size=part.stop - part.start) / float(len(self._chosen))

    def carry(self, part: Part) -> Array:
        """The lower median over the chosen."""
        return lower_median([part.model(one) for one in self._chosen])


class Krum(MultiKrum):
    """The one model whose nearest neighbours are nearest; see `MultiKrum`.

    Args:
        byzantine: f.
    """

    def __init__(self, *, byzantine: int = 1) -> None:
        super().__init__(byzantine=byzantine, keep=1)


def distances(round_: Round) -> dict[tuple[int, int], float]:
    """The squared distances between the models of each two sites, by their places in the round.

    Raises:
        NotFinite: a site's model is not finite.
    """
    count = len(round_.results)
    found: dict[tuple[int, int], list[float]] = {pair: [] for pair in combinations(range(count), 2)}
    length = max(1 << 10, _ELEMENTS // count)
    for name, spec in round_.previous.specs.items():
        if not spec.floating:
            continue
        for start, stop in ranges(spec.size, length=length):
            part = Part(round_, name, start=start, stop=stop)
            with np.errstate(over="ignore"):  # a distance that no double holds is infinite
                rows = [part.candidate(one) for one in round_.results]
                for result, row in zip(round_.results, rows, strict=True):
                    if not np.isfinite(row).all():
                        raise part.wrong(result)
                for (one, other), parts in found.items():
                    parts.append(sum_of_squares(np.subtract(rows[one], rows[other], dtype=np.float64)))
    return {pair: total(parts) for pair, parts in found.items()}


def krum_scores(apart: dict[tuple[int, int], float], *, nearest: int) -> list[float]:
    """Each site's sum of its `nearest` smallest squared distances."""
    count = 1 + max(other for _, other in apart)
    rows: list[list[float]] = [[] for _ in range(count)]
    for (one, other), distance in apart.items():
        rows[one].append(distance)
        rows[other].append(distance)
    return [total(sorted(row)[:nearest]) for row in rows]
