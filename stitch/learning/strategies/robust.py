"""What the strategies against poisoned sites share: all sites' values of an element, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stitch.learning.part import Floats, Part
from stitch.learning.specs import Array
from stitch.learning.streaming import Elementwise


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
    return sort_elements(list(rows))[(len(rows) - 1) // 2]


def sort_elements(rows: list[Array]) -> list[Array]:
    """The rows' values of each element in rising order; the arrays are overwritten.

    Batcher's odd-even merge sort: whole rows are compared with whole rows, several times faster than
    sorting column by column. Which of two zeros comes first is left to the processor, so that their
    signs must not reach a result.

    Batcher: Sorting Networks and their Applications, AFIPS 1968.
    """
    spare = np.empty_like(rows[0])
    for low, high in _comparisons(len(rows)):
        np.minimum(rows[low], rows[high], out=spare)
        np.maximum(rows[low], rows[high], out=rows[high])
        rows[low], spare = spare, rows[low]
    return rows


def _comparisons(count: int) -> Iterator[tuple[int, int]]:
    width = 1
    while width < count:
        step = width
        while step >= 1:
            for start in range(step % width, count - step, 2 * step):
                for low in range(start, min(start + step, count - step)):
                    if low // (2 * width) == (low + step) // (2 * width):
                        yield low, low + step
            step //= 2
        width *= 2


def sorted_candidates(part: Part) -> list[Array]:
    """The sites' values of each element in rising order: one array a place in that order.

    Raises:
        NotFinite: a site's are not finite: sorted to an end, that could go unnoticed.
    """
    rows = [part.candidate(one) for one in part.results]
    wide = np.result_type(*rows)  # what was carried over is float64
    rows = sort_elements([row.astype(wide, copy=False) for row in rows])
    if not (np.isfinite(rows[0]).all() and np.isfinite(rows[-1]).all()):
        for one in part.results:
            if not np.isfinite(part.candidate(one)).all():
                raise part.wrong(one)
    return rows
