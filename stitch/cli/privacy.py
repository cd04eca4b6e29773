"""`clif-stitch privacy`: what noise costs and buys before anything is trained, and what was spent."""

from __future__ import annotations

from typing import Annotated

import typer

from stitch.cli.privacy_plan import as_json, as_lines
from stitch.cli.privacy_spent import spent_lines
from stitch.cli.project import settings_here
from stitch.cli.whole_help import WholeHelp
from stitch.rounds.accountant import Budget
from stitch.rounds.privacy_plan import make_plan
from stitch.views.render import console

privacy = typer.Typer(
    cls=WholeHelp, help="Plan private passes, and see what was spent.", no_args_is_help=True
)


@privacy.callback()
def _group() -> None:
    """Plan private passes, and see what was spent."""


@privacy.command("show")
def show() -> None:
    """Show what this site's data have given away so far, by its journal."""
    for line in spent_lines(settings_here(stores=False)):
        console().out(line, highlight=False)


@privacy.command("plan")
def plan(
    *,
    epsilon: Annotated[float, typer.Option(help="The budget of a data set: 8, say.")],
    delta: Annotated[float, typer.Option(help="Well below 1 / number of patients: 1e-5, say.")],
    passes: Annotated[int, typer.Option(help="How many passes each site trains.")],
    noise: Annotated[
        float | None, typer.Option(metavar="SIGMA", help="Is this noise_multiplier enough?")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Protect any two data sets, not there or not there.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print stitch.privacy_plan/1.")] = False,
) -> None:
    """Print the noise that a number of passes needs, what each costs and what is left of the budget."""
    planned = make_plan(
        Budget(epsilon, delta, "replace" if replace else "add_remove"), passes=passes, noise=noise
    )
    if json:
        typer.echo(as_json(planned))
    else:
        for line in as_lines(planned):
            console().out(line)
