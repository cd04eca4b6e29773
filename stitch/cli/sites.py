"""`clif-stitch sites`: who takes part, and how the lead changes that while the run goes on."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from stitch.cli.project import settings_here
from stitch.cli.whole_help import WholeHelp
from stitch.client import Client
from stitch.client.operator import Change, ask_redo, change_roster
from stitch.config import names
from stitch.errors import ConfigError
from stitch.views.render import console

sites = typer.Typer(
    cls=WholeHelp,
    help="Show the roster, or change it while the run goes on (at the lead).",
    invoke_without_command=True,
)

_Site = Annotated[str, typer.Argument(help="The site's id.", show_default=False)]


@sites.callback()
def show(context: typer.Context) -> None:
    """Show the roster, or change it while the run goes on (at the lead)."""
    if context.invoked_subcommand is None:
        client = Client(settings_here())
        roster = client.newest_roster()
        out = console()
        if roster is None:
            out.out("The run has not begun: there is no roster yet.")
            return
        out.out(f"roster {roster.number}" + (f" ({roster.reason})" if roster.reason else ""))
        for one in sorted(roster.sites, key=lambda entry: entry.site):
            key = f"  key {one.key}" if one.key else ""
            since = f"  from pass {one.since}" if one.since > 1 else ""
            out.out(f"  {one.site:<20} {one.state}{since}{key}")


@sites.command("add")
def add(
    site: _Site, *, key: Annotated[str | None, typer.Option(help="Fingerprint of its public key.")] = None
) -> None:
    """Let a site take part from the next round on; or give a site that does another key."""
    if key is not None and not re.fullmatch("[0-9a-f]{64}", key):
        raise ConfigError(
            "--key takes a fingerprint of 64 hex digits", hint="The site reads it out: clif-stitch keys"
        )
    _change("add", site, key=key)


@sites.command("drop")
def drop(site: _Site) -> None:
    """Take a site off the roster at once; its passes that rounds have used stay used."""
    _change("drop", site)


@sites.command("pause")
def pause(site: _Site) -> None:
    """Do not wait for a site until it is resumed; holds at once."""
    _change("pause", site)


@sites.command("resume")
def resume(site: _Site) -> None:
    """Wait for a paused site again, from the next round on."""
    _change("resume", site)


@sites.command("redo")
def redo(site: _Site) -> None:
    """Ask a site to train its pass of the round under way anew."""
    site = names.site_id(site, where="the site")
    number = ask_redo(Client(settings_here()), site)
    console().out(f"round {number}: {site} is asked for a new pass; the others' passes stay as they are")


def _change(change: Change, site: str, *, key: str | None = None) -> None:
    site = names.site_id(site, where="the site")
    roster = change_roster(Client(settings_here()), change, site=site, key=key)
    expected = ", ".join(one.site for one in roster.sites if one.state == "active")
    console().out(f"roster {roster.number}: {roster.reason}. Taking part: {expected}")
