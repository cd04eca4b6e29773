"""Misfortune for a federation whose rounds close over a quorum, and a lead who meddles with the roster."""

from __future__ import annotations

from pathlib import Path

from stitch.client import Client, Setup
from stitch.client.operator import Change, ask_redo, change_roster
from stitch.config.policy import Policy
from stitch.errors import StitchError
from stitch.testing.federation import INTERVAL_S
from tests.property.chaos import Chaos

CHANGES: tuple[Change, ...] = ("drop", "pause", "resume", "add")


class ElasticChaos(Chaos):
    """One history under `policy.require = "quorum"`.

    Args:
        seed: decides everything.
        folder: takes the mirrors.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        count = len(self.federation.sites)
        self.federation.changes["policy"] = Policy(
            "quorum",
            min_participants=self.chance.randint(1, count),
            open_timeout=self.chance.choice((1, 3, 8)) * INTERVAL_S,
            collect_timeout=self.chance.choice((1, 3, 8)) * INTERVAL_S,
            retry_budget=self.chance.choice((0, 1, 3)),
        )
        self.meddling = self.chance.choice((0.0, 0.02, 0.1))

    def act(self) -> None:
        """Whatever happens next; sometimes the lead's person does something."""
        if self.left > 0 and self.chance.random() < self.meddling:
            self.meddle(self.chance.choice((*CHANGES, "redo")))
        super().act()

    def meddle(self, change: str, site: str = "") -> None:
        """A command of the lead's person, in a process of its own."""
        site = site or self.chance.choice(self.federation.sites)
        lead = self.federation.sites[0]
        client = Client(
            self.federation.settings(lead),
            Setup(clock=self.federation.clock_of(lead), lanes=self.federation.lanes(self.federation.record)),
        )
        try:
            if change == "redo":
                ask_redo(client, site)
            else:
                change_roster(client, next(one for one in CHANGES if one == change), site=site)
        except StitchError as error:
            self.say(f"{change} {site}: {error}")
        else:
            self.say(f"{change} {site}")

    def calm_down(self) -> None:
        """Everybody is back on the roster, and works until the run is over."""
        self.wild = False
        for site in self.federation.sites:
            for change in ("add", "resume"):
                self.meddle(change, site)
        super().calm_down()
