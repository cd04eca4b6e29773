"""`clif-stitch end`: the lead ends the run for everybody."""

from __future__ import annotations

from typing import Annotated

import typer

from stitch.cli.project import settings_here
from stitch.client import Client
from stitch.client.operator import end_run
from stitch.views.render import console


def end(
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why, for everybody to read.", show_default=False)],
) -> None:
    """End the run over the newest global; every site stops within one poll (at the lead)."""
    done = end_run(Client(settings_here()), reason)
    what = "no global" if done.final_pass is None else f"global {done.final_pass}"
    console().out(f"the run is over with {what}: {done.reason}")
