"""Which pass of a site a buffered round may look at: several rounds' passes lie in its lane at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stitch.layout import PassRef
from stitch.rounds.attempts import Attempt


@dataclass(frozen=True, slots=True)
class Buffer:
    """What earlier rounds say of the passes that a round finds.

    Attributes:
        attempts: by round, from the oldest whose passes may still be used to the one under way, the attempt
            that counts: it says which folder of a site is the one that was asked for.
        used: by site, the newest pass that a global was made of.
    """

    attempts: Mapping[int, Attempt] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)

    def newest(self, site: str, refs: Iterable[PassRef]) -> PassRef | None:
        """The one sealed pass of a site that counts; None if that one was used, or there is none.

        What an attempt asked to be redone is superseded with all that came before it, also in later rounds
        that the site's new pass has not reached yet.
        """
        wanted = [ref for ref in refs if ref.site == site and self._asked_for(ref)]
        newest = max(wanted, key=lambda ref: (ref.number, ref.attempt), default=None)
        return None if newest is None or newest.number <= self.used.get(site, 0) else newest

    def owed(self, ref: PassRef) -> bool:
        """Whether a pass lies where its own round asked for it; rounds too old to be asked had their turn."""
        attempt = self.attempts.get(ref.number)
        return attempt is None or attempt.ref(str(ref.site)) == ref

    def _asked_for(self, ref: PassRef) -> bool:
        if ref.number > max(self.attempts, default=ref.number):
            return False  # trained from a global that this lead has not seen: another one is ahead (law 11)
        redone = (one.pass_id for one in self.attempts.values() if one.redo.get(str(ref.site)))
        return self.owed(ref) and ref.number >= max(redone, default=0)
