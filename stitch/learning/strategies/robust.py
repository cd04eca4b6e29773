"""What the strategies against poisoned sites share: all sites' values of an element, side by side."""

from __future__ import annotations

import numpy as np

from stitch.learning.specs import Array
from stitch.learning.strategy import Round
from stitch.learning.streaming import Elementwise, Floats, NotFinite, Part


class Robust(Elementwise):
    """An element-wise strategy in which no site's number of samples counts: it could claim any.

    Integers and booleans are carried as the lower median over the sites.
    """

    together = True

    def average(self, part: Part) -> Floats:
        """Running statistics are treated like every other tensor."""
        return self.step(part)

    def buffer(self, round_: Round, name: str) -> Array:
        """The lower median of each element: with two or more sites right, none can set it alone."""
        stacked = np.stack([one.parameters.read(name).reshape(-1) for one in round_.results])
        middle: Array = np.sort(stacked, axis=0)[(len(round_.results) - 1) // 2]
        return middle


def sorted_candidates(part: Part) -> Array:
    """The sites' values of each element, rising; shape (sites, elements).

    Raises:
        NotFinite: a site's are not finite: sorted to an end, that could go unnoticed.
    """
    stacked = np.stack([part.candidate(one) for one in part.results])
    stacked.sort(axis=0)
    if not (np.isfinite(stacked[0]).all() and np.isfinite(stacked[-1]).all()):
        for one in part.results:
            if not np.isfinite(part.candidate(one)).all():
                raise NotFinite(one.site, part.name)
    return stacked
