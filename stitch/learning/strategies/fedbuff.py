"""FedBuff: rounds over a buffer of passes, some of which began from an older global.

Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba: Federated Learning with Buffered Asynchronous
Aggregation, AISTATS 2022, arXiv:2106.06639, algorithm 1; run at scale as PAPAYA, MLSys 2022,
arXiv:2111.04877.
"""

from __future__ import annotations

import numpy as np

from stitch.learning.part import Floats, Part
from stitch.learning.strategies.settings import MOST, POSITIVE, within
from stitch.learning.streaming import Elementwise, mean_change, running_sum


class FedBuff(Elementwise):
    r"""The buffer's changes, each against its own base and discounted by its staleness.

        w_{t+1} = w_t + (eta / K) sum_i s(tau_i) c_i (w_i - b_i)

    tau_i is the global being replaced less the base of site i; s is the policy's `weighting`. K is a number
    of passes, not the sum of discounts: a batch of equally stale passes moves less than a fresh one.

    Args:
        server_lr: eta.
        weighted: c_i = n_i / mean(n); else 1.
        buffer_size: K, so that a round that closed over fewer passes moves less: each counts as it would in
            a full buffer. Of a round over more, K is their number, as it is of every round without it. As
            `[hooks] strategy` of a buffered run it is the policy's unless given.
    """

    def __init__(
        self, *, server_lr: float = 1.0, weighted: bool = False, buffer_size: int | None = None
    ) -> None:
        self._lr = within("server_lr", server_lr, low=POSITIVE, high=MOST)
        self._weighted = weighted
        self._k = None if buffer_size is None else within("buffer_size", buffer_size, low=1, high=MOST)

    def step(self, part: Part) -> Floats:
        """See the class."""
        count = float(len(part.results))
        shares = [1.0] * len(part.results)
        if self._weighted:
            mean = running_sum(one.n_samples for one in part.results) / count
            shares = [one.n_samples / mean for one in part.results]
        change = mean_change(part, weights=shares, denominator=max(self._k or count, count))
        moved: Floats = np.add(part.previous, self._lr * change, dtype=np.float64)
        return moved
