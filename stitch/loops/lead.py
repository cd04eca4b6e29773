"""The lead's loop as one idempotent step: observe, close, aggregate, publish (docs/protocol.md)."""

from __future__ import annotations

from stitch.client import Client
from stitch.client.calls import train_call
from stitch.client.carried import bring_back, read_carried
from stitch.client.ended import RunEnded, check_end, run_hook
from stitch.client.initial import lay_initial_model
from stitch.client.lead_view import LeadView
from stitch.client.rebuild import drop_losers, rebuild
from stitch.errors import DiskError, HookError
from stitch.layout import GLOBAL, PassRef
from stitch.loops.closing import Closing
from stitch.loops.local import QUIET_POLLS
from stitch.loops.making import Making
from stitch.loops.round import Round
from stitch.mirror import Sealed
from stitch.rounds import RoundMachine, Turn


class Lead:
    """Turns of the lead's loop; the lead's own training is a `Local` beside it."""

    name = "lead"

    def __init__(self, client: Client) -> None:
        self.client = client
        self._closing = Closing(client)
        self._making = Making(client)
        self._prepared = self._rebuilt = False
        self._round: Round | None = None
        self._quiet = 0

    def step(self) -> Turn:
        """One turn; returns at once, also when there is nothing to do.

        Raises:
            HookError: the aggregate hook, or the training of pass 0, failed.
            RoundError: a quorum was not reached within the budget, no site contributed a sample, the
                aggregate hook is not deterministic, or the lane was lost.
            StoreError, ProtocolError: as they come; the next turn begins afresh.
        """
        try:
            return self._step()
        except RunEnded:
            self._round = None
            self.client.drop_stages(GLOBAL)
            return Turn("acted", "the run was ended while a hook worked")

    def _step(self) -> Turn:
        if self._round is None or self._quiet >= QUIET_POLLS or self.client.orchestration_moved():
            turn = self._observe()
            if turn is not None:
                return turn
        now = self._round
        assert now is not None  # noqa: S101  _observe sets it or returns a turn
        if now.verdict is None:
            turn = self._closing.decide(now)
            if turn is not None:
                self._quiet += 1
                if turn.state == "acted":
                    self._round = None
                return turn
        verdict = now.verdict
        assert verdict is not None  # noqa: S101  a decision without a turn leaves one
        self._round = None  # law 4: whatever comes of it, the next turn looks at everything again
        turn = self._making.make(now, verdict)
        if turn.state == "acted":
            self._announce(now.number)
        return turn

    def _announce(self, newest: int) -> None:
        """Publish what comes after a global; after the last one that is the end marker's business."""
        sealed = self.client.mirror.sealed(PassRef(newest))
        if sealed is not None and not sealed.seal.final:
            self.client.publish_orchestration(LeadView(self.client.roster(), newest))

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
            return Turn("waiting", holder.said(GLOBAL))
        if not self._prepared:
            client.begin()
            self._prepared = True
        seat.still()
        newest = client.newest_global()
        if newest < 0:
            return self._initialize()
        base = client.require_global(newest)
        if not self._rebuilt:
            rebuild(client, GLOBAL, below=newest)
            drop_losers(client, base)
            bring_back(client)
            self._rebuilt = True
        if base.seal.final or newest >= client.settings.num_passes:
            early = newest < client.settings.num_passes
            client.write_end_marker(newest, "early_stopped" if early else "completed")
            return Turn("acted", "wrote the end marker", newest)
        self._round = self._open(base)
        return None

    def _open(self, base: Sealed) -> Round:
        """The round after a global, as the files have it."""
        client = self.client
        roster = client.roster()
        client.reach(entry.site for entry in roster.sites)
        attempt, verdict = client.attempt_of(base.ref.number + 1)
        opened = attempt.opened_at
        if opened is None:
            entry = client.passes.stat_seal(base.ref)
            opened = entry.modified if entry else None
        machine = RoundMachine(attempt.pass_id, attempt.attempt)
        return Round(base, roster, attempt, verdict, opened, machine)

    # -- pass 0 ----------------------------------------------------------------------------------

    def _initialize(self) -> Turn:
        client = self.client
        ref = PassRef(0)
        sealed = client.mirror.sealed(ref)
        if sealed is None:
            client.publish_orchestration(LeadView(client.roster(), None))
            sealed = self._first(ref)
        client.publish_global(sealed)
        self._announce(0)
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
            result = run_hook(client, call)
            config = read_carried(call).config
        except (HookError, DiskError) as error:
            if client.settings.privacy.data_free_start and isinstance(error, HookError):
                error.hint = (
                    "data_free_start: train(None) finds no data. Give initial_model, or let it need none."
                )
            self._making.failed(error, stage, phase="initializing")
            raise
        record = record.model_copy(update={"config": dict(config)})
        return self._making.seal(stage, result, base=None, record=record)
