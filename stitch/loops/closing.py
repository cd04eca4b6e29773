"""From open to a verdict: look at the sites, ask the policy, verify and admit, decide (laws 7 and 11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from stitch import layout
from stitch.client import Client
from stitch.client.admission import admit
from stitch.client.inspection import looks_into, unfit_model
from stitch.client.watch import Ready
from stitch.errors import (
    CommitmentMismatch,
    ConfigError,
    DiskError,
    HookError,
    ProtocolError,
    QuorumNotReached,
    RoundError,
    StoreError,
)
from stitch.layout import GLOBAL, PassRef
from stitch.loops.round import Round
from stitch.mirror import Sealed
from stitch.rounds import (
    NO_SAMPLES,
    Abort,
    Close,
    Code,
    Reason,
    RoundFiles,
    RoundState,
    RoundView,
    Turn,
    Wait,
    close_policy,
    derive,
)
from stitch.wire import Verdict

BELOW_QUORUM = "quorum_not_reached"
MISMATCH = "commitment_mismatch"

_REASON = 300
"""Characters that a verdict gives to the reason for leaving a site out."""


@dataclass(slots=True)
class _Look:
    """One look at the sites, and what has come of it so far."""

    ready: Ready
    unready: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    admitted: list[Sealed] = field(default_factory=list)


class Closing:
    """Brings a round to its verdict.

    Args:
        client: the lead's.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._policy = close_policy(client.settings.policy)
        self._aborts = 0
        self._aborted_round = -1
        self._waited = False  # whether this process has waited for any attempt yet
        self._looked: dict[str, Reason | None] = {}  # what the admit hook said, by the hash of a seal

    def decide(self, now: Round) -> Turn | None:
        """Ask the policy; None once the round has a closed verdict.

        Raises:
            QuorumNotReached: the budget of attempts is used up.
            RoundError: no site contributed a sample.
        """
        look = _Look(self._client.ready(now.attempt, now.expected))
        fresh = False
        while True:
            decision = self._policy.verdict(self._view(now, look), self._moment())
            if isinstance(decision, Wait):
                return self._wait(now, decision, look=look)
            if isinstance(decision, Abort) and not fresh:
                # Nothing is given up on what was seen a while ago: every lane is read once more.
                self._client.watch.refresh()
                look, fresh = _Look(self._client.ready(now.attempt, now.expected)), True
                continue
            if self._another_roster(now):
                return Turn("acted", "the roster changed", now.number)
            if isinstance(decision, Abort):
                return self._abort(now, decision)
            assert isinstance(decision, Close)  # noqa: S101  Done is not a policy's to say
            if self._collect(now, decision.inputs, look=look):
                if self._another_roster(now):  # pulling may have taken hours
                    return Turn("acted", "the roster changed", now.number)
                return self._close(now, decision, look=look)

    def _another_roster(self, now: Round) -> bool:
        """Whether the verdict would not name the newest roster (law 11)."""
        return self._client.roster().number != now.roster.number

    def _moment(self) -> datetime:
        client = self._client
        return client.lanes.now(GLOBAL) if self._policy.timed else client.clock.now()

    def _view(self, now: Round, look: _Look) -> RoundView:
        client, expected = self._client, frozenset(now.expected)
        started = (
            client.watch.started(expected, ready=look.ready) if self._policy.starts else look.ready.sealed
        )
        now.machine.adopt(derive(RoundFiles(started=len(started), needed=self._policy.needed)))
        usable = (ref for site, ref in look.ready.refs.items() if site not in look.unready)
        return RoundView(
            pass_id=now.number,
            attempt=now.attempt.attempt,
            expected=expected,
            started=started,
            ready={ref: ref.number - 1 for ref in usable},  # what admission holds it to
            excluded=now.left_out(look.ready.refs),
            unreadable=frozenset({*look.ready.unreadable, *client.watch.unlisted(), *look.unknown}),
            aborts=self._aborts,
            opened_at=now.opened_at,
            last_global_at=now.opened_at,
        )

    def _wait(self, now: Round, decision: Wait, *, look: _Look) -> Turn:
        client, self._waited = self._client, True
        status = client.watch.status(now.expected, ready=look.ready)
        if now.machine.state is RoundState.OPEN and not self._policy.starts:
            started = sum(word in ("training", "completed") for word in status.values())
            now.machine.adopt(derive(RoundFiles(started=started)))
        news = (status, now.machine.state, decision.until)
        if news != now.published:
            client.publish_orchestration(now.view(status, deadline=decision.until))
            now.published = news
        client.seat(GLOBAL).tell("waiting", now.number)
        until = "" if decision.until is None else f" until {decision.until:%Y-%m-%d %H:%M:%S} UTC"
        told = set(decision.on) and set(decision.on) <= look.unready.keys()  # why says more than for whom
        parts = ["" if told else decision.why + until, *look.unready.values()]
        parts += [f"{site} cannot be read: {why}" for site, why in look.ready.unreadable.items()]
        parts += [
            f"the pass of {site} is rejected: {why}" for site, why in now.left_out(look.ready.refs).items()
        ]
        if look.ready.unreadable or look.unknown:
            parts.append(self._look_for_tokens())
        why = f"round {now.number}: {'; '.join(filter(None, parts))}"
        return Turn("waiting", why, now.number, on=decision.on)

    def _look_for_tokens(self) -> str:
        """One site's token may have been renewed alone; says what keeps `.env` from being read."""
        try:
            self._client.reopen()
        except ConfigError as error:
            return f"{error} ({error.hint})"
        return ""

    def _collect(self, now: Round, refs: Sequence[PassRef], *, look: _Look) -> bool:
        """Pull, verify and admit the inputs before the verdict (law 11); whether all of them can be used.

        What is not whole yet is waited for like what is not sealed. What cannot be believed or
        admitted is left out by a quorum; without one only what weighs nothing is left out.
        """
        look.admitted = []
        for ref in refs:
            site = str(ref.site)
            try:
                _, sealed = self._client.pull_site(ref)
                trouble = f"the pass of {site} is not whole in the store yet"
            except ProtocolError as error:
                sealed, trouble = None, f"the pass of {site} is rejected: {error} ({error.hint})"
                if self._policy.timed:
                    now.rejected[ref] = str(error)[:_REASON]  # it quotes what a site wrote
            except StoreError as error:
                sealed, trouble = None, self._unknown(look, site, error=error)
            if sealed is not None:
                look.admitted.append(sealed)
            else:
                self._not_ready(look, site, why=trouble)
        for ref, reason in self._admit(look).items():
            site = str(ref.site)
            if reason.code is Code.NOT_BOUND:  # law 7: a copied folder may still bring it
                self._not_ready(look, site, why=f"the started event of {site} is not there yet")
            elif reason.code is Code.COMMITMENT and self._client.settings.policy.on_mismatch == "abort":
                raise self._mismatch(now, site)
            else:
                now.rejected[ref] = reason
        return len(look.admitted) == len(refs)

    def _admit(self, look: _Look) -> dict[PassRef, Reason]:
        """Admit what was pulled, one by one; why others are not admitted."""
        pulled, look.admitted, excluded = look.admitted, [], dict[PassRef, Reason]()
        for sealed in pulled:
            site = str(sealed.ref.site)
            try:
                inputs, reasons = admit([sealed], self._client)
            except StoreError as error:
                self._not_ready(look, site, why=self._unknown(look, site, error=error))
                continue
            for fit in inputs:
                reason = self._inspected(fit)
                if reason is None:
                    look.admitted.append(fit)
                else:
                    reasons[site] = reason
            if site in reasons:
                excluded[sealed.ref] = reasons[site]
        return excluded

    def _inspected(self, sealed: Sealed) -> Reason | None:
        """What the admit hook says of a pass, or why it cannot be expanded, asked once.

        Raises:
            HookError: the hook itself failed.
        """
        client, number = self._client, int(sealed.seal.base_pass or 0)
        if not looks_into(client.settings):
            return None
        if sealed.sha256 not in self._looked:
            base = client.mirror.sealed(PassRef(number)) or client.require_global(number)
            try:
                self._looked[sealed.sha256] = unfit_model(
                    client, sealed.seal, ref=sealed.ref, model=sealed.model, base=base.model
                )
            except HookError as error:
                client.trail.last_error(
                    error, pass_id=sealed.ref.number, phase="admitting", model_path=sealed.model
                )
                raise
        return self._looked[sealed.sha256]

    def _unknown(self, look: _Look, site: str, *, error: StoreError) -> str:
        """Law 7: what happens to one lane is no reason to hold up the others, or to abort.

        Raises:
            DiskError: our own disk is the trouble, not the site's store.
        """
        if isinstance(error, DiskError):
            raise error
        look.unknown.add(site)
        return f"the pass of {site} cannot be read: {error}"

    def _not_ready(self, look: _Look, site: str, *, why: str) -> None:
        look.unready[site] = why
        self._client.watch.forget(site)

    def _mismatch(self, now: Round, site: str) -> CommitmentMismatch:
        """End the attempt and ask for a new pass: a broken commitment is never swallowed (RFC-0013, 7)."""
        client = self._client
        client.seat(GLOBAL).still()
        reason = f"{site} declares other data in its seal than when it started"
        stored = client.abort_attempt(now.attempt, now.roster, code=MISMATCH, reason=reason, redo=[site])
        if stored.doc.verdict != "aborted":
            hint = "Another lead has closed the round meanwhile: look at its verdict, and run one lead."
            return CommitmentMismatch(f"round {now.number}: {reason}", hint=hint)
        now.machine.to(RoundState.ABORTED)
        client.publish_orchestration(now.view())
        return CommitmentMismatch(
            f"round {now.number}: {reason}; the round was given up",
            hint=f"Ask {site} what changed its data, then run again: {site} is asked for a new pass.",
        )

    def _close(self, now: Round, decision: Close, *, look: _Look) -> Turn | None:
        client = self._client
        if sum(one.seal.n_samples for one in look.admitted) == 0:
            raise _nothing_left(now.number, decision.excluded)
        client.seat(GLOBAL).still()
        verdict = client.close_attempt(
            now.attempt, now.roster, inputs=look.admitted, excluded=decision.excluded
        )
        if verdict.doc.verdict != "closed":
            return Turn("acted", "the attempt was given up meanwhile", now.number)
        now.verdict = verdict
        return None

    def _way_out(self, expected: int) -> str:
        if expected < self._policy.needed:
            return f"The roster has {expected}: clif-stitch sites add, or resume, a site; then run again."
        return "Ask these sites what keeps them, then run again: what is sealed still counts."

    def _abort(self, now: Round, decision: Abort) -> Turn:
        """Give the attempt up, and the round when the budget is used up; a fresh process tries again."""
        client = self._client
        client.seat(GLOBAL).still()
        stored = client.abort_attempt(
            now.attempt, now.roster, code=BELOW_QUORUM, reason=decision.why, redo=decision.redo
        )
        if stored.doc.verdict != "aborted":
            return Turn("acted", "the attempt was closed meanwhile", now.number)
        now.machine.to(RoundState.ABORTED)
        self._count(now)
        client.publish_orchestration(now.view())
        if self._aborts > client.settings.policy.retry_budget:
            raise QuorumNotReached(
                f"round {now.number}: {decision.why}; given up after {self._aborts} "
                f"attempt{'s' if self._aborts > 1 else ''}",
                hint=self._way_out(len(now.expected)),
            )
        return Turn("acted", f"round {now.number}: attempt {now.attempt.attempt} was given up", now.number)

    def _count(self, now: Round) -> None:
        """Count the attempt that was given up just now.

        Law 7: what had run out before this process looked at it is none of its own attempts. Where each
        turn is a process of its own, those of the turns before count as well: the files name them.
        """
        if self._client.one_turn:
            codes = [self._code(now, attempt) for attempt in range(now.attempt.attempt + 1)]
            self._aborts = codes.count(BELOW_QUORUM)
            return
        before = self._aborts if self._aborted_round == now.number else 0
        self._aborts = before + 1 if self._waited else before
        self._aborted_round, self._waited = now.number, True

    def _code(self, now: Round, attempt: int) -> str | None:
        verdict = self._client.documents.read(layout.verdict(now.number, attempt), Verdict)
        return verdict.doc.code if verdict else None


def _nothing_left(number: int, excluded: Mapping[str, str]) -> RoundError:
    """A round that nobody has a part in: there is no global to make."""
    others = {site: why for site, why in sorted(excluded.items()) if why != NO_SAMPLES}
    if others:
        told = "; ".join(f"{site}: {why[:80]}" for site, why in others.items())
        return RoundError(
            f"round {number}: no pass can be used ({told}); no global was published",
            hint="Let these sites correct their hooks; then clif-stitch sites redo SITE, and run again.",
        )
    sites = ", ".join(sorted(excluded)) or "the roster is empty"
    return RoundError(
        f"round {number}: no site contributed a sample ({sites}); no global was published",
        hint="Let these sites check their cohorts, then begin a new run under another run_id.",
    )
