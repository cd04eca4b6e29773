"""What the aggregate hook is given: the same for the lead and for whoever makes a global again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stitch.client.calls import aggregate_call
from stitch.client.carried import outer_state
from stitch.client.client import Client
from stitch.hooks.call import HookCall
from stitch.mirror import Sealed, Stage


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A call of the aggregate hook, with all that it reads laid out.

    Attributes:
        call: the hook's call.
        bases: the folder of the globals that the inputs were trained from, `pass_NNN/model.<ext>`.
    """

    call: HookCall
    bases: Path


def lay_aggregation(
    client: Client,
    stage: Stage,
    *,
    base: Sealed,
    older: Sequence[Sealed],
    inputs: Sequence[Sealed],
    seed: int,
) -> Aggregation:
    """Lay inputs and bases into the stage of the global that they make.

    Args:
        client: who aggregates.
        stage: of the global.
        base: the global that is replaced.
        older: globals before it that inputs were trained from.
        inputs: the site passes.
        seed: the round's.

    Raises:
        DigestMismatch: the state that the base carries is not whole in the store.
        DiskError: there is no room.
    """
    client.lay_inputs(stage, inputs)
    bases = client.lay_bases(stage, [*older, base])
    call = aggregate_call(
        client.settings,
        stage,
        base=base.model,
        bases=bases,
        pass_id=stage.ref.number,
        seed=seed,
        n_samples=sum(one.seal.n_samples for one in inputs),
        outer=outer_state(client, base),
    )
    return Aggregation(call, bases)
