"""FedProx: FedAvg at the lead, and at the sites a pull towards the global.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated Optimization in Heterogeneous Networks, MLSys 2020,
arXiv:1812.06127, equation 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from stitch.learning.specs import Array
from stitch.learning.strategies.fedavg import FedAvg
from stitch.learning.strategies.settings import MOST, within
from stitch.learning.strategy import NDArrays, Scalar
from stitch.learning.streaming import sum_of_squares


class FedProx(FedAvg):
    r"""FedAvg whose sites minimise their loss plus a proximal term.

        min_w  F_i(w) + (mu / 2) ||w - w_t||^2

    The lead computes FedAvg's mean; `fit` gets mu as `config["proximal_mu"]` and adds `proximal_term` to
    its loss, or `proximal_gradient` to its gradient.

    Args:
        proximal_mu: mu >= 0; 0 is FedAvg.
        weighted: see `FedAvg`.
    """

    def __init__(self, *, proximal_mu: float, weighted: bool = True) -> None:
        super().__init__(weighted=weighted)
        self._mu = within("proximal_mu", proximal_mu, low=0.0, high=MOST)

    def configure_fit(self, server_round: int, config: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """What stitch.toml says, and `proximal_mu`."""
        return {**super().configure_fit(server_round, config), "proximal_mu": self._mu}


def proximal_term(parameters: Sequence[Array], global_parameters: Sequence[Array], *, mu: float) -> float:
    """(mu / 2) ||w - w_t||^2 over all floating-point tensors.

    Args:
        parameters: w, the model in training.
        global_parameters: w_t, the global it began from, in the same order.
        mu: the strength.
    """
    squares = [
        sum_of_squares(np.subtract(own, start, dtype=np.float64).reshape(-1))
        for own, start in zip(parameters, global_parameters, strict=True)
        if own.dtype.kind == "f"
    ]
    return mu / 2.0 * math.fsum(squares)


def proximal_gradient(
    parameters: Sequence[Array], global_parameters: Sequence[Array], *, mu: float
) -> NDArrays:
    """Mu (w - w_t), tensor by tensor: what the proximal term adds to the gradient; zeros for integers."""
    return [
        ((own - start) * own.dtype.type(mu)) if own.dtype.kind == "f" else np.zeros_like(own)
        for own, start in zip(parameters, global_parameters, strict=True)
    ]
