"""Misfortune for a federation whose rounds take what has come, fresh or stale; the lead meddles as well."""

from __future__ import annotations

from pathlib import Path

from stitch.config.policy import Policy
from stitch.config.weighting import CONSTANT, Weighting
from stitch.layout import PassRef
from stitch.testing.federation import INTERVAL_S
from stitch.testing.processes import Process
from tests.property.elastic_chaos import ElasticChaos

WEIGHTINGS = (CONSTANT, Weighting("polynomial", 0.5), Weighting("hinge", 1.0, 1.0))


class BufferedChaos(ElasticChaos):
    """One history under `policy.require = "buffered"`: short, since there are many.

    Args:
        seed: decides everything.
        folder: takes the mirrors.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        chance, federation = self.chance, self.federation
        federation.num_passes = chance.choice((3, 4, 5))
        federation.changes["policy"] = Policy(
            "buffered",
            buffer_size=chance.choice((1, 1, 2, len(federation.sites) + 1)),
            window_seconds=chance.choice((0.5, 1, 3)) * INTERVAL_S,
            max_staleness=chance.choice((0, 1, 2, 2, 4)),
            weighting=chance.choice(WEIGHTINGS),
            retry_budget=chance.choice((0, 1, 3)),
        )
        self.left = chance.randint(10, 50)
        self.trouble = min(self.trouble, self.left // 3)
        self.slow = chance.choice((0, 3, 6, 9))
        self.slowest = chance.choice(federation.sites)

    def _before(self, process: Process, what: str, *, key: str) -> None:
        slow = self.slow > 0 and process.site == self.slowest and len(self.federation.stack) < 4
        if what == "train" and slow and key != "pass_000":
            self._train_for_long(process, int(key.removeprefix("pass_")))
        super()._before(process, what, key=key)

    def _train_for_long(self, process: Process, number: int) -> None:
        """Others go on, also in calm times: rounds close, while this one is at work on an older global."""
        self.slow -= 1
        behind = self.chance.choice((1, 1, 2, 3))
        self.say(f"{process} trains {number} until it is {behind} behind")
        for _ in range(10):
            if self.federation.seal(PassRef(number - 1 + behind)) is not None:
                break
            for one in self.federation.alive():
                one.turns()
            self.federation.advance(30.0)
        self.say(f"{process} has trained {number}")
