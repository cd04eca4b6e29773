"""`clif-stitch init`: a new project folder, the same for all sites."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from stitch.cli.init_privacy import make_private, plan_for
from stitch.cli.scaffold import TEMPLATES, Rendered, render_project

_TEMPLATE_HELP = f"What the hooks are: {', '.join(TEMPLATES)}."


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.")],
    lead: Annotated[str, typer.Option(help="The site that also aggregates.")],
    sites: Annotated[str, typer.Option(help="All sites, separated by commas, the lead among them.")],
    template: Annotated[str, typer.Option(help=_TEMPLATE_HELP)] = "numpy",
    wheel: Annotated[Path | None, typer.Option(help="Install clif-stitch from this file.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy: the budget of each site, 8, say.")] = None,
    delta: Annotated[float, typer.Option(help="Privacy: well below 1 / number of patients.")] = 1e-5,
    noise: Annotated[float | None, typer.Option(metavar="SIGMA", help="Privacy: noise multiplier.")] = None,
) -> None:
    """Make a new project: settings, hooks, run scripts, instructions for the sites, demo data."""
    listed = [name for name in sites.split(",") if name.strip()]
    private = plan_for(template, epsilon=epsilon, delta=delta, noise=noise)
    made = render_project(folder, lead=lead, sites=listed, template=template, wheel=wheel)
    if private is not None:
        made = replace(made, warnings=(*made.warnings, *make_private(made.root, private)))
    typer.echo(next_steps(made, shown=folder))


def next_steps(made: Rendered, *, shown: Path) -> str:
    """What to do with a new project, in ASCII and at most 80 columns (but for the folder's name)."""
    lines = [f"Made the project {made.run_id} with {len(made.files)} files in:", f"  {shown}", ""]
    for warning in made.warnings:
        lines += textwrap.wrap(f"warning: {warning}", 80, subsequent_indent="  ")
    lines += [
        "Next, in that folder:",
        "  uv sync                               install what the project needs",
        "  uv run clif-stitch demo --project .   the whole federation, on made-up data",
        "  git init, commit, push                what is private is git-ignored",
        "",
        "Then at every site: clone it and follow SITE_INSTRUCTIONS.md.",
    ]
    return "\n".join(lines)
