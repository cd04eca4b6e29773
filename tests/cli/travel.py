"""A site without a network, a stick, and a machine that has one: what tests of `carry` start from."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.cli.federation import Federation, Said, Site

LIFE = ("heartbeat.json", "term-", ".lock")
"""What is never carried, or written by looking."""


@dataclass
class Travel:
    """A federation whose site nu has no network: a folder of its own, a stick, and a machine that has one."""

    federation: Federation
    helper: Site
    stick: Path

    @property
    def nu(self) -> Site:
        return self.federation.nu

    @property
    def replica(self) -> Path:
        """The run in the folder that is nu's store."""
        return self.nu.root / "island" / "icu"

    def carry(self, site: Site, way: str, *words: str, code: int = 0) -> Said:
        said = site.call("carry", way, str(self.stick), *words)
        assert said.code == code, said
        return said

    def to_the_end(self) -> None:
        """Turns by a scheduler and trips both ways, until lead and site are done."""
        codes = {"rush": 0, "nu": 0}
        self.nu.call("step")  # before anything was carried, it waits for the lead
        for _ in range(12):
            codes["rush"] = self.federation.lead.call("step", "--exit-code").code
            self.down()
            codes["nu"] = self.nu.call("step", "--exit-code").code
            self.up()
            if set(codes.values()) == {4}:
                return
        raise AssertionError(f"they do not come to an end: {codes}")

    def up(self) -> None:
        """From the site to the store."""
        self.carry(self.nu, "out")
        self.carry(self.helper, "in")

    def down(self) -> None:
        """From the store to the site."""
        self.carry(self.helper, "out")
        self.carry(self.nu, "in")


def travel_of(federation: Federation, folder: Path) -> Travel:
    """Nu on an island of its own; its second project folder, on a machine with a network, in `folder`."""
    nu = federation.nu
    helper = Site(folder / "connected")
    shutil.copytree(nu.root, helper.root)  # nu's own token, on a machine with a network
    (nu.root / "island").mkdir()
    nu.write(".env", 'STITCH_STORE="island"\n')
    return Travel(federation, helper, folder / "stick")
