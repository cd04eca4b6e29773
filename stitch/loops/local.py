"""A site's loop as one idempotent step: look, then train, publish, or wait (docs/protocol.md).

Nothing is remembered that a fresh process could not read from store and mirror (law 4); what is
kept between steps only saves requests.
"""

from __future__ import annotations

from stitch import layout
from stitch.client import Client
from stitch.client.ended import RunEnded, check_end
from stitch.client.rebuild import published, rebuild, report_published
from stitch.client.spending import require_journal
from stitch.errors import BadDocument, ProtocolError
from stitch.layout import PassRef
from stitch.loops.evaluating import Evaluating
from stitch.loops.training import Training
from stitch.loops.unsent import Unsent
from stitch.mirror import Sealed
from stitch.rounds import Attempt, Turn
from stitch.sync.status import Status
from stitch.wire import MAX_BYTES, Done, Orchestration

QUIET_POLLS = 10
"""A waiting site looks at orchestration alone, and every tenth time at the files that count."""


class Local:
    """Turns of one site's loop."""

    name = "local"

    def __init__(self, client: Client) -> None:
        self.client = client
        self._evaluating = Evaluating(client)
        self._training = Training(client)
        self._prepared = False
        self._waiting: Turn | None = None
        self._quiet = 0
        self._seen = ""
        self._wanted: tuple[object, ...] = ()
        self._begun = False  # whether the manifest was there and ours, at the last tenth look
        self._settled = -1  # the newest global up to which our passes are known to be reported
        self._published_ref: PassRef | None = None  # our pass that is known to be published and reported
        self._held: Sealed | None = None  # what waits for a person
        self._unsent = Unsent(client)

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
        try:
            turn = self._look()
        except RunEnded:
            turn = Turn("acted", "the run was ended while a hook worked")
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
            return Turn("waiting", holder.said(client.lane))
        newest = client.newest_global() if self._begun else -1
        self._prepare(newest + 1)
        if newest < 0:
            why = "waiting for global 0" if self._begun else "the lead has not begun the run"
            return Turn("waiting", why)
        return self._work(newest)

    def _work(self, newest: int) -> Turn:
        client = self.client
        self._settle(newest)
        older = self._unsent.usable(newest + 1)
        if older is not None:
            return self._send(older)
        attempt, _ = client.attempt_of(newest + 1)
        ref = attempt.ref(client.site)
        if ref == self._published_ref:
            return self._wait(ref.number)
        sealed = client.mirror.sealed(ref)
        if sealed is None and client.passes.stat_seal(ref) is not None:
            status = client.adopt_site_pass(ref)
        elif sealed is not None:
            return self._send(sealed)
        else:
            return self._train_from(newest, attempt)
        return self._after(ref, status)

    def _send(self, sealed: Sealed) -> Turn:
        """Publish, or wait for the person who must see it first."""
        number = sealed.ref.number
        status = self.client.publish_site_pass(sealed)
        if status is not Status.HELD:
            return self._after(sealed.ref, status)
        self._held = sealed
        self.client.seat(self.client.lane).tell("waiting", number)
        why = f"pass {number} is held for review: `clif-stitch outbox show`, then approve or refuse"
        return Turn("waiting", why, number)

    def _after(self, ref: PassRef, status: Status) -> Turn:
        pass_id = ref.number
        if status not in (Status.UPLOADED, Status.ALREADY_SYNCED):
            return Turn("waiting", f"our own pass {pass_id} is not whole in the store yet", pass_id)
        self._published_ref = ref
        if status is Status.ALREADY_SYNCED:
            return self._wait(pass_id)
        return Turn("acted", f"published pass {pass_id}", pass_id)

    def _train_from(self, newest: int, attempt: Attempt) -> Turn:
        client = self.client
        ref = attempt.ref(client.site)
        _, base = client.fetch_global(newest)
        if base is None:
            return Turn("waiting", f"global {newest} is not whole in the store yet", newest)
        if base.seal.final:
            return self._finish(newest, None)
        idle = self._idle_by_roster(attempt)
        if idle:
            return Turn("waiting", idle, ref.number)
        if self._evaluating.score(base):  # a turn of its own: a newer global may have come meanwhile
            return Turn("acted", f"evaluated global {newest}", newest)
        return self._send(self._training.train(ref, base))

    def _wait(self, pass_id: int) -> Turn:
        if self._evaluating.wants(pass_id - 1):  # whoever sealed this pass had no score of its base
            _, base = self.client.fetch_global(pass_id - 1)
            if base is not None and self._evaluating.score(base):
                return Turn("acted", f"evaluated global {pass_id - 1}", pass_id - 1)
        self.client.seat(self.client.lane).tell("waiting", pass_id)
        return Turn("waiting", f"waiting for global {pass_id}", pass_id)

    def _idle_by_roster(self, wanted: Attempt) -> str:
        """Why this site does not train for an attempt; "" when it does."""
        roster = self.client.newest_roster()
        if roster is None or self.client.site in roster.expected_in(wanted.pass_id, wanted.attempt):
            return ""
        entry = next((one for one in roster.sites if one.site == self.client.site), None)
        if entry is None:
            return "this site is not on the roster (the lead adds it: clif-stitch sites add)"
        if entry.state == "paused":
            return "the lead has paused this site"
        return "this site takes part from the next round on"

    # -- once a process --------------------------------------------------------------------------

    def _prepare(self, wanted: int) -> None:
        """Join, once the pins hold; set aside what no round can use; bring back what this mirror lost."""
        if self._prepared:
            return
        client = self.client
        client.join(wanted=wanted)
        there = published(client)
        require_journal(client, there)
        self._unsent.set_aside(wanted, there)
        rebuild(client, client.lane, below=wanted)
        self._prepared = True

    def _settle(self, newest: int) -> None:
        """Report what is published and was not reported by whoever died then: seals imply `completed`."""
        client = self.client
        if newest <= self._settled:
            return
        report_published(client, upto=newest + 1)
        self._settled = newest

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
            self._evaluating.score_final(sealed)
        early = final is not None and final < client.settings.num_passes
        why = done.reason if done else "early_stopped" if early else "completed"
        return Turn("done", f"run complete: {why}", final, final_pass=final)


def _wanted(data: bytes) -> tuple[object, ...]:
    """What orchestration wants of a site; a view that cannot be read is no reason to stop looking."""
    try:
        view = Orchestration.parse(data, source=layout.orchestration())
    except ProtocolError:
        return (data,)
    return (
        view.directive.base,
        view.phase == "complete",
        view.current_pass,
        view.attempt,
        view.directive.expected,
    )
