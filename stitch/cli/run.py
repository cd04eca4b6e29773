"""`clif-stitch run`: this site's part of the federation, until the end marker."""

from __future__ import annotations

from typing import Annotated

import typer

from stitch.cli.ending import conclude
from stitch.cli.progress import display
from stitch.cli.project import settings_here
from stitch.cli.retries import retries_told, to_listener
from stitch.cli.signals import StopSignals
from stitch.loops import entrances
from stitch.views.render import console


def run(
    *,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Claim the lane although another process seems to hold it.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Timestamped lines, no live table.")] = False,
) -> None:
    """Train, send, receive (and aggregate, at the lead) until the run ends. Re-run to continue."""
    settings, out = settings_here(), console()
    with (
        StopSignals() as signals,
        display(out, plain_lines=plain) as listener,
        retries_told(to_listener(listener)),
    ):
        finished = entrances.run(settings, stop=signals.stop, listeners=[listener], take_over=take_over)
    raise typer.Exit(conclude(out, settings, finished=finished, signals=signals))
