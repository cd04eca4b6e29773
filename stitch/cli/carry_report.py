"""What a carrying came to, for the person with the stick."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import typer

from stitch.client.carry import Carrier
from stitch.client.carry_list import Carried
from stitch.client.lanes import open_lanes
from stitch.clock import SystemClock
from stitch.config import load_settings
from stitch.errors import AlreadyExists, ConfigError, DigestMismatch
from stitch.mirror import Mirror
from stitch.views.words import plain

_LINES = 20


def carrier_here(site: str | None) -> Carrier:
    """Carries for the project in the current folder.

    Raises:
        ConfigError: there is no project here, or no store URL for the lanes that are carried.
    """
    settings = load_settings(Path.cwd(), os.environ, site=site)
    if not (settings.urls.global_ and settings.urls.site):
        raise ConfigError(
            "no store URL is set: STITCH_STORE, or STITCH_STORE_GLOBAL and STITCH_STORE_SITE",
            hint="At a site without a network it is a plain folder of its own, which you make once.",
        )
    lanes = open_lanes(settings, clock=SystemClock(), stop=threading.Event())
    return Carrier(
        settings, lanes, mirror=Mirror(settings.mirror_dir), tell=lambda path: typer.echo(plain(path))
    )


def conclude(carried: Carried, folder: Path, *, into: str) -> None:
    """Say what was carried, and what was not.

    Raises:
        AlreadyExists: the store holds something else under a carried name.
        DigestMismatch: a file is not what the list says.
    """
    for line in (*carried.waiting, *carried.damaged)[:_LINES]:
        typer.echo(plain(f"left out: {line}"))
    typer.echo(
        f"{carried.lane}: {len(carried.moved)} files written into {into}, {carried.already} were there before"
    )
    if carried.conflicts:
        more = "" if len(carried.conflicts) == 1 else f" and {len(carried.conflicts) - 1} more"
        raise AlreadyExists(
            f"CONFLICT: {carried.conflicts[0]}{more}: the store holds something else; it was kept as it is",
            hint="Two machines worked for this site: show `clif-stitch status` to the lead.",
        )
    if carried.damaged:
        raise DigestMismatch(
            f"{len(carried.damaged)} files could not be used; the first: {carried.damaged[0]}",
            hint=f"Run `clif-stitch carry out --all`, copy {folder.name} anew, and repeat this command.",
        )
