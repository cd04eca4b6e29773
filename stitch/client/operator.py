"""What a person at the lead does to a run under way: change the roster, ask for a redo, end it.

Each creates one document that the loops find at their next poll; none needs the lease (law 10), so
the lead's own process goes on beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from stitch import layout
from stitch.client.client import Client
from stitch.client.lead_view import LeadView
from stitch.errors import ConfigError, OutcomeUnknown, ProtocolError, RoundError
from stitch.wire import Done, Roster, RosterSite

Change = Literal["add", "drop", "pause", "resume"]

REDO_REQUESTED = "redo_requested"

_TRIES = 8


def change_roster(client: Client, change: Change, *, site: str, key: str | None = None) -> Roster:
    """Write the next roster.

    `drop` and `pause` hold at once, for any round that has no verdict yet; `add` and `resume` from
    the next attempt on, mostly that of the next round: who is waited for does not grow under way.

    Args:
        client: the lead's.
        change: what to do.
        site: whom it is about.
        key: with `add`, the fingerprint of the site's public key.

    Raises:
        ConfigError: this is not the lead, the change makes no sense now, or nobody would be left.
        ProtocolError: the run has not begun, or is over.
    """
    _require_a_run(client)
    for _ in range(_TRIES):
        roster = client.roster()
        sites = _CHANGES[change](roster, _Wish(site, key, *_following(client)))
        if not any(one.state == "active" for one in sites):
            raise ConfigError(
                f"without {site} nobody would be left", hint="Use `clif-stitch end` to end the run."
            )
        doc = Roster.make(
            run_id=client.settings.run_id,
            number=roster.number + 1,
            sites=sites,
            reason=f"{change} {site}",
            created_at=client.clock.now(),
        )
        stored = client.documents.create(layout.roster(doc.number), doc)
        if stored.ours or not stored.conflict:
            client.journal.note(layout.GLOBAL, "verdict", text=f"roster {doc.number}: {change} {site}")
            _show(client, stored.doc)
            return stored.doc
    raise OutcomeUnknown("others change the roster all the time", hint="Run the same command again.")


def ask_redo(client: Client, site: str) -> int:
    """End the attempt under way and ask a site for a new pass; the others' passes stay staged.

    A closed attempt is given up by its marker: where the aggregate hook fails on a pass each time, there
    is no other way on. A global that is sealed all the same overrules it (law 2).

    Returns:
        The round.

    Raises:
        RoundError: there is no global yet.
        ConfigError, ProtocolError: as for `change_roster`.
    """
    _require_a_run(client)
    number = client.newest_global() + 1
    if number < 1:
        raise RoundError("there is no global yet, so there is no pass to redo", hint="Wait for global 0.")
    roster = client.roster()
    for _ in range(_TRIES):
        attempt, verdict = client.attempt_of(number)
        if site not in roster.expected_in(number, attempt.attempt):
            raise ConfigError(f"round {number} does not wait for {site}", hint="See: clif-stitch sites")
        reason = f"the lead asked {site} for a new pass"
        if verdict is not None:
            # Nobody looks at the next attempt before the marker is there: both are in force at once.
            following = attempt.after(redo=(), at=verdict.entry.modified)
            client.abort_attempt(following, roster, code=REDO_REQUESTED, reason=reason, redo=[site])
            client.give_up(attempt, code=REDO_REQUESTED)
            return _asked(client, roster, number)
        stored = client.abort_attempt(attempt, roster, code=REDO_REQUESTED, reason=reason, redo=[site])
        if stored.doc.verdict == "aborted" and site in stored.doc.redo:
            return _asked(client, roster, number)
        # The lead's own process decided first: the next look finds what it decided.
    raise OutcomeUnknown("the lead decides all the time", hint="Run the same command again.")


def _asked(client: Client, roster: Roster, number: int) -> int:
    """Tell everybody of the attempt that is under way now."""
    attempt = client.attempt_of(number)[0].attempt
    client.publish_orchestration(LeadView(roster, number - 1, attempt=attempt))
    client.forget_orchestration()
    return number


def end_run(client: Client, reason: str) -> Done:
    """Write the end marker over the newest global; every loop and running hook stops within a poll.

    Returns:
        The marker that is there now: a run ends once.

    Raises:
        ConfigError: this is not the lead.
        ProtocolError: the run has not begun.
    """
    client.require_lead()
    done = client.done()
    if done is not None:
        return done
    _require_a_run(client)
    newest = client.newest_global()
    done = client.write_end_marker(newest if newest >= 0 else None, reason)
    client.forget_orchestration()
    return done


@dataclass(frozen=True, slots=True)
class _Wish:
    """A change that is asked for: the site, its key, and the attempt after the one under way."""

    site: str
    key: str | None
    since: int
    since_attempt: int


def _following(client: Client) -> tuple[int, int]:
    """The attempt after the one under way: the same round's, should that one be given up."""
    newest = client.newest_global()
    if newest < 0:
        return 1, 0
    return newest + 1, client.attempt_of(newest + 1)[0].attempt + 1


def _added(roster: Roster, wish: _Wish) -> tuple[RosterSite, ...]:
    there = _entry(roster, wish.site)
    if there is not None and there.key == wish.key:
        again = "resume" if there.state == "paused" else "drop"
        raise ConfigError(
            f"{wish.site} is on the roster already", hint=f"Perhaps: clif-stitch sites {again} {wish.site}"
        )
    fresh = RosterSite(site=wish.site, key=wish.key, since=wish.since, since_attempt=wish.since_attempt)
    if there is not None:  # a new key for a site that takes part
        fresh = there.model_copy(update={"key": wish.key})
    return (*(one for one in roster.sites if one.site != wish.site), fresh)


def _dropped(roster: Roster, wish: _Wish) -> tuple[RosterSite, ...]:
    _require(roster, wish.site)
    return tuple(one for one in roster.sites if one.site != wish.site)


def _paused(roster: Roster, wish: _Wish) -> tuple[RosterSite, ...]:
    return _with_state(roster, wish.site, {"state": "paused"})


def _resumed(roster: Roster, wish: _Wish) -> tuple[RosterSite, ...]:
    return _with_state(
        roster, wish.site, {"state": "active", "since": wish.since, "since_attempt": wish.since_attempt}
    )


_CHANGES: dict[Change, Callable[[Roster, _Wish], tuple[RosterSite, ...]]] = {
    "add": _added,
    "drop": _dropped,
    "pause": _paused,
    "resume": _resumed,
}


def _with_state(roster: Roster, site: str, state: dict[str, object]) -> tuple[RosterSite, ...]:
    there = _require(roster, site)
    if there.state == state["state"]:
        raise ConfigError(f"{site} is {there.state} already", hint="See: clif-stitch sites")
    return tuple(one.model_copy(update=state) if one.site == site else one for one in roster.sites)


def _entry(roster: Roster, site: str) -> RosterSite | None:
    return next((one for one in roster.sites if one.site == site), None)


def _require(roster: Roster, site: str) -> RosterSite:
    there = _entry(roster, site)
    if there is None:
        names = ", ".join(sorted(one.site for one in roster.sites))
        raise ConfigError(f"{site} is not on the roster ({names})", hint="See: clif-stitch sites")
    return there


def _require_a_run(client: Client) -> None:
    client.require_lead()
    if not client.check_manifest():
        raise ProtocolError("the run has not begun", hint="Start it first: clif-stitch run")
    done = client.done()
    if done is not None:
        raise ProtocolError(f"the run is over: {done.reason}", hint="Begin a new one under another run_id.")


def _show(client: Client, roster: Roster) -> None:
    """Tell everybody at their next poll; the view of the round under way is the loop's to complete."""
    base = client.newest_global()
    attempt = client.attempt_of(base + 1)[0].attempt if base >= 0 else 0
    client.publish_orchestration(LeadView(roster, base if base >= 0 else None, attempt=attempt))
    client.forget_orchestration()
