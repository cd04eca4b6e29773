"""`clif-stitch try`: run a hook here and now, and see exactly what would leave."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from stitch.cli.project import settings_here
from stitch.cli.signals import StopSignals
from stitch.cli.trial_report import report
from stitch.cli.waiting import sign_of_life
from stitch.client.trial import Bench
from stitch.hooks.call import HookStopped
from stitch.views.render import console
from stitch.views.words import plain


class Tried(StrEnum):
    """The hooks that can be tried."""

    TRAIN = "train"
    AGGREGATE = "aggregate"


def try_hook(
    hook: Annotated[Tried, typer.Argument(help="Which hook.", show_default=False)],
    *,
    number: Annotated[
        int | None, typer.Option("--pass", min=0, metavar="K", help="The pass; by default the next one.")
    ] = None,
) -> None:
    """Run a hook into a scratch folder; show its log, its metrics, and exactly what would leave."""
    settings, out = settings_here(stores=False), console()
    with StopSignals(quiet=True) as signals, sign_of_life(out, f"{hook.value} runs"):
        bench = Bench(settings, stop=signals.stop, on_line=lambda text: out.out(plain(text, most=2000)))
        try:
            trial = bench.train(number) if hook is Tried.TRAIN else bench.aggregate(number)
        except HookStopped:
            raise typer.Exit(signals.exit_code) from None
    typer.echo(report(trial))
    if trial.refused is not None:
        raise trial.refused
