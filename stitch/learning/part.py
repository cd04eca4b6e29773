"""A range of one tensor at all sites, as a strategy that goes tensor by tensor sees it."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stitch.learning.specs import Array
from stitch.learning.strategy import FitResult, NotFinite, Round
from stitch.learning.tensors import ModelReader

Floats: TypeAlias = NDArray[np.float64]


class Part:
    """One range of one floating-point tensor, at all sites and in the global being replaced.

    Args:
        round_: what is read.
        name: of the tensor.
        start, stop: the range, in elements.
    """

    def __init__(self, round_: Round, name: str, *, start: int, stop: int) -> None:
        self.results = round_.results
        self.name, self.start, self.stop = name, start, stop
        self._round = round_
        self._bases: dict[object, Array] = {}
        self._kept: dict[str, Floats] = {}

    @property
    def previous(self) -> Array:
        """The global being replaced."""
        return self._once(self._round.global_path, self._round.previous)

    def model(self, result: FitResult) -> Array:
        """A site's values."""
        return result.parameters.read_range(self.name, start=self.start, stop=self.stop)

    def change(self, result: FitResult) -> Floats:
        """A site's values less those of its own base."""
        return np.subtract(self.model(result), self.base(result), dtype=np.float64)

    def candidate(self, result: FitResult) -> Array:
        """A site's values; those from an older base carried over to the global being replaced."""
        if result.staleness == 0:
            return self.model(result)
        moved: Array = np.add(self.previous, self.change(result), dtype=np.float64)
        return moved

    def wrong(self, result: FitResult) -> NotFinite:
        """What is said of a site whose candidate is not finite."""
        return NotFinite(result.site, self.name, made=bool(np.isfinite(self.model(result)).all()))

    def unmoved(self) -> Part:
        """The same range, had no site changed anything."""
        return _Unmoved(self._round, self.name, start=self.start, stop=self.stop)

    def without(self, result: FitResult) -> Part:
        """The same range without a site."""
        part = Part(self._round, self.name, start=self.start, stop=self.stop)
        part.results = [one for one in self.results if one is not result]
        return part

    def state(self, slot: str, *, first: float = 0.0) -> Floats:
        """The strategy's state of these elements; `first` before there is one."""
        if self._round.outer is None:
            return np.full(self.stop - self.start, first)
        name = state_name(slot, self.name)
        return self._round.outer.read_range(name, start=self.start, stop=self.stop).astype(np.float64)

    def keep(self, slot: str, values: Floats) -> None:
        """The state of these elements for the next round."""
        self._kept[slot] = values

    @property
    def kept(self) -> dict[str, Floats]:
        """What `keep` was given."""
        return self._kept

    def base(self, result: FitResult) -> Array:
        """The values that a site began from."""
        return self.previous if result.staleness == 0 else self._once(result.base_path, result.base)

    def _once(self, key: object, model: ModelReader) -> Array:
        if key not in self._bases:
            self._bases[key] = model.read_range(self.name, start=self.start, stop=self.stop)
        return self._bases[key]


class _Unmoved(Part):
    def model(self, result: FitResult) -> Array:
        return self.base(result)


def state_name(slot: str, name: str) -> str:
    """How a tensor of the strategy's state is named."""
    return f"{slot}.{name}"
