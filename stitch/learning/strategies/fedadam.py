"""FedAdam; the source is named in `fedopt`."""

from __future__ import annotations

from stitch.learning.part import Floats
from stitch.learning.strategies.fedopt import FedOpt


class FedAdam(FedOpt):
    r"""FedOpt with Adam's second moment.

        v_t = beta_2 v_{t-1} + (1 - beta_2) D_t^2

    Args:
        server_lr, beta_1, beta_2, tau, weighted: see `FedOpt`.
    """

    def __init__(
        self,
        *,
        server_lr: float = 0.1,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        tau: float = 1e-3,
        weighted: bool = True,
    ) -> None:
        super().__init__(server_lr=server_lr, beta_1=beta_1, beta_2=beta_2, tau=tau, weighted=weighted)

    def second_moment(self, before: Floats, squared: Floats) -> Floats:
        """See the class."""
        return self._beta_2 * before + (1.0 - self._beta_2) * squared
