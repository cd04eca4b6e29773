"""`clif-stitch log`: what a hook printed."""

from __future__ import annotations

from typing import Annotated

import typer

from stitch.cli.hook_logs import HookChoice, find_logs, print_logs
from stitch.cli.project import settings_here


def log(
    *,
    number: Annotated[
        int | None, typer.Option("--pass", min=0, metavar="K", help="The pass; by default the newest.")
    ] = None,
    hook: Annotated[HookChoice | None, typer.Option(help="One hook's log; by default all of them.")] = None,
) -> None:
    """Show the hooks' logs of the newest pass, or of a given one."""
    settings = settings_here(stores=False)
    print_logs(find_logs(settings.runs_dir, pass_id=number, hook=hook))
