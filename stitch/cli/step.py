"""`clif-stitch step`: one turn, for cron, Task Scheduler and pipelines."""

from __future__ import annotations

from typing import Annotated

import typer

from stitch.cli.ending import step_code
from stitch.cli.progress import PlainLines
from stitch.cli.project import settings_here
from stitch.cli.retries import retries_told, to_listener
from stitch.cli.signals import StopSignals
from stitch.errors import Stopped
from stitch.loops import entrances
from stitch.views.render import console
from stitch.views.words import plain


def step(
    *,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 0 acted, 3 waiting, 4 done.")
    ] = False,
) -> None:
    """Do one turn of the work that is due here, then exit. Re-run to go on."""
    settings, out = settings_here(), console()
    lines = PlainLines(out)
    with StopSignals() as signals, retries_told(to_listener(lines)):
        try:
            turn = entrances.step(settings, stop=signals.stop, listeners=[lines])
        except Stopped:  # a hook's, or a long transfer's
            raise typer.Exit(signals.exit_code) from None
    out.out(f"{turn.state}: {plain(turn.why)}")
    raise typer.Exit(signals.exit_code or step_code(turn, wanted=exit_code))
