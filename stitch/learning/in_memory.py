"""A strategy on lists of arrays, by way of files in a scratch folder: one computation, not two."""

from __future__ import annotations

from collections.abc import Mapping

from stitch.files import scratch
from stitch.learning.specs import Array
from stitch.learning.strategy import FitResult, NDArrays, Round, Strategy
from stitch.learning.tensors import read_model, write_model


def aggregate_arrays(
    strategy: Strategy,
    global_params: NDArrays,
    *,
    results: list[tuple[NDArrays, int, dict[str, float], int]],
    state: Mapping[str, Array] | None = None,
) -> tuple[NDArrays, dict[str, Array] | None]:
    """What `strategy.aggregate` makes of these models.

    Args:
        strategy: one that reads tensor by tensor.
        global_params: the global being replaced; every base is taken to be it.
        results: as `Strategy.aggregate_fit` has them, the order of sites kept.
        state: what the previous call returned.

    Returns:
        The new global's tensors, and the strategy's state; None if it has none.
    """
    with scratch() as folder:
        before, after = folder / "global.npz", folder / "new.npz"
        old, new = folder / "state.npz", folder / "new_state.npz"
        write_model(before, _named(global_params))
        if state is not None:
            write_model(old, state)
        fits = []
        for place, (arrays, count, metrics, staleness) in enumerate(results):
            path = folder / f"{place:06d}.npz"
            write_model(path, _named(arrays))
            fits.append(FitResult(f"{place:06d}", path, before, count, metrics, staleness))
        with Round(
            results=fits,
            global_path=before,
            out_path=after,
            outer_path=None if state is None else old,
            outer_out_path=new,
        ) as round_:
            strategy.aggregate(round_)
        return list(read_model(after).values()), read_model(new) if new.exists() else None


def _named(arrays: NDArrays) -> dict[str, Array]:
    return {f"arr_{place:06d}": array for place, array in enumerate(arrays)}
