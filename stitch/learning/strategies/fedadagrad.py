"""FedAdagrad; the source is named in `fedopt`."""

from __future__ import annotations

from stitch.learning.part import Floats
from stitch.learning.strategies.fedopt import FedOpt


class FedAdagrad(FedOpt):
    r"""FedOpt with a second moment that only grows.

        v_t = v_{t-1} + D_t^2

    Args:
        server_lr, tau, weighted: see `FedOpt`.
        beta_1: 0 unless given, as in the paper's experiments: D_t itself is the first moment.
    """

    def __init__(
        self,
        *,
        server_lr: float = 0.1,
        beta_1: float = 0.0,
        tau: float = 1e-3,
        weighted: bool = True,
    ) -> None:
        super().__init__(server_lr=server_lr, beta_1=beta_1, tau=tau, weighted=weighted)

    def second_moment(self, before: Floats, squared: Floats) -> Floats:
        """See the class."""
        return before + squared
