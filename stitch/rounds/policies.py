"""Close policies: when the lead turns site passes into a global. One class a policy."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from stitch.errors import ConfigError
from stitch.rounds.verdict import Close, Verdict, Wait
from stitch.rounds.view import RoundView


class ClosePolicy(Protocol):
    """Judges a view at a store time; pure.

    Attributes:
        name: as in `[policy] require`.
        timed: whether the time matters; if not, the store's clock is not asked.
    """

    name: str
    timed: bool

    def verdict(self, view: RoundView, now: datetime) -> Verdict:
        """What to do with the round as it stands."""
        ...


class AllExpected:
    """Waits for every expected site, without a deadline: absence is never a decision (law 7)."""

    name = "all_expected"
    timed = False

    def verdict(self, view: RoundView, now: datetime) -> Verdict:  # noqa: ARG002  no deadline, no clock
        """Close when every expected site has a pass; wait otherwise, for as long as it takes."""
        missing = tuple(sorted(view.expected - view.ready_sites))
        if not view.expected:
            return Wait("the roster is empty")
        if missing:
            return Wait(f"waiting for {', '.join(missing)}", on=missing)
        inputs = (ref for ref in view.ready if ref.site in view.expected and ref not in view.consumed)
        return Close(tuple(sorted(inputs, key=lambda ref: ref.site or "")))


def close_policy(require: str) -> ClosePolicy:
    """The policy named in `[policy] require`.

    Raises:
        ConfigError: there is none of that name.
    """
    if require == AllExpected.name:
        return AllExpected()
    raise ConfigError(f'policy.require = "{require}" is not known', hint='Use require = "all_expected".')
