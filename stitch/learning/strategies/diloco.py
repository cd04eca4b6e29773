"""DiLoCo: many steps at the sites, one Nesterov step at the lead.

Douillard, Feng, Rusu, Chhaparia, Donchev, Kuncoro, Ranzato, Szlam, Shen: DiLoCo: Distributed
Low-Communication Training of Language Models, 2023, arXiv:2311.08105, algorithm 1; the outer step as
RFC-0013 of Lensemble has it.
"""

from __future__ import annotations

import numpy as np

from stitch.learning.part import Floats, Part
from stitch.learning.strategies.settings import MOST, POSITIVE, within
from stitch.learning.streaming import Elementwise, mean_change, shares_of


class DiLoCo(Elementwise):
    r"""The outer optimiser of DiLoCo: Nesterov momentum on the sites' mean change.

        m_t = (1 / C_t) sum_i s_i (w_i - b_i)
        v_t = beta v_{t-1} + m_t,   v_0 = 0
        u_t = m_t + beta v_t
        w_{t+1} = w_t + eta u_t

    C_t is the number of sites in the round; sites count alike. The velocity v is an input of the step like
    the models are: it is published with the global (`outer_state`) and hashed.

    Args:
        outer_lr: eta.
        outer_momentum: beta, in [0, 1).
        weighted: by samples instead of alike.
    """

    slots = ("v",)

    def __init__(self, *, outer_lr: float = 0.7, outer_momentum: float = 0.9, weighted: bool = False) -> None:
        self._lr = within("outer_lr", outer_lr, low=POSITIVE, high=MOST)
        self._beta = within("outer_momentum", outer_momentum, low=0.0, high=1.0, open_high=True)
        self._weighted = weighted

    def step(self, part: Part) -> Floats:
        """See the class."""
        mean = mean_change(part, weights=shares_of(part.results, weighted=self._weighted))
        velocity = self._beta * part.state("v") + mean
        part.keep("v", velocity)
        moved: Floats = np.add(part.previous, self._lr * (mean + self._beta * velocity), dtype=np.float64)
        return moved
