"""The walk over a model's tensors, a range of elements at a time: memory does not grow with the sites.

Bitwise reproducible on every machine: sites in the order of their ids' bytes, one multiplication and
one addition a site in float64, one division, one cast at the end; sums over elements are halved by
element-wise additions. None of BLAS, `numpy.sum` or `numpy.exp` is used: their last bits depend on the
processor.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import ClassVar

import numpy as np

from stitch.errors import BadModel
from stitch.learning.behind import WriteBehind
from stitch.learning.in_memory import aggregate_arrays
from stitch.learning.part import Floats, Part, state_name
from stitch.learning.specs import Array, Spec
from stitch.learning.strategy import FitResult, NDArrays, NotFinite, Round, Strategy

RANGE = 1 << 18
"""Elements of one range where sites are looked at one by one: 2 MiB of float64."""

_TOGETHER = 1 << 21  # elements of all sites' ranges together, where they are looked at side by side
_LEAST = 1 << 10


def state_spec(spec: Spec) -> Spec:
    """Shape and dtype of a tensor's state: its own dtype, but at least float32."""
    return Spec(spec.shape, np.dtype(np.float64 if spec.dtype.itemsize == 8 else np.float32))


def weighted_sum(terms: Iterable[tuple[float, Array]], *, size: int) -> Floats:
    """The sum of `weight * values`, one term after the other, in float64; shape (size,)."""
    total = np.zeros(size)
    scaled = np.empty(size)
    for weight, values in terms:
        np.copyto(scaled, values)  # casting within the product takes longer
        np.multiply(scaled, weight, out=scaled)
        np.add(total, scaled, out=total)
    return total


def sum_of_squares(values: Floats) -> float:
    """The sum of the squares, the same on every machine; `values` is overwritten.

    Halves are added to halves, element by element, until few are left for `total`.
    """
    np.multiply(values, values, out=values)
    while values.size > 64:
        half = values.size // 2
        odd = values[2 * half :].copy()
        np.add(values[:half], values[half : 2 * half], out=values[:half])
        values[half : half + odd.size] = odd
        values = values[: half + odd.size]
    return total(values.tolist())


def total(parts: Iterable[float]) -> float:
    """The sum of numbers that are not negative, rounded once; infinite where a double cannot hold it.

    `math.fsum` raises there: a site whose numbers are all finite could end everybody's round.
    """
    try:
        return math.fsum(parts)
    except OverflowError:
        return math.inf


def ranges(size: int, *, length: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of at most `length` that cover `size` elements."""
    for start in range(0, size, length):
        yield start, min(start + length, size)


class Elementwise(Strategy):
    """A strategy that makes each element of the new global from the same element of the models.

    Floating-point tensors are computed; tensors whose names end in one of `averaged` are averaged where
    a strategy would step them. Integers and booleans are taken over by `carry`, text from the global.

    Attributes:
        slots: names of the state that it keeps of every tensor it steps.
        together: whether it looks at all sites' values of an element side by side.
        averaged: endings of the names of running statistics (of batch normalisation): a step with
            momentum could make a variance negative.
    """

    slots: ClassVar[tuple[str, ...]] = ()
    together: ClassVar[bool] = False
    averaged: ClassVar[tuple[str, ...]] = ("running_mean", "running_var")
    _remembered: dict[str, Array] | None = None

    @abstractmethod
    def step(self, part: Part) -> Floats:
        """The new global's values of a range."""

    def average(self, part: Part) -> Floats:
        """The new values of running statistics: the mean over the sites by samples."""
        return mean_model(part)

    def carry(self, part: Part) -> Array:
        """The new values of a range of integers or booleans: those of the site with most samples.

        Only passes of the least staleness are looked at; of equal sites the first by id.
        """
        least = min(one.staleness for one in part.results)
        freshest = [one for one in part.results if one.staleness == least]
        return part.model(max(freshest, key=lambda one: one.n_samples))

    def counted(self, part: Part) -> Sequence[FitResult]:
        """The sites of whose values `step` makes the new ones."""
        return part.results

    def prepare(self, round_: Round) -> dict[str, float]:  # noqa: ARG002  for the strategies that look twice
        """Look at the round before the walk; what it returns are metrics."""
        return {}

    def aggregate(self, round_: Round, /) -> dict[str, float]:
        """See `Strategy.aggregate`; reads tensor by tensor.

        Raises:
            NotFinite: a site's model is not finite, or the new global would not be for its numbers. Nothing
                was written.
            BadModel: the new global would not be finite, whoever took part.
        """
        metrics = self.prepare(round_)
        specs = round_.previous.specs
        stepped = [name for name, spec in specs.items() if spec.floating and not self._is_averaged(name)]
        state = {state_name(slot, name): state_spec(specs[name]) for name in stepped for slot in self.slots}
        with ExitStack() as stack:
            writer = stack.enter_context(round_.writer())
            outer = stack.enter_context(round_.outer_writer(state)) if self.slots else None
            behind = stack.enter_context(WriteBehind())  # last: it ends before the files are closed
            for name, spec in specs.items():
                with writer.tensor(name, spec) as append:
                    write = partial(behind.write, append)
                    kept = self._walk(round_, name, spec=spec, write=write, steps=name in stepped)
                    behind.settle()
                if outer is not None and name in stepped:
                    for slot in self.slots:
                        outer.write(state_name(slot, name), kept[slot].reshape(spec.shape))
        return metrics

    def aggregate_fit(
        self, global_params: NDArrays, results: list[tuple[NDArrays, int, dict[str, float], int]]
    ) -> NDArrays:
        """See `Strategy.aggregate_fit`: the same computation, by way of files in a scratch folder.

        Every base is taken to be `global_params`. A strategy with a state keeps it in this object.
        """
        made, self._remembered = aggregate_arrays(
            self, global_params, results=results, state=self._remembered
        )
        return made

    def _is_averaged(self, name: str) -> bool:
        return name.endswith(self.averaged)

    def _made(self, part: Part, *, spec: Spec, steps: bool) -> Array:
        """The new values of a range, in their dtype."""
        if spec.dtype.kind in "US":
            return part.previous
        if not spec.floating:
            return self.carry(part)
        with np.errstate(all="ignore"):  # what is not finite is named afterwards, by site
            values = self.step(part) if steps else self.average(part)
            return values.astype(spec.dtype)

    def _walk(
        self, round_: Round, name: str, *, spec: Spec, write: Callable[[Array], None], steps: bool
    ) -> dict[str, Array]:
        """Write one tensor range by range; the state of it, whole."""
        slots = self.slots if steps else ()
        kept: dict[str, Array] = {slot: np.empty(spec.size, state_spec(spec).dtype) for slot in slots}
        length = max(_LEAST, _TOGETHER // len(round_.results)) if self.together else RANGE
        for start, stop in ranges(spec.size, length=length):
            part = Part(round_, name, start=start, stop=stop)
            made, state = self._computed(part, spec=spec, steps=steps)
            if spec.floating and (at := _first_wrong([made, *state.values()])) is not None:
                raise self._blame(part, at, spec=spec, steps=steps)
            write(made)
            for slot, values in state.items():
                kept[slot][start:stop] = values
        return kept

    def _computed(self, part: Part, *, spec: Spec, steps: bool) -> tuple[Array, dict[str, Array]]:
        """The new values of a range and of its state, in the dtypes that are written."""
        made, dtype = self._made(part, spec=spec, steps=steps), state_spec(spec).dtype
        with np.errstate(over="ignore"):
            return made, {slot: part.kept[slot].astype(dtype) for slot in (self.slots if steps else ())}

    def _blame(self, part: Part, at: int, *, spec: Spec, steps: bool) -> NotFinite | BadModel:
        """Who is left out for an element that is not finite; nobody if it were not without any change.

        Of the sites without which it is finite, else of all, the one with the largest change; of equal ones
        the first by id.
        """
        for result in part.results:
            if not np.isfinite(part.model(result)).all():
                return NotFinite(result.site, part.name)

        def finite(other: Part) -> bool:
            made, state = self._computed(other, spec=spec, steps=steps)
            return all(math.isfinite(float(values[at])) for values in (made, *state.values()))

        if not finite(part.unmoved()):
            return BadModel(
                f"the new global would not be finite in {part.name[:60]!a}",
                hint="Begin anew from a global of smaller numbers, with a lower learning rate at the server.",
            )
        sites = self.counted(part)
        alone = [one for one in sites if len(sites) > 1 and finite(part.without(one))]
        with np.errstate(over="ignore"):
            worst = max(alone or sites, key=lambda one: abs(float(part.change(one)[at])))
        return NotFinite(worst.site, part.name, made=True)


def _first_wrong(arrays: Sequence[Array]) -> int | None:
    """The first place at which one of them is not finite."""
    wrong = [finite for finite in map(np.isfinite, arrays) if not finite.all()]
    return min((int(np.argmin(finite)) for finite in wrong), default=None)


def mean_model(part: Part, *, weights: Sequence[float] | None = None) -> Floats:
    """The mean of the sites' values; by samples unless `weights` are given.

    With an input from an older base it is the global plus the mean change, each change against its own
    base and discounted by its weight s; the discount is not in the denominator.
    """
    shares = [float(one.n_samples) for one in part.results] if weights is None else weights
    if any(one.staleness for one in part.results):
        moved: Floats = np.add(part.previous, mean_change(part, weights=shares), dtype=np.float64)
        return moved
    models = ((w, part.model(one)) for one, w in zip(part.results, shares, strict=True))
    return weighted_sum(models, size=part.stop - part.start) / running_sum(shares)


def mean_change(part: Part, *, weights: Sequence[float], denominator: float | None = None) -> Floats:
    """sum(weight * s * change) / denominator; the denominator is the weights' sum unless given."""
    terms = (
        (weight * one.weight, part.change(one)) for one, weight in zip(part.results, weights, strict=True)
    )
    total = weighted_sum(terms, size=part.stop - part.start)
    return total / (running_sum(weights) if denominator is None else denominator)


def running_sum(values: Iterable[float]) -> float:
    """The sum, one after the other."""
    total = 0.0
    for value in values:
        total += value
    return total


def shares_of(results: Sequence[FitResult], *, weighted: bool) -> list[float]:
    """What each site weighs: its samples, or 1."""
    return [float(one.n_samples) if weighted else 1.0 for one in results]
