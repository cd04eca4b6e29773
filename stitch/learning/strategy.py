"""What a strategy is: Flower's words, and a way in that never needs all models in memory.

A strategy of yours implements `aggregate_fit` on lists of arrays. The strategies that come with
clif-stitch override `aggregate` instead, which reads tensor by tensor.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self, TypeAlias

import numpy as np

from stitch.errors import BadModel
from stitch.learning.shapes import unfit_shape
from stitch.learning.specs import Array, Spec
from stitch.learning.tensors import ModelReader, ModelWriter, open_model

NDArrays: TypeAlias = list[Array]
"""A model as Flower has it: its tensors, in the order of the model file."""

Scalar: TypeAlias = bool | int | float | str


@dataclass(frozen=True)
class FitResult:
    """One site's pass, as a strategy sees it.

    Attributes:
        site: its id.
        path: its model file.
        base_path: the global that it was trained from: its own base, which under the buffered policy
            may be older than the global being replaced.
        n_samples: rows it was fitted on.
        metrics: what its train hook returned.
        staleness: globals published since its base; 0 when it is up to date.
        weight: s(staleness) as the policy has it, at most 1.
    """

    site: str
    path: Path
    base_path: Path
    n_samples: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    staleness: int = 0
    weight: float = 1.0
    stack: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)

    @cached_property
    def parameters(self) -> ModelReader:
        """Its model, open; the round closes it."""
        return self.stack.enter_context(open_model(self.path))

    @cached_property
    def base(self) -> ModelReader:
        """Its base, open; the round closes it."""
        return self.stack.enter_context(open_model(self.base_path))


class Round:
    """Everything that one aggregation reads and writes; a context manager that closes the files.

    Attributes:
        results: the admitted passes, in the order of the bytes of their site ids.
        global_path: the global being replaced.
        out_path: where the new one goes.
        outer_path: the state that the strategy left with the previous global; None if it left none.
        outer_out_path: where the new state goes; None if it cannot be kept.
        seed: an integer, the same whenever this round is computed again.
        stack: what is open.
    """

    def __init__(
        self,
        *,
        results: Sequence[FitResult],
        global_path: Path,
        out_path: Path,
        outer_path: Path | None = None,
        outer_out_path: Path | None = None,
        seed: int = 0,
    ) -> None:
        self.stack = ExitStack()
        mine = (replace(one, stack=self.stack) for one in results)
        self.results = sorted(mine, key=lambda one: one.site.encode())
        self.global_path = global_path
        self.out_path = out_path
        self.outer_path = outer_path
        self.outer_out_path = outer_out_path
        self.seed = seed

    @cached_property
    def previous(self) -> ModelReader:
        """The global being replaced, open."""
        return self.stack.enter_context(open_model(self.global_path))

    @cached_property
    def outer(self) -> ModelReader | None:
        """The strategy's state as the previous global left it, open."""
        return None if self.outer_path is None else self.stack.enter_context(open_model(self.outer_path))

    def writer(self) -> ModelWriter:
        """A writer for the new global, which has the tensors of the one being replaced."""
        return ModelWriter(self.out_path, specs=self.previous.specs)

    def outer_writer(self, specs: Mapping[str, Spec]) -> ModelWriter:
        """A writer for the strategy's new state.

        Raises:
            BadModel: the state cannot be kept, so the strategy would forget.
        """
        if self.outer_out_path is None:
            raise BadModel(
                "the strategy has a state, and the aggregate hook no place for it",
                hint="Let the hook take outer_path and outer_out_path, and pass them on.",
            )
        return ModelWriter(self.outer_out_path, specs=specs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()


class NotFinite(ValueError):
    """A site's tensor is not finite, or what would be made of it is not.

    Attributes:
        site: whose.
        name: of the tensor.
        reason: why the site is left out.
    """

    def __init__(self, site: str, name: str, *, made: bool = False) -> None:
        what = "its numbers are too large for a finite global" if made else "it is not finite"
        self.site = site
        self.name = name
        self.reason = f"{what} in {name[:60]!a}"
        super().__init__(f"{site}: {self.reason}")


class Strategy(ABC):
    """How site passes become a global. Implement `aggregate_fit`; the rest has defaults.

    A strategy with a state from global to global (momentum, for example) overrides `aggregate` and keeps
    it in files: it reads `round.outer` and writes with `round.outer_writer`. What an object holds in
    memory is gone with the next round, which runs in another process.

    Attributes:
        measurable: whether models are tensors, so that the norm of a change can be bounded.
    """

    measurable: ClassVar[bool] = True

    def initialize_parameters(self) -> NDArrays | None:
        """The first global's tensors; None to take the client's own, or `initial_model`'s."""
        return None

    def configure_fit(self, server_round: int, config: Mapping[str, Scalar]) -> dict[str, Scalar]:  # noqa: ARG002  for the strategies that use it
        """The configuration that every site's `fit` gets in the next pass.

        Args:
            server_round: the number of that pass.
            config: what stitch.toml says.
        """
        return dict(config)

    @abstractmethod
    def aggregate_fit(
        self,
        global_params: NDArrays,
        results: list[tuple[NDArrays, int, dict[str, float], int]],
    ) -> NDArrays:
        """The new global's tensors.

        Args:
            global_params: the global being replaced.
            results: one a site, by site id: its tensors, its number of samples, its metrics, its staleness.
        """

    def aggregate_evaluate(
        self, results: Sequence[tuple[float, int, Mapping[str, float]]]
    ) -> tuple[float, dict[str, float]]:
        """The mean loss and metrics, weighted by samples.

        Args:
            results: one a site: its loss, its number of samples, its metrics.

        Raises:
            ValueError: there is no sample.
        """
        total = sum(count for _, count, _ in results)
        if total == 0:
            raise ValueError("no site evaluated on a single sample")
        loss = weighted_mean([(value, count) for value, count, _ in results])
        return loss, mean_metrics([(metrics, count) for _, count, metrics in results])

    def check_global(self, round_: Round, /) -> None:
        """Open the global being replaced, before any site's pass is judged by it.

        Raises:
            BadModel: it is not readable.
        """
        _ = round_.previous  # opening it is the check

    def unfit(self, result: FitResult, round_: Round, /) -> str:
        """Why a site's pass cannot be counted, before `aggregate` is called; "" if it can.

        This default wants samples and the tensors of the global. Whether they are finite shows on the way:
        then `aggregate` raises `NotFinite`, and is called again without that site.
        """
        return unfit_shape(result.parameters, round_.previous, n_samples=result.n_samples)

    def aggregate(self, round_: Round, /) -> dict[str, float]:
        """Make the new global's file, and the new state's if there is one. This is what STITCH calls.

        This default loads every model, looks whether it is finite, and calls `aggregate_fit`. A pass from
        an older base is handed over as it is, with its staleness.

        Returns:
            Metrics for the global's seal.

        Raises:
            NotFinite: a site's model is not finite.
            BadModel: `aggregate_fit` returned tensors that are not those of the global, or not finite.
        """
        names = round_.previous.names
        results = []
        for one in round_.results:
            arrays = _all(one.parameters, names)
            if (wrong := _not_finite(names, arrays)) is not None:
                raise NotFinite(one.site, wrong)
            results.append((arrays, one.n_samples, dict(one.metrics), one.staleness))
        made = self.aggregate_fit(_all(round_.previous, names), results)
        if len(made) != len(names):
            raise BadModel(
                f"aggregate_fit returned {len(made)} tensors, the global has {len(names)}",
                hint="Return one array a tensor, in the order of global_params.",
            )
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is named
            made = [
                np.asarray(array).astype(round_.previous.spec(name).dtype, copy=False)
                for name, array in zip(names, made, strict=True)
            ]
        if (wrong := _not_finite(names, made)) is not None:
            raise BadModel(
                f"the new global would not be finite in {wrong[:60]!a}",
                hint="Bound what sites send (max_norm), or let aggregate_fit withstand large numbers.",
            )
        with round_.writer() as writer:
            for name, array in zip(names, made, strict=True):
                writer.write(name, array)
        return {}


def _all(model: ModelReader, names: Sequence[str]) -> NDArrays:
    return [model.read(name) for name in names]


def _not_finite(names: Sequence[str], arrays: Sequence[Array]) -> str | None:
    """The first tensor of floating-point numbers that holds one that is not finite."""
    pairs = zip(names, arrays, strict=True)
    return next((name for name, one in pairs if one.dtype.kind == "f" and not np.isfinite(one).all()), None)


def weighted_mean(pairs: Sequence[tuple[float, float]]) -> float:
    """The mean of values with weights, summed in the order given; the weights' sum is not zero."""
    total = 0.0
    weights = 0.0
    for value, weight in pairs:
        total += weight * value
        weights += weight
    mean = total / weights
    if math.isfinite(mean):
        return mean
    values = [value for value, _ in pairs]  # a sum that no double holds may have a mean that one does
    mean = math.fsum(value * (weight / weights) for value, weight in pairs)
    return min(max(mean, min(values)), max(values))


def mean_metrics(results: Sequence[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    """The weighted mean of every metric over the sites that report it, by name."""
    names = sorted({name for metrics, weight in results if weight > 0 for name in metrics})
    return {
        name: weighted_mean([(m[name], weight) for m, weight in results if name in m and weight > 0])
        for name in names
    }
