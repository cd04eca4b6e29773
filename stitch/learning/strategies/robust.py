"""What the strategies against poisoned sites share: all sites' values of an element, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stitch.learning.specs import Array
from stitch.learning.streaming import Elementwise, Floats, NotFinite, Part


class Robust(Elementwise):
    """An element-wise strategy in which no site's number of samples counts: it could claim any.

    Integers and booleans are carried as the lower median over the sites.
    """

    together = True

    def average(self, part: Part) -> Floats:
        """Running statistics are treated like every other tensor."""
        return self.step(part)

    def carry(self, part: Part) -> Array:
        """The lower median of each element."""
        return lower_median([part.model(one) for one in part.results])


def lower_median(rows: Sequence[Array]) -> Array:
    """The middle value of each element; of an even number the lower of the middle two."""
    middle: Array = np.sort(np.stack(rows), axis=0)[(len(rows) - 1) // 2]
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
