"""One training attempt of a site: bound to its base by an event, run, sealed here, or reported as failed."""

from __future__ import annotations

from pathlib import Path

from stitch.client import Client
from stitch.client.calls import train_call
from stitch.client.ended import RunEnded, run_hook
from stitch.client.hook_state import carry_state
from stitch.client.spending import require_budget
from stitch.client.trail import own_words
from stitch.errors import (
    CommitmentMismatch,
    DiskError,
    EgressRefused,
    HookError,
    PinMismatch,
    PrivacyError,
    StitchError,
    StoreError,
)
from stitch.layout import Event, PassRef
from stitch.mirror import Sealed

FAILURES = (HookError, EgressRefused, DiskError, PinMismatch, CommitmentMismatch, PrivacyError)
"""What ends a training attempt with a `failed` event."""


class Training:
    """Trains the passes of one site.

    Args:
        client: the site's.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def train(self, ref: PassRef, base: Sealed) -> Sealed:
        """Train a pass from its base, under heartbeats, and seal it here; a failure is told in an event.

        Raises:
            HookError: the train hook failed, or the one that yields the dataset's leaves.
            EgressRefused, DiskError, PinMismatch, CommitmentMismatch, PrivacyError: it may not or cannot be
                sealed.
        """
        client = self._client
        seat = client.seat(client.lane)
        seat.still()
        attempt = self._start(ref, base)
        client.drop_stage(ref)
        stage = client.stage(ref)
        carry_state(client.mirror, stage)
        seat.tell("training", ref.number)
        said = f"pass {ref.number} from global {base.ref.number}"
        client.journal.note(client.lane, "train", text=said, pass_id=ref.number)
        call = train_call(
            client.settings,
            stage,
            base=base.model,
            pass_id=ref.number,
            seed=client.seed(ref.number),
            said=base.seal.next_config,
        )
        try:
            require_budget(client)  # before hours of training that may not leave
            result = run_hook(client, call)
            sealed = client.seal_site_pass(
                stage, base, attempt=attempt, n_samples=result.n_samples, metrics=result.metrics
            )
        except RunEnded:
            client.drop_stage(ref)  # this one alone: another loop may be at work in this lane's folders
            raise
        except FAILURES as error:
            if isinstance(error, DiskError):
                client.drop_stage(ref)  # half a model on a full disk helps nobody
            self._failed(ref, error, attempt=attempt)
            raise
        finally:
            seat.tell("waiting", ref.number)
        text = f"pass {ref.number}: n_samples {result.n_samples}, {result.seconds:.1f} s"
        client.journal.note(client.lane, "seal", text=text, pass_id=ref.number, seconds=result.seconds)
        return sealed

    def _start(self, ref: PassRef, base: Sealed) -> int:
        """Create the `started` event of a new attempt, which binds it to its base and its data."""
        client = self._client
        attempt = client.events.last_attempt(ref.number) + 1
        bound = {"base_pass": base.ref.number, "base_sha256": base.seal.model_sha256}
        try:
            while not client.emit(ref.number, Event.STARTED, attempt=attempt, **bound):
                attempt += 1  # another machine of this site took that number for other data
        except HookError as error:  # the leaves hook: no attempt began that could fail
            client.trail.last_error(error, pass_id=ref.number, phase="committing", model_path=None)
            client.journal.note(client.lane, "error", text=str(error), pass_id=ref.number)
            raise
        return attempt

    def _failed(self, ref: PassRef, error: StitchError, *, attempt: int) -> None:
        client = self._client
        hook = error if isinstance(error, HookError) else None
        told = client.settings.egress.error_messages and not client.settings.egress.reviewed
        client.trail.last_error(
            error,
            pass_id=ref.number,
            phase="training",
            model_path=None if isinstance(error, DiskError) else self._left_model(ref),
        )
        client.journal.note(client.lane, "error", text=str(error), pass_id=ref.number)
        try:
            client.emit(
                ref.number,
                Event.FAILED,
                attempt=attempt,
                hook=hook.hook if hook and hook.hook else "train",
                exception=(hook.kind if hook and hook.kind else type(error).__name__)[:200],
                where=(hook.where[:200] if hook and hook.where else None),
                message=own_words(error) if told else None,
            )
        except StoreError as trouble:  # it must not hide the hook's own error
            client.journal.note(client.lane, "error", text=f"the failed event was not sent: {trouble}")

    def _left_model(self, ref: PassRef) -> Path:
        return self._client.stage(ref).model_path(self._client.settings.hooks.model_ext)
