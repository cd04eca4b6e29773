"""A site's loop as one idempotent step: look, then train, publish, or wait (docs/protocol.md).

Nothing is remembered that a fresh process could not read from store and mirror (law 4); what is
kept between steps only saves requests.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from stitch import layout
from stitch.client import Client
from stitch.client.calls import evaluate_call, train_call
from stitch.client.rebuild import published, rebuild, report_published
from stitch.errors import BadDocument, DiskError, EgressRefused, HookError, ProtocolError, StoreError
from stitch.files import disk
from stitch.layout import Event, PassRef
from stitch.mirror import Sealed, Stage
from stitch.rounds import Turn
from stitch.sync.egress import check_counts, narrow
from stitch.sync.lease import Holder
from stitch.sync.status import Status
from stitch.wire import MAX_BYTES, Done, Orchestration

REVIEW = "`clif-stitch outbox show`, then approve or refuse"
QUIET_POLLS = 10
"""A waiting site looks at orchestration alone, and every tenth time at the files that count."""


class Local:
    """Turns of one site's loop."""

    name = "local"

    def __init__(self, client: Client) -> None:
        self.client = client
        self._prepared = False
        self._waiting: Turn | None = None
        self._quiet = 0
        self._seen = ""
        self._wanted: tuple[object, ...] = ()
        self._begun = False  # whether the manifest was there and ours, at the last tenth look
        self._held: Sealed | None = None  # what waits for a person
        self._settled = -1  # our newest pass that is known to be published and reported

    def step(self) -> Turn:
        """One turn; returns at once, also when there is nothing to do.

        Raises:
            HookError: the train hook failed; its pass is trained again by the next process.
            LaneLost: another process works for this site now.
            StoreError, ProtocolError: as they come; the next turn begins afresh.
        """
        decided = self._held is not None and not self.client.outbox.waits(self._held)
        if self._waiting is not None and not decided and self._nothing_new():
            return self._waiting
        self._held = None
        turn = self._look()
        self._waiting = turn if turn.state == "waiting" else None
        return turn

    def _nothing_new(self) -> bool:
        """One conditional request: does the lead want anything else than at the last look?

        What the lead says of other sites changes often and is no news to this one.
        """
        self._quiet += 1
        try:
            got = self.client.lanes.read(layout.orchestration(), limit=MAX_BYTES, unless=self._seen)
        except BadDocument:  # too large to be one: it is a hint, and the files that count are looked at
            return False
        if got is not None and got[0].etag != self._seen:
            self._seen = got[0].etag
            wanted = _wanted(got[1])
            if wanted != self._wanted:
                self._wanted = wanted
                return False
        if self._quiet >= QUIET_POLLS:
            self._quiet, self._begun = 0, False
            return False
        return True

    def _look(self) -> Turn:
        client = self.client
        if not self._prepared:
            client.clear_stages(client.lane)
        done = client.done()
        if done is not None:
            return self._finish(done.final_pass, done)
        if not self._begun:
            self._begun = client.check_manifest()  # first: with other settings nothing may be written
        seat = client.seat(client.lane)
        holder = seat.take()
        if holder is not None:
            return Turn("waiting", lane_is_held(client.lane, holder))
        newest = client.newest_global() if self._begun else -1
        self._prepare(newest + 1)
        if newest < 0:
            return Turn(
                "waiting", "waiting for global 0" if self._begun else "the lead has not begun the run"
            )
        return self._work(newest)

    def _work(self, newest: int) -> Turn:
        client = self.client
        self._settle(newest)
        ref = PassRef(newest + 1, client.site)
        if ref.number == self._settled:
            return self._wait(ref.number)
        sealed = client.mirror.sealed(ref)
        if sealed is None and client.passes.stat_seal(ref) is not None:
            status = client.adopt_site_pass(ref.number)
        elif sealed is not None:
            return self._send(sealed)
        else:
            return self._train_from(newest, ref)
        return self._after(ref.number, status)

    def _send(self, sealed: Sealed) -> Turn:
        """Publish, or wait for the person who must see it first."""
        number = sealed.ref.number
        status = self.client.publish_site_pass(sealed)
        if status is not Status.HELD:
            return self._after(number, status)
        self._held = sealed
        self.client.seat(self.client.lane).tell("waiting", number)
        return Turn("waiting", f"pass {number} is held for review: {REVIEW}", number)

    def _after(self, pass_id: int, status: Status) -> Turn:
        if status not in (Status.UPLOADED, Status.ALREADY_SYNCED):
            return Turn("waiting", f"our own pass {pass_id} is not whole in the store yet", pass_id)
        self._settled = pass_id
        if status is Status.ALREADY_SYNCED:
            return self._wait(pass_id)
        return Turn("acted", f"published pass {pass_id}", pass_id)

    def _train_from(self, newest: int, ref: PassRef) -> Turn:
        client = self.client
        _, base = client.fetch_global(newest)
        if base is None:
            return Turn("waiting", f"global {newest} is not whole in the store yet", newest)
        if base.seal.final:
            return self._finish(newest, None)
        return self._send(self._train(ref, base))

    def _wait(self, pass_id: int) -> Turn:
        self.client.seat(self.client.lane).tell("waiting", pass_id)
        return Turn("waiting", f"waiting for global {pass_id}", pass_id)

    # -- once a process --------------------------------------------------------------------------

    def _prepare(self, wanted: int) -> None:
        """Join, set aside what no round can use any more, and bring back what this mirror lost."""
        if self._prepared:
            return
        client = self.client
        client.join()
        there = published(client)
        for ref in client.mirror.passes(client.lane):
            if ref.number < wanted and ref not in there and client.passes.stat_seal(ref) is None:
                aside = client.mirror.set_aside(ref)
                text = f"pass {ref.number} was never published and its round is over; kept in {aside}"
                client.journal.note(client.lane, "set_aside", text=text, pass_id=ref.number)
        rebuild(client, client.lane, below=wanted)
        self._prepared = True

    def _settle(self, newest: int) -> None:
        """Report what is published and was not reported by whoever died then: seals imply `completed`."""
        client = self.client
        if newest <= self._settled:
            return
        report_published(client, upto=newest + 1)
        self._settled = newest

    # -- training --------------------------------------------------------------------------------

    def _train(self, ref: PassRef, base: Sealed) -> Sealed:
        client = self.client
        seat = client.seat(client.lane)
        seat.still()
        attempt = client.events.last_attempt(ref.number) + 1
        client.emit(
            ref.number,
            Event.STARTED,
            attempt=attempt,
            base_pass=base.ref.number,
            base_sha256=base.seal.model_sha256,
        )
        client.drop_stage(ref)
        stage = client.stage(ref)
        self._carry_state(stage)
        seat.tell("training", ref.number)
        client.journal.note(client.lane, "train", text=f"pass {ref.number} from global {base.ref.number}")
        call = train_call(
            client.settings, stage, base=base.model, pass_id=ref.number, seed=client.seed(ref.number)
        )
        try:
            result = client.runner.run(call, stop=client.stop)
            sealed = client.seal_site_pass(
                stage, base, attempt=attempt, n_samples=result.n_samples, metrics=result.metrics
            )
        except (HookError, EgressRefused, DiskError) as error:
            if isinstance(error, DiskError):
                client.drop_stage(ref)  # half a model on a full disk helps nobody
            self._failed(ref, error, attempt=attempt)
            raise
        finally:
            seat.tell("waiting", ref.number)
        text = f"pass {ref.number}: n_samples {result.n_samples}, {result.seconds:.1f} s"
        client.journal.note(client.lane, "seal", text=text, pass_id=ref.number, seconds=result.seconds)
        return sealed

    def _carry_state(self, stage: Stage) -> None:
        """The hook's private state of the newest pass sealed here, as it was committed."""
        client = self.client
        for ref in reversed(client.mirror.passes(client.lane)):
            state = client.mirror.root / ref.folder / "state"
            if ref.number < stage.ref.number and state.is_dir():
                with disk(stage.state_dir):
                    shutil.copytree(state, stage.state_dir)
                return

    def _failed(self, ref: PassRef, error: HookError | EgressRefused | DiskError, *, attempt: int) -> None:
        client = self.client
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
                hook="train",
                exception=(hook.kind if hook and hook.kind else type(error).__name__)[:200],
                where=(hook.where[:200] if hook and hook.where else None),
                message=_own_words(error) if told else None,
            )
        except StoreError as trouble:  # it must not hide the hook's own error
            client.journal.note(client.lane, "error", text=f"the failed event was not sent: {trouble}")

    def _left_model(self, ref: PassRef) -> Path:
        return self.client.stage(ref).model_path(self.client.settings.hooks.model_ext)

    # -- the end ---------------------------------------------------------------------------------

    def _finish(self, final: int | None, done: Done | None) -> Turn:
        client = self.client
        if final is not None:
            _, sealed = client.fetch_global(final)
            if sealed is None:
                return Turn("waiting", f"global {final} is not whole in the store yet", final)
            if done is not None:
                check_end(done, sealed)
            self._settle(final)
            self._evaluate(sealed)
        early = final is not None and final < client.settings.num_passes
        why = done.reason if done else ("early_stopped" if early else "completed")
        return Turn("done", f"run complete: {why}", final, final_pass=final)

    def _evaluate(self, sealed: Sealed) -> None:
        client = self.client
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


def _own_words(error: HookError | EgressRefused | DiskError) -> str:
    """What the hook itself said, the last line of its traceback: leaves only by opt-in (law 8)."""
    lines = error.detail.strip().splitlines() if isinstance(error, HookError) else []
    return (lines[-1] if lines else str(error))[:500]


def _wanted(data: bytes) -> tuple[object, ...]:
    """What orchestration wants of a site; a view that cannot be read is no reason to stop looking."""
    try:
        view = Orchestration.parse(data, source=layout.orchestration())
    except ProtocolError:
        return (data,)
    return (view.directive.base, view.phase, view.current_pass)


def check_end(done: Done, final: Sealed) -> None:
    """The end marker and the final global must agree.

    Raises:
        ProtocolError: the marker names another seal.
    """
    if done.final_metrics_sha256 != final.sha256:
        raise ProtocolError(
            f"the end marker names another global {final.ref.number} than the one in the store",
            hint="The store was altered: keep it as it is and show this line to the lead.",
        )


def lane_is_held(lane: str, holder: Holder) -> str:
    """One line for the person whose process waits."""
    if holder.here:
        return f"another process on this machine works for {lane}: stop it, or stop this one"
    age = "" if holder.age_s is None else f", last beat {holder.age_s:.0f} s ago"
    return (
        f"{holder.host} holds {lane}{age}; it is free {holder.limit_s:.0f} s after the last beat"
        " (--take-over claims it now)"
    )
