"""`clif-stitch outbox`: look at what would leave, and let it leave or not (`outbox = "review"`)."""

from __future__ import annotations

from typing import Annotated

import typer

from stitch.cli.outbox_report import as_json, decided, listing, outbox_here, report
from stitch.cli.whole_help import WholeHelp
from stitch.views.words import plain

outbox = typer.Typer(
    cls=WholeHelp, help="Look at what would leave, and let it leave or not.", no_args_is_help=True
)

Number = Annotated[int, typer.Argument(metavar="PASS", min=0, help="The pass.", show_default=False)]


@outbox.command("show")
def show(
    number: Annotated[
        int | None,
        typer.Argument(
            metavar="[PASS]", min=0, help="The pass; by default all that wait.", show_default=False
        ),
    ] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print stitch.outbox/1.")] = False,
) -> None:
    """Show exactly what would leave: names, sizes, hashes, numbers, and where it would go."""
    box, settings = outbox_here()
    passes = box.held() if number is None else [box.find(number)]
    typer.echo(as_json(box, settings, passes=passes) if json else listing(box, settings, passes=passes))
    for sealed in passes:
        box.mark_shown(sealed)


@outbox.command("approve")
def approve(number: Number) -> None:
    """Let a pass leave that `outbox show` showed; `run` or `step` sends it."""
    box, settings = outbox_here()
    sealed = box.find(number)
    if box.state(sealed) == "held":
        box.approve(sealed)
    typer.echo(plain(decided(box, settings, sealed=sealed)))


@outbox.command("refuse")
def refuse(number: Number) -> None:
    """Set a pass aside, unsent, so that it is trained again; nothing is deleted."""
    box, _ = outbox_here()
    typer.echo(plain(report(box.refuse(box.find(number)), number)))
