"""`clif-stitch audit`: every file of the run, in the order of the store's time."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from stitch.cli.project import settings_here
from stitch.cli.sources import store_lanes
from stitch.clock import SystemClock
from stitch.views.audit import audit_csv, audit_json, audit_notes, audit_of, audit_table
from stitch.views.render import console


def audit(
    *,
    json: Annotated[bool, typer.Option("--json", help="Print stitch.audit/1.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print one row a file.")] = False,
) -> None:
    """List every file of the run in the order of its writing: when, who, what, digest, size."""
    if json and csv:
        raise typer.BadParameter("choose one of --json and --csv")
    settings, out = settings_here(stores=False), console()
    lanes = store_lanes(settings, clock=SystemClock(), stop=threading.Event())
    found = audit_of(lanes, sites=settings.sites, lead=settings.lead)
    if json or csv:
        typer.echo(audit_json(found) if json else audit_csv(found), nl=False)
        return
    out.print(audit_table(found))
    for note in audit_notes(found):
        out.print(note)
