"""Giving an attempt up: below its quorum, or over other data than were declared; and the budget for it."""

from __future__ import annotations

from stitch import layout
from stitch.client import Client
from stitch.errors import CommitmentMismatch, QuorumNotReached
from stitch.layout import GLOBAL
from stitch.loops.round import Round
from stitch.rounds import Abort, RoundState, Turn
from stitch.wire import Verdict

BELOW_QUORUM = "quorum_not_reached"
MISMATCH = "commitment_mismatch"


class Aborting:
    """Gives attempts up, and counts them.

    Args:
        client: the lead's.
        needed: how many sites a round needs.

    Attributes:
        count: of the round that was last given up for its quorum, how many attempts count.
    """

    def __init__(self, client: Client, *, needed: int) -> None:
        self._client = client
        self._needed = needed
        self.count = 0
        self._round = -1
        self._waited = False  # whether this process has waited for any attempt yet

    def waited(self) -> None:
        """Note that this process has waited for an attempt: what runs out from now on is its own."""
        self._waited = True

    def abort(self, now: Round, decision: Abort) -> Turn:
        """Give the attempt up, and the round when the budget is used up; a fresh process tries again.

        Raises:
            QuorumNotReached: the budget of attempts is used up.
        """
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
        if self.count > client.settings.policy.retry_budget:
            raise QuorumNotReached(
                f"round {now.number}: {decision.why}; given up after {self.count} "
                f"attempt{'s' if self.count > 1 else ''}",
                hint=self._way_out(len(now.expected)),
            )
        return Turn("acted", f"round {now.number}: attempt {now.attempt.attempt} was given up", now.number)

    def mismatch(self, now: Round, site: str) -> CommitmentMismatch:
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

    def _way_out(self, expected: int) -> str:
        if expected < self._needed:
            return f"The roster has {expected}: clif-stitch sites add, or resume, a site; then run again."
        return "Ask these sites what keeps them, then run again: what is sealed still counts."

    def _count(self, now: Round) -> None:
        """Count the attempt that was given up just now.

        Law 7: what had run out before this process looked at it is none of its own attempts. Where each
        turn is a process of its own, those of the turns before count as well: the files name them.
        """
        if self._client.one_turn:
            codes = [self._code(now, attempt) for attempt in range(now.attempt.attempt + 1)]
            self.count = codes.count(BELOW_QUORUM)
            return
        before = self.count if self._round == now.number else 0
        self.count = before + 1 if self._waited else before
        self._round, self._waited = now.number, True

    def _code(self, now: Round, attempt: int) -> str | None:
        verdict = self._client.documents.read(layout.verdict(now.number, attempt), Verdict)
        return verdict.doc.code if verdict else None
