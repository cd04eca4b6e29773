"""`clif-stitch setup`: run once at a site, and again whenever the lead sends a new URL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stitch.cli.doctor import doctor
from stitch.cli.setup_site import Console, set_up


def setup(
    kit: Annotated[
        Path | None, typer.Argument(metavar="[KIT]", help="A file of settings from the lead.")
    ] = None,
) -> None:
    """Say who and where this site is; writes config/config.json and .env, then runs doctor."""
    set_up(Path.cwd(), kit, terminal=Console())
    doctor()
