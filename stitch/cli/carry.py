"""`clif-stitch carry`: a lane on a stick or through a one-way diode, for a site without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stitch.cli.carry_report import carrier_here, conclude
from stitch.cli.whole_help import WholeHelp

carry = typer.Typer(
    cls=WholeHelp, help="Carry a lane's files by hand: a site without a network.", no_args_is_help=True
)

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder on the stick.", file_okay=False, show_default=False)
]
Site = Annotated[
    str | None,
    typer.Option("--site", metavar="ID", help="Whose lane; by default this site's.", show_default=False),
]


@carry.command("out")
def out(
    folder: Folder,
    *,
    site: Site = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what was carried before: a stick was lost.")
    ] = False,
) -> None:
    """Write what was not carried yet into DIR, with a list of hashes."""
    conclude(carrier_here(site).out(folder, everything=everything), folder, into="the folder")


@carry.command("in")
def bring_in(folder: Folder, *, site: Site = None) -> None:
    """Write what DIR holds into this machine's store; every hash is checked, nothing overwritten."""
    conclude(carrier_here(site).bring_in(folder), folder, into="the store")
