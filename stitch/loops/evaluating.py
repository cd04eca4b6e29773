"""A site's own score of each global, told as an event."""

from __future__ import annotations

from stitch.client import Client
from stitch.client.calls import evaluate_call
from stitch.client.ended import run_hook
from stitch.errors import EgressRefused, HookError
from stitch.hooks.call import HookCall, HookResult
from stitch.layout import Event, PassRef
from stitch.mirror import Sealed


class Evaluating:
    """Runs the evaluate hook once on each global; an event that is there is never made again.

    What fails before the final global is told, and training goes on without that score: the next
    process of this site tries it once more while that global is the newest.

    Args:
        client: the site's.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._seen = -1  # the newest global that was scored, or failed, in this process

    def wants(self, number: int) -> bool:
        """Whether global `number`, which is not the final one, may still have to be scored here."""
        client = self._client
        # Under review no number leaves that nobody saw, and a score that stays helps nobody.
        asked = client.settings.hooks.evaluate is not None and not client.settings.egress.reviewed
        return asked and client.settings.evaluation.when == "always" and number > self._seen

    def score(self, sealed: Sealed) -> bool:
        """Score a global that is trained on next; whether there is an event that was not there before.

        Raises:
            RunEnded: the run was ended meanwhile.
            LaneLost: another process works for this site now.
        """
        client, number = self._client, sealed.ref.number
        if not self.wants(number):
            return False
        seat = client.seat(client.lane)
        seat.still()
        seat.tell("training", number + 1)
        try:
            scored = self._score(sealed)
        except (HookError, EgressRefused):
            scored = False
            text = f"global {number} has no score of {client.site}: training goes on without it"
            client.journal.note(client.lane, "warn", text=text, pass_id=number)
        finally:
            seat.tell("waiting", number + 1)
        self._seen = number
        return scored

    def score_final(self, sealed: Sealed) -> None:
        """Score the final global: nothing waits for it, so that what fails is an error.

        Raises:
            HookError: the hook failed.
            EgressRefused: it saw too few samples.
        """
        settings = self._client.settings
        if settings.hooks.evaluate is not None and not settings.egress.reviewed:
            self._score(sealed, final=True)

    def _score(self, sealed: Sealed, *, final: bool = False) -> bool:
        client, spec, number = self._client, self._client.settings.hooks.evaluate, sealed.ref.number
        if spec is None or client.events.has(number, Event.EVALUATED, attempt=1):
            return False
        stage = client.stage(PassRef(number, client.site, 1))
        call = evaluate_call(client.settings, stage, spec=spec, model=sealed.model, pass_id=number)
        try:
            result = self._run(call, final=final)
            client.emit_evaluation(sealed, n_samples=result.n_samples, metrics=result.metrics)
        except (HookError, EgressRefused) as error:
            client.trail.last_error(error, pass_id=number, phase="evaluating", model_path=sealed.model)
            client.journal.note(client.lane, "error", text=str(error), pass_id=number)
            raise
        finally:
            client.drop_stage(stage.ref)
        client.journal.note(
            client.lane, "evaluate", text=f"global {number}", pass_id=number, seconds=result.seconds
        )
        return True

    def _run(self, call: HookCall, *, final: bool) -> HookResult:
        """The end marker ends a hook, but not the one that scores what it names."""
        client = self._client
        return client.runner.run(call, stop=client.stop) if final else run_hook(client, call)
