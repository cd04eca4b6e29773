"""`clif-stitch verify`: does the record hold, from the files alone?"""

from __future__ import annotations

from typing import Annotated

import typer

from stitch.cli.project import settings_here
from stitch.cli.proving import Prover
from stitch.cli.signals import StopSignals
from stitch.errors import Stopped
from stitch.views.render import console


def verify(
    *,
    number: Annotated[
        int | None, typer.Option("--pass", min=0, metavar="K", help="One global; by default all of them.")
    ] = None,
    rerun: Annotated[
        bool, typer.Option("--rerun", help="Run the aggregate hook again and compare its models' bytes.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print stitch.proof/1.")] = False,
    expect: Annotated[
        str, typer.Option(metavar="SHA256", help="The hash of all sealed files, as noted earlier.")
    ] = "",
) -> None:
    """Prove every global from the files alone: chain, hashes, verdicts, inputs. Only reads."""
    settings = settings_here(stores=False)
    with StopSignals(quiet=True) as signals:
        try:
            Prover(settings, stop=signals.stop, out=console()).prove(
                only=number, rerun=rerun, json=json, expect=expect
            )
        except Stopped:
            raise typer.Exit(signals.exit_code) from None
