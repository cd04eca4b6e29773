"""`clif-stitch keys`: this site's signing key; only its fingerprint is ever shown."""

from __future__ import annotations

import sys

import typer

from stitch.cli.project import settings_here
from stitch.cli.whole_help import WholeHelp
from stitch.client.keys import FOLDER, load_key, make_key
from stitch.config import Settings
from stitch.errors import ConfigError
from stitch.sync.signing import Signs
from stitch.views.render import console

keys = typer.Typer(
    cls=WholeHelp,
    help="Show the fingerprint of this site's signing key, or make one.",
    invoke_without_command=True,
)


@keys.callback()
def show(context: typer.Context) -> None:
    """Show the fingerprint of this site's signing key, or make one."""
    if context.invoked_subcommand is None:
        signer = load_key(settings_here(stores=False).root)
        if signer is None:
            raise ConfigError("there is no signing key here", hint="Make one: clif-stitch keys init")
        console().out(signer.fingerprint)


@keys.command("init")
def init() -> None:
    """Make this site's key, once; the private part stays in keys/, readable by you alone."""
    settings = settings_here(stores=False)
    signer = make_key(settings.root)
    out = console()
    for line in _told(settings, signer):
        out.out(line)


def _told(settings: Settings, signer: Signs) -> list[str]:
    lines = [f"made {FOLDER}/signing.pem: keep a copy offline; it is never sent and git ignores it."]
    if sys.platform == "win32":
        lines.append(f"Windows: who may read the project folder may read it. Check the rights of {FOLDER}.")
    lines += ["its fingerprint:", f"  {signer.fingerprint}"]
    if settings.is_lead:
        return [*lines, "Put it into stitch.toml, the same at every site:", *_table(signer)]
    return [
        *lines,
        "Read it to the lead over the telephone, who runs:",
        f"  clif-stitch sites add {settings.site} --key FINGERPRINT",
    ]


def _table(signer: Signs) -> list[str]:
    return ["  [security]", "  sign = true", f'  lead_key = "{signer.fingerprint}"']
