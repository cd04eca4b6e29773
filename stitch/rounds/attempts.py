"""The attempts of one round, read from its verdicts and abort markers (law 11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from stitch.layout import PassRef


@dataclass(frozen=True, slots=True)
class Attempt:
    """The attempt of a round that is under way: the first that was neither aborted nor given up.

    Attributes:
        pass_id: the global that the round is to make.
        attempt: which try.
        redo: by site, the attempt at which it was last asked for a new pass.
        opened_at: the store's time of what ended the attempt before; None for the first.
    """

    pass_id: int
    attempt: int = 0
    redo: Mapping[str, int] = field(default_factory=dict)
    opened_at: datetime | None = None

    def after(self, *, redo: tuple[str, ...], at: datetime) -> Attempt:
        """The next attempt, when this one was ended.

        Args:
            redo: the sites asked for a new pass; what the others sealed stays staged and counts.
            at: the store's time of the document that ended it.
        """
        number = self.attempt + 1
        return Attempt(self.pass_id, number, {**self.redo, **dict.fromkeys(redo, number)}, at)

    def ref(self, site: str) -> PassRef:
        """The pass that a site owes this round."""
        return PassRef(self.pass_id, site, self.redo.get(site, 0))
