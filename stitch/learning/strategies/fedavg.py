"""FedAvg: the mean of the sites' models.

McMahan, Moore, Ramage, Hampson, Aguera y Arcas: Communication-Efficient Learning of Deep Networks from
Decentralized Data, AISTATS 2017, arXiv:1602.05629, algorithm 1.
"""

from __future__ import annotations

from stitch.learning.part import Floats, Part
from stitch.learning.streaming import Elementwise, mean_model, shares_of


class FedAvg(Elementwise):
    r"""The mean of the sites' models, by samples or with every site alike.

        w_{t+1} = sum_i p_i w_i,   p_i = n_i / sum_j n_j   (weighted)   or   1 / K   (uniform)

    With an input from an older base b_i (buffered rounds) the mean is taken over changes, each against its
    own base, and the discount s_i <= 1 of the policy is not divided out again:

        w_{t+1} = w_t + sum_i p_i s_i (w_i - b_i)

    Args:
        weighted: by samples; else every site alike.
    """

    def __init__(self, *, weighted: bool = True) -> None:
        self._weighted = weighted

    def step(self, part: Part) -> Floats:
        """See the class."""
        return mean_model(part, weights=shares_of(part.results, weighted=self._weighted))
