"""`clif-stitch init`: a new project folder, the same for all sites."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from stitch.cli import own_wheel
from stitch.cli.init_privacy import make_private, plan_for
from stitch.cli.scaffold import TEMPLATES, Rendered, render_project

_NO_WHEEL = (
    "clif-stitch runs from the clone {source}, and uv could not pack it: `uv sync` in the project will look "
    "for it in the package index. Run `uv build --wheel` in the clone, then init with --wheel FILE."
)
_WHEEL_HELP = "Install clif-stitch from this file; a clone packs itself."
_TEMPLATE_HELP = f"What the hooks are: {', '.join(TEMPLATES)}."


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.")],
    lead: Annotated[str, typer.Option(help="The site that also aggregates.")],
    sites: Annotated[str, typer.Option(help="All sites, separated by commas, the lead among them.")],
    template: Annotated[str, typer.Option(help=_TEMPLATE_HELP)] = "numpy",
    wheel: Annotated[
        Path | None,
        typer.Option(help=_WHEEL_HELP),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy: the budget of each site, 8, say.")] = None,
    delta: Annotated[float, typer.Option(help="Privacy: well below 1 / number of patients.")] = 1e-5,
    noise: Annotated[float | None, typer.Option(metavar="SIGMA", help="Privacy: noise multiplier.")] = None,
) -> None:
    """Make a new project: settings, hooks, run scripts, instructions for the sites, demo data."""
    listed = [name for name in sites.split(",") if name.strip()]
    private = plan_for(template, epsilon=epsilon, delta=delta, noise=noise)
    with _carried(wheel) as (packed, warnings):
        made = render_project(folder, lead=lead, sites=listed, template=template, wheel=packed)
    made = replace(made, warnings=(*made.warnings, *warnings))
    if private is not None:
        made = replace(made, warnings=(*made.warnings, *make_private(made.root, private)))
    typer.echo(next_steps(made, shown=folder))


@contextmanager
def _carried(wheel: Path | None) -> Iterator[tuple[Path | None, tuple[str, ...]]]:
    """The wheel that the project carries along, and a warning where it should have one and has none."""
    source = own_wheel.clone() if wheel is None else None
    if source is None:
        yield wheel, ()
        return
    with own_wheel.wheel_of(source) as built:
        yield built, () if built else (_NO_WHEEL.format(source=source),)


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
