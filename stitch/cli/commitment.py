"""`clif-stitch commitment`: are the data here those that this site declared, and is a file among them?"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from stitch.cli.project import settings_here
from stitch.client import Client
from stitch.client.commitment import standing
from stitch.errors import CommitmentMismatch
from stitch.rounds.merkle import open_leaf
from stitch.views.opening import opening_json, standing_lines
from stitch.views.render import console


def commitment(
    file: Annotated[
        str, typer.Argument(metavar="[FILE]", help="Open the root for it alone: print stitch.opening/1.")
    ] = "",
) -> None:
    """Compare the data here with what this site declared, or show an auditor one file of them."""
    now = standing(Client(settings_here()))
    if file:
        opening = open_leaf(now.contents, os.fsencode(file), secret=now.secret)
        typer.echo(opening_json(opening), nl=False)
        return
    for line in standing_lines(now.root, now.declared):
        console().out(line)
    if now.declared and list(now.declared.values())[-1] != now.root:
        raise CommitmentMismatch(
            "the data here are not those that this site's newest pass declared",
            hint="Bring back the data of that time, or compare an older pass above.",
        )
