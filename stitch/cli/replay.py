"""`clif-stitch replay`: what if a site had been left out, or another hook had aggregated?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stitch.cli.project import settings_here, shown
from stitch.cli.replaying import begin
from stitch.cli.signals import StopSignals
from stitch.errors import Stopped
from stitch.views.render import console
from stitch.views.replayed import replay_table


def replay(
    *,
    without: Annotated[str, typer.Option(metavar="SITE", help="Leave this site's passes out.")] = "",
    aggregate: Annotated[
        str, typer.Option(metavar="FILE:FN", help="Aggregate with this function instead.")
    ] = "",
    first: Annotated[int, typer.Option("--from", min=1, metavar="K", help="The first round.")] = 1,
    to: Annotated[
        Path | None, typer.Option(help="A new folder; by default in runs/<run_id>/.", show_default=False)
    ] = None,
) -> None:
    """Make globals again without a site, or with another hook, beside the run.

    A first-order what-if: the sites' passes are those that were trained from the
    run's own globals. What a change would have done to later training is not in it.
    """
    settings, out = settings_here(stores=False), console()
    with StopSignals(quiet=True) as signals:
        try:
            work = begin(
                settings, stop=signals.stop, without=without, aggregate=aggregate, first=first, to=to
            )
            done = list(work.run())
        except Stopped:
            raise typer.Exit(signals.exit_code) from None
    out.print(replay_table(done))
    out.print(f"models and reports are in {shown(work.to)}; the run was only read")
    out.print("first-order: the sites' passes are those trained from the run's own globals")
