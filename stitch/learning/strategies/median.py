"""FedMedian: the median of each element over the sites.

Yin, Chen, Ramchandran, Bartlett: Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates,
ICML 2018, arXiv:1803.01498, option I.
"""

from __future__ import annotations

import numpy as np

from stitch.learning.part import Floats, Part
from stitch.learning.strategies.robust import Robust, sorted_candidates


class FedMedian(Robust):
    r"""The median of each element over the sites; with an even number the mean of the middle two.

        w_{t+1}[j] = median_i w_i[j]

    Sites count alike: a poisoned one could claim any number of samples.
    """

    def step(self, part: Part) -> Floats:
        """See the class."""
        rows = sorted_candidates(part)
        half = len(rows) // 2
        if len(rows) % 2:
            return np.add(rows[half], 0.0, dtype=np.float64)  # no zero keeps its sign
        middle: Floats = np.add(rows[half - 1], rows[half], dtype=np.float64)
        return middle * 0.5 + 0.0  # as above
