"""What FedAdagrad, FedAdam and FedYogi share: an adaptive optimiser at the server.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan: Adaptive Federated Optimization, ICLR 2021,
arXiv:2003.00295, algorithm 2.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from stitch.learning.part import Floats, Part
from stitch.learning.strategies.settings import MOST, POSITIVE, within
from stitch.learning.streaming import Elementwise, mean_change, shares_of


class FedOpt(Elementwise):
    r"""The mean change as a pseudo-gradient, each element with a step of its own.

        D_t = sum_i p_i s_i (w_i - b_i)
        m_t = beta_1 m_{t-1} + (1 - beta_1) D_t,   m_0 = 0
        v_t = what the subclass says of v_{t-1} and D_t^2,   v_0 = tau^2
        w_{t+1} = w_t + eta m_t / (sqrt(v_t) + tau)

    As in the paper there is no bias correction: v begins at tau^2 instead. The state m, v is published with
    the global (`outer_state`).

    Args:
        server_lr: eta.
        beta_1: of the first moment, in [0, 1).
        tau: how little adaptivity: the larger, the more alike the steps of all elements.
        weighted: p_i by samples; else 1 / K.
        beta_2: of the second moment, in [0, 1), where the subclass has one.
    """

    slots = ("m", "v")

    def __init__(
        self, *, server_lr: float, beta_1: float, tau: float, weighted: bool, beta_2: float = 0.0
    ) -> None:
        self._lr = within("server_lr", server_lr, low=POSITIVE, high=MOST)
        self._beta_1 = within("beta_1", beta_1, low=0.0, high=1.0, open_high=True)
        self._tau = within("tau", tau, low=POSITIVE, high=MOST)
        self._weighted = weighted
        self._beta_2 = within("beta_2", beta_2, low=0.0, high=1.0, open_high=True)

    @abstractmethod
    def second_moment(self, before: Floats, squared: Floats) -> Floats:
        """v_t from v_{t-1} and D_t^2."""

    def step(self, part: Part) -> Floats:
        """See the class."""
        change = mean_change(part, weights=shares_of(part.results, weighted=self._weighted))
        first = self._beta_1 * part.state("m") + (1.0 - self._beta_1) * change
        second = self.second_moment(part.state("v", first=self._tau * self._tau), change * change)
        part.keep("m", first)
        part.keep("v", second)
        moved: Floats = np.add(
            part.previous, self._lr * first / (np.sqrt(second) + self._tau), dtype=np.float64
        )
        return moved
