"""`clif-stitch end`: the lead ends the run for everybody."""

from __future__ import annotations

from typing import Annotated

import typer

from stitch.cli.project import settings_here
from stitch.client import Client
from stitch.client.operator import end_run
from stitch.views.render import console
from stitch.views.words import plain


def end(
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why, for everybody to read.", show_default=False)],
) -> None:
    """End the run over the newest global; every site stops within one poll (at the lead)."""
    client = Client(settings_here())
    client.require_lead()
    before = client.done()
    done = before or end_run(client, reason)
    what = "no global" if done.final_pass is None else f"global {done.final_pass}"
    already = "already " if before else ""
    console().out(f"the run is {already}over with {what}: {plain(done.reason)}")
