"""From open to a verdict: look at the sites, ask the policy, have the inputs collected, decide (law 11)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from stitch.client import Client
from stitch.errors import ConfigError, RoundError
from stitch.layout import GLOBAL
from stitch.loops.aborting import Aborting
from stitch.loops.collecting import Collecting, Look
from stitch.loops.round import Round
from stitch.rounds import (
    NO_SAMPLES,
    Abort,
    Close,
    RoundFiles,
    RoundState,
    RoundView,
    Turn,
    Wait,
    close_policy,
    derive,
)


class Closing:
    """Brings a round to its verdict.

    Args:
        client: the lead's.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._policy = close_policy(client.settings.policy)
        self._aborting = Aborting(client, needed=self._policy.needed)
        self._collecting = Collecting(client, self._aborting, timed=self._policy.timed)

    def decide(self, now: Round) -> Turn | None:
        """Ask the policy; None once the round has a closed verdict.

        Raises:
            QuorumNotReached: the budget of attempts is used up.
            CommitmentMismatch: a site declares other data than it began with, and that costs the round.
            HookError: the admit hook failed.
            RoundError: no site contributed a sample.
        """
        look = Look(self._client.ready(now.attempt, now.expected))
        fresh = False
        while True:
            decision = self._policy.verdict(self._view(now, look), self._moment())
            if isinstance(decision, Wait):
                return self._wait(now, decision, look=look)
            if isinstance(decision, Abort) and not fresh:
                # Nothing is given up on what was seen a while ago: every lane is read once more.
                self._client.watch.refresh()
                look, fresh = Look(self._client.ready(now.attempt, now.expected)), True
                continue
            if self._another_roster(now):
                return Turn("acted", "the roster changed", now.number)
            if isinstance(decision, Abort):
                return self._aborting.abort(now, decision)
            assert isinstance(decision, Close)  # noqa: S101  Done is not a policy's to say
            if self._collecting.collect(now, decision.inputs, look=look):
                if self._another_roster(now):  # pulling may have taken hours
                    return Turn("acted", "the roster changed", now.number)
                return self._close(now, decision, look=look)

    def _another_roster(self, now: Round) -> bool:
        """Whether the verdict would not name the newest roster (law 11)."""
        return self._client.roster().number != now.roster.number

    def _moment(self) -> datetime:
        client = self._client
        return client.lanes.now(GLOBAL) if self._policy.timed else client.clock.now()

    def _view(self, now: Round, look: Look) -> RoundView:
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
            aborts=self._aborting.count,
            opened_at=now.opened_at,
            last_global_at=now.opened_at,
        )

    def _wait(self, now: Round, decision: Wait, *, look: Look) -> Turn:
        client = self._client
        self._aborting.waited()
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

    def _close(self, now: Round, decision: Close, *, look: Look) -> Turn | None:
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
