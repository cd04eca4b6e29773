"""`clif-stitch doctor`: what would keep this site from running, and what to do about it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from stitch.cli.checks import as_json, as_lines, exit_code
from stitch.clock import SystemClock


def doctor(*, json: Annotated[bool, typer.Option("--json", help="Print stitch.doctor/1.")] = False) -> None:
    """Check settings, hooks, disk, network, tokens and stores: one line each, with what to do."""
    from stitch.cli.checkup import examine  # noqa: PLC0415  its HTTP library costs every other verb 0.1 s

    checks = examine(Path.cwd(), os.environ, clock=SystemClock())
    typer.echo(as_json(checks) if json else as_lines(checks, sys.stdout))
    if exit_code(checks):
        raise typer.Exit(exit_code(checks))
