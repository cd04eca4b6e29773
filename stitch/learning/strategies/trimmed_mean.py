"""The trimmed mean of each element over the sites.

Yin, Chen, Ramchandran, Bartlett: Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates,
ICML 2018, arXiv:1803.01498, option II.
"""

from __future__ import annotations

from stitch.learning.part import Floats, Part
from stitch.learning.strategies.robust import Robust, sorted_candidates
from stitch.learning.strategies.settings import within
from stitch.learning.streaming import weighted_sum


class TrimmedMean(Robust):
    r"""The mean of each element without its smallest and largest values.

        w_{t+1}[j] = 1 / (K - 2k) * sum of the K - 2k middle values of w_1[j] ... w_K[j],   k = floor(beta K)

    Sites count alike. With K < 1 / beta nothing is trimmed.

    Args:
        beta: the share that is cut off at each end, in [0, 0.5).
    """

    def __init__(self, *, beta: float = 0.2) -> None:
        self._beta = within("beta", beta, low=0.0, high=0.5, open_high=True)

    def step(self, part: Part) -> Floats:
        """See the class."""
        rows = sorted_candidates(part)
        # The share as it was written, not as a float has it: 0.29 of 100 sites are 29.
        cut = int(round(self._beta * len(rows), 9))
        middle = rows[cut : len(rows) - cut]
        terms = ((1.0, row) for row in middle)
        return weighted_sum(terms, size=part.stop - part.start) / float(len(middle))
