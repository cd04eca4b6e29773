"""`clif-stitch status`: where the run stands, from its files alone."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from stitch.cli.lookout import Lookout, watch_in
from stitch.cli.project import settings_here
from stitch.cli.signals import StopSignals
from stitch.clock import SystemClock
from stitch.views.export import as_csv, as_json
from stitch.views.render import console, render


def status(
    *,
    json: Annotated[bool, typer.Option("--json", help="Print stitch.status/1.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print one row a site and pass.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show it anew until Ctrl-C.")] = False,
) -> None:
    """Show where the run stands: every site's state, whom the lead waits for, metrics a pass."""
    if json + csv + watch > 1:
        raise typer.BadParameter("choose one of --json, --csv and --watch")
    settings, out = settings_here(stores=False), console()
    if watch:
        with StopSignals(quiet=True) as signals:
            watch_in(out, Lookout(settings, clock=SystemClock(), stop=signals.stop), stop=signals.stop)
        return
    seen = Lookout(settings, clock=SystemClock(), stop=threading.Event()).look()
    if json or csv:
        typer.echo(as_json(seen) if json else as_csv(seen), nl=False)
    else:
        out.print(render(seen))
