"""A site's own score of the final global, told as an event."""

from __future__ import annotations

from stitch.client import Client
from stitch.client.calls import evaluate_call
from stitch.errors import EgressRefused, HookError
from stitch.layout import Event, PassRef
from stitch.mirror import Sealed
from stitch.sync.egress import check_counts, narrow


def evaluate(client: Client, sealed: Sealed) -> None:
    """Run the evaluate hook on a global, once, and tell its numbers.

    Raises:
        HookError: the hook failed.
        EgressRefused: it saw too few samples.
    """
    spec, number = client.settings.hooks.evaluate, sealed.ref.number
    if spec is None or client.settings.egress.reviewed:
        return  # under review no number leaves that nobody saw, and a score that stays helps nobody
    if client.events.has(number, Event.EVALUATED, attempt=1):
        return
    stage = client.stage(PassRef(number, client.site, 1))
    call = evaluate_call(client.settings, stage, spec=spec, model=sealed.model, pass_id=number)
    try:
        result = client.runner.run(call, stop=client.stop)
        check_counts(result.n_samples, client.settings.egress)
    except (HookError, EgressRefused) as error:
        client.trail.last_error(error, pass_id=number, phase="evaluating", model_path=sealed.model)
        client.journal.note(client.lane, "error", text=str(error), pass_id=number)
        raise
    finally:
        client.drop_stage(stage.ref)
    client.emit(
        number,
        Event.EVALUATED,
        attempt=1,
        model_sha256=sealed.seal.model_sha256,
        n_samples=result.n_samples,
        metrics=narrow(result.metrics, client.settings.egress.metrics),
    )
    client.journal.note(client.lane, "evaluate", text=f"global {number}", pass_id=number)
