"""`clif-stitch demo`: a whole federation on this machine, to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stitch.cli.demo_plan import SITES, plan_of
from stitch.cli.demo_policy import DemoPolicy
from stitch.cli.demo_show import perform
from stitch.cli.signals import StopSignals
from stitch.views.render import console


def demo(
    *,
    passes: Annotated[int, typer.Option(min=1, max=500, help="How many passes.")] = 5,
    sites: Annotated[
        int | None, typer.Option(min=1, max=len(SITES), help="How many sites; 3, or all of --project's.")
    ] = None,
    folder: Annotated[Path, typer.Option("--dir", help="Where everything is put.")] = Path(
        "clif-stitch-demo"
    ),
    store: Annotated[
        str, typer.Option(metavar="URL", help="The store; by default the folder store/ in DIR.")
    ] = "",
    project: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Federate this project's own hooks.")
    ] = None,
    policy: Annotated[
        DemoPolicy, typer.Option(help="When a round closes; buffered: without waiting for the slowest.")
    ] = DemoPolicy.ALL_EXPECTED,
    privacy: Annotated[bool, typer.Option("--privacy", help="Clip every pass and add noise.")] = False,
) -> None:
    """Federate made-up ICU patients of several sites, one process each. Re-run to continue."""
    plan = plan_of(
        folder,
        project=project,
        sites=sites,
        passes=passes,
        store=store,
        policy=policy,
        privacy=privacy,
    )
    with StopSignals(quiet=True) as signals:
        code = perform(plan, console(), stop=signals.stop)
    raise typer.Exit(signals.exit_code or code)
