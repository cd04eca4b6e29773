"""FedAvgM: FedAvg with momentum at the server.

Hsu, Qi, Brown: Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification, 2019, arXiv:1909.06335, section 4.3.
"""

from __future__ import annotations

import numpy as np

from stitch.learning.part import Floats, Part
from stitch.learning.strategies.settings import MOST, POSITIVE, within
from stitch.learning.streaming import Elementwise, mean_change, shares_of


class FedAvgM(Elementwise):
    r"""The mean change, gathered in a velocity that the next rounds go on with.

        D_t = sum_i p_i s_i (w_i - b_i)
        v_t = beta v_{t-1} + D_t,   v_0 = 0
        w_{t+1} = w_t + eta v_t

    The velocity v is published with the global (`outer_state`).

    Args:
        momentum: beta, in [0, 1).
        server_lr: eta.
        weighted: p_i by samples; else 1 / K.
    """

    slots = ("v",)

    def __init__(self, *, momentum: float = 0.9, server_lr: float = 1.0, weighted: bool = True) -> None:
        self._beta = within("momentum", momentum, low=0.0, high=1.0, open_high=True)
        self._lr = within("server_lr", server_lr, low=POSITIVE, high=MOST)
        self._weighted = weighted

    def step(self, part: Part) -> Floats:
        """See the class."""
        change = mean_change(part, weights=shares_of(part.results, weighted=self._weighted))
        velocity = self._beta * part.state("v") + change
        part.keep("v", velocity)
        moved: Floats = np.add(part.previous, self._lr * velocity, dtype=np.float64)
        return moved
