"""The lead's loop as one idempotent step: observe, close, aggregate, publish (docs/protocol.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from stitch import layout
from stitch.client import Client
from stitch.client.admission import admit
from stitch.client.calls import aggregate_call, train_call
from stitch.client.initial import lay_initial_model
from stitch.client.rebuild import rebuild
from stitch.client.record import LeadView
from stitch.client.watch import Ready
from stitch.errors import DiskError, EgressRefused, HookError, ProtocolError, RoundError
from stitch.hooks.call import HookResult
from stitch.layout import GLOBAL, PassRef
from stitch.loops.local import QUIET_POLLS, check_end, lane_is_held
from stitch.mirror import Sealed, Stage
from stitch.rounds import Close, Code, RoundFiles, RoundView, Turn, Wait, close_policy, derive
from stitch.sync.documents import Stored
from stitch.wire import Roster, RoundRecord, Verdict


@dataclass(slots=True)
class _Round:
    """The round under way, as this process last saw it; saves requests and nothing else."""

    base: Sealed
    roster: Roster
    verdict: Stored[Verdict] | None
    opened_at: datetime | None
    published: Mapping[str, str] | None = None

    @property
    def number(self) -> int:
        """The global this round is to make."""
        return self.base.ref.number + 1


class Lead:
    """Turns of the lead's loop; the lead's own training is a `Local` beside it."""

    name = "lead"

    def __init__(self, client: Client) -> None:
        self.client = client
        self._policy = close_policy(client.settings.policy.require)
        self._prepared = self._rebuilt = False
        self._round: _Round | None = None
        self._quiet = 0

    def step(self) -> Turn:
        """One turn; returns at once, also when there is nothing to do.

        Raises:
            HookError: the aggregate hook, or the training of pass 0, failed.
            RoundError: no site contributed a sample, or the lane was lost.
            StoreError, ProtocolError: as they come; the next turn begins afresh.
        """
        if self._round is None or self._quiet >= QUIET_POLLS:
            turn = self._observe()
            if turn is not None:
                return turn
        now = self._round
        assert now is not None  # noqa: S101  _observe sets it or returns a turn
        if now.verdict is None:
            turn = self._decide(now)
            if turn is not None:
                self._quiet += 1
                return turn
        self._round = None  # law 4: whatever comes of it, the next turn looks at everything again
        return self._make(now)

    def _observe(self) -> Turn | None:
        """Look at everything; None when there is a round to work on."""
        client = self.client
        again, self._quiet, self._round = self._quiet >= QUIET_POLLS, 0, None
        if not self._prepared:
            client.clear_stages(GLOBAL)
        done = client.done()
        if done is not None:
            if done.final_pass is not None:
                check_end(done, client.require_global(done.final_pass))
            client.publish_orchestration(LeadView(client.roster(), done.final_pass), done=done)
            return Turn("done", f"run complete: {done.reason}", done.final_pass, final_pass=done.final_pass)
        if again or not self._prepared:
            client.check_manifest()  # first: in another store or with other settings nothing is written
        seat = client.seat(GLOBAL)
        holder = seat.take()
        if holder is not None:
            return Turn("waiting", lane_is_held(GLOBAL, holder))
        if not self._prepared:
            client.begin()
            self._prepared = True
        seat.still()
        newest = client.newest_global()
        if newest < 0:
            return self._initialize()
        if not self._rebuilt:
            rebuild(client, GLOBAL, below=newest)
            self._rebuilt = True
        base = client.require_global(newest)
        if base.seal.final or newest >= client.settings.num_passes:
            early = newest < client.settings.num_passes
            client.write_end_marker(newest, "early_stopped" if early else "completed")
            return Turn("acted", "wrote the end marker", newest)
        path = layout.verdict(newest + 1, 0)
        verdict = client.documents.read(path, Verdict) if client.documents.exists(path) else None
        if verdict is not None and verdict.doc.verdict != "closed":
            raise ProtocolError(
                f"round {newest + 1} was aborted by another version of clif-stitch",
                hint="Use the version at the lead that began this run.",
            )
        sealed = client.passes.stat_seal(base.ref)
        self._round = _Round(base, client.roster(), verdict, sealed.modified if sealed else None)
        return None

    # -- pass 0 ----------------------------------------------------------------------------------

    def _initialize(self) -> Turn:
        client = self.client
        ref = PassRef(0)
        sealed = client.mirror.sealed(ref)
        if sealed is None:
            client.publish_orchestration(LeadView(client.roster(), None))
            sealed = self._first(ref)
        self._publish(sealed, client.roster())
        return Turn("acted", "published global 0", 0)

    def _first(self, ref: PassRef) -> Sealed:
        client = self.client
        client.drop_stage(ref)
        stage = client.stage(ref)
        record = client.first_record()
        if client.settings.initial_model is not None:
            lay_initial_model(client, stage)
            text = f"global 0 is {client.settings.initial_model}"
            client.journal.note(GLOBAL, "train", text=text, pass_id=0)
            return client.seal_global(stage, base=None, n_samples=0, metrics={}, record=record)
        client.journal.note(GLOBAL, "train", text="pass 0: the starting model", pass_id=0)
        call = train_call(client.settings, stage, base=None, pass_id=0, seed=record.seed)
        client.seat(GLOBAL).tell("training", 0)
        try:
            result = client.runner.run(call, stop=client.stop)
        except (HookError, DiskError) as error:
            self._failed(error, stage, phase="initializing")
            raise
        return self._seal(stage, result, base=None, record=record)

    # -- closing ---------------------------------------------------------------------------------

    def _decide(self, now: _Round) -> Turn | None:
        """Ask the policy; None once there is a verdict."""
        client = self.client
        ready = client.watch.ready(now.number, now.roster.expected)
        refs = {PassRef(now.number, site): now.base.ref.number for site in ready.sealed}
        view = RoundView(
            pass_id=now.number,
            attempt=0,
            expected=frozenset(now.roster.expected),
            started=frozenset(ready.sealed),
            ready=refs,
            opened_at=now.opened_at,
            last_global_at=now.opened_at,
            unreadable=frozenset(ready.unreadable),
        )
        moment = client.lanes.now(GLOBAL) if self._policy.timed else client.clock.now()
        decision = self._policy.verdict(view, moment)
        if isinstance(decision, Wait):
            return self._wait(now, decision, ready=ready)
        if not isinstance(decision, Close):
            raise RoundError(f"the policy answered {type(decision).__name__}, which all_expected never does")
        sealed, missing = self._collect(decision.inputs)
        if missing:
            return Turn("waiting", "; ".join(missing), now.number)
        if client.roster().number != now.roster.number:
            self._round = None  # law 11: the verdict names the newest roster
            return Turn("acted", "the roster changed", now.number)
        inputs, excluded = admit(sealed, client)
        unbound = [site for site, why in excluded.items() if why.code is Code.NOT_BOUND]
        if unbound:  # law 7: a copied folder may still bring it
            why = f"the started event of {', '.join(unbound)} is not there yet"
            return Turn("waiting", f"round {now.number}: {why}", now.number, on=tuple(unbound))
        if sum(one.seal.n_samples for one in inputs) == 0:
            sites = ", ".join(str(one.ref.site) for one in sealed)
            raise RoundError(
                f"round {now.number}: no site contributed a sample ({sites}); no global was published",
                hint="Let these sites check their cohorts, then begin a new run under another run_id.",
            )
        client.seat(GLOBAL).still()
        now.verdict = client.write_verdict(now.number, now.roster, inputs=inputs, excluded=excluded)
        return None

    def _wait(self, now: _Round, decision: Wait, *, ready: Ready) -> Turn:
        client = self.client
        status = client.watch.status(now.number, now.roster.expected, ready=ready)
        if status != now.published:
            started = sum(word in ("training", "completed") for word in status.values())
            state = derive(RoundFiles(started=started))
            client.publish_orchestration(
                LeadView(now.roster, now.base.ref.number, status, state.value, now.opened_at)
            )
            now.published = status
        client.seat(GLOBAL).tell("waiting", now.number)
        trouble = "".join(f"; {site} cannot be read: {why}" for site, why in ready.unreadable.items())
        return Turn("waiting", f"round {now.number}: {decision.why}{trouble}", now.number, on=decision.on)

    def _collect(self, refs: tuple[PassRef, ...]) -> tuple[list[Sealed], list[str]]:
        """The inputs, verified; and a line for each that is not whole or cannot be believed."""
        sealed, missing = [], []
        for ref in refs:
            try:
                _, one = self.client.pull_site(ref)
                trouble = f"the pass of {ref.site} is not whole in the store yet"
            except ProtocolError as error:
                one, trouble = None, f"the pass of {ref.site} is rejected: {error} ({error.hint})"
            if one is not None:
                sealed.append(one)
            else:
                missing.append(trouble)
                self.client.watch.forget(str(ref.site))
        return sealed, missing

    # -- aggregating -----------------------------------------------------------------------------

    def _make(self, now: _Round) -> Turn:
        """From the verdict to the published global."""
        client = self.client
        ref = PassRef(now.number)
        verdict = now.verdict
        assert verdict is not None  # noqa: S101  the caller decided
        candidate = client.mirror.sealed(ref)
        if candidate is not None and not _made_by(candidate, verdict):
            client.mirror.set_aside(ref)
            candidate = None
        if candidate is None:
            inputs = self._inputs_of(verdict.doc)
            if inputs is None:
                return Turn("waiting", f"round {now.number}: an input is not whole in the store", ref.number)
            candidate = self._aggregate(ref, now.base, inputs=inputs, verdict=verdict)
        self._publish(candidate, now.roster)
        return Turn("acted", f"published global {ref.number}", ref.number)

    def _inputs_of(self, verdict: Verdict) -> list[Sealed] | None:
        """Exactly the passes that the verdict names, by their hashes; None while one is not whole."""
        inputs = []
        for wanted in verdict.inputs:
            ref = PassRef(wanted.pass_id, wanted.site)
            sealed = self.client.mirror.sealed(ref)
            if sealed is None or sealed.sha256 != wanted.metrics_sha256:
                _, sealed = self.client.pull_site(ref)
            if sealed is None:
                return None
            if sealed.sha256 != wanted.metrics_sha256 or sealed.seal.model_sha256 != wanted.model_sha256:
                raise ProtocolError(
                    f"{ref.folder} is not what the verdict of round {verdict.pass_id} names",
                    hint="The store was altered: keep it as it is and show it to the lead's IT.",
                )
            inputs.append(sealed)
        return inputs

    def _aggregate(
        self, ref: PassRef, base: Sealed, *, inputs: list[Sealed], verdict: Stored[Verdict]
    ) -> Sealed:
        client = self.client
        client.drop_stage(ref)
        stage = client.stage(ref)
        client.lay_inputs(stage, inputs)
        call = aggregate_call(
            client.settings,
            stage,
            base=base.model,
            bases=client.lay_base(stage, base),
            pass_id=ref.number,
            seed=client.seed(ref.number),
            n_samples=sum(one.seal.n_samples for one in inputs),
        )
        client.seat(GLOBAL).tell("aggregating", ref.number)
        client.journal.note(GLOBAL, "aggregate", text=f"round {ref.number}: {len(inputs)} inputs")
        try:
            result = client.runner.run(call, stop=client.stop)
        except (HookError, DiskError) as error:
            self._failed(error, stage, phase="aggregating")
            raise
        record = client.record_of(verdict, base, should_stop=result.should_stop)
        sealed = self._seal(stage, result, base=base, record=record)
        text = f"global {ref.number}: {result.seconds:.1f} s"
        client.journal.note(GLOBAL, "seal", text=text, pass_id=ref.number, seconds=result.seconds)
        return sealed

    def _seal(self, stage: Stage, result: HookResult, *, base: Sealed | None, record: RoundRecord) -> Sealed:
        """Seal within the rules of least egress: these hooks can see the lead's data (law 8)."""
        try:
            return self.client.seal_global(
                stage, base=base, n_samples=result.n_samples, metrics=result.metrics, record=record
            )
        except EgressRefused as error:
            self._failed(error, stage, phase="sealing")
            raise

    def _publish(self, sealed: Sealed, roster: Roster) -> None:
        """Upload the candidate; after the last one the end marker is the next thing to say."""
        self.client.publish_global(sealed)
        if not sealed.seal.final:
            self.client.publish_orchestration(LeadView(roster, sealed.ref.number))

    def _failed(self, error: HookError | EgressRefused | DiskError, stage: Stage, *, phase: str) -> None:
        client = self.client
        model: Path | None = stage.model_path(client.settings.hooks.model_ext)
        if isinstance(error, DiskError):
            client.drop_stage(stage.ref)  # half a model on a full disk helps nobody
            model = None
        client.trail.last_error(error, pass_id=stage.ref.number, phase=phase, model_path=model)
        client.journal.note(GLOBAL, "error", text=str(error), pass_id=stage.ref.number)


def _made_by(candidate: Sealed, verdict: Stored[Verdict]) -> bool:
    """A candidate is valid only if it was made from exactly this verdict."""
    record = candidate.seal.round
    return record is not None and record.verdict_sha256 == verdict.sha256
