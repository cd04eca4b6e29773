"""`clif-stitch provision`: containers and tokens for every site, made, renewed or withdrawn by the lead."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stitch.cli.provision_kits import Asked, renew, revoke_site
from stitch.cli.provision_script import grant_script, revoke_script


def provision(
    *,
    sites: Annotated[str, typer.Option(help="Who gets a kit, by commas; by default all sites.")] = "",
    days: Annotated[
        int | None, typer.Option(help="How long: by default 90, or 7 with an Entra login.")
    ] = None,
    account: Annotated[str, typer.Option(help="The storage account's name or URL.")] = "",
    revoke: Annotated[str, typer.Option(metavar="SITE", help="End this site's tokens at once.")] = "",
    commands: Annotated[bool, typer.Option("--print", help="Print Azure CLI commands instead.")] = False,
) -> None:
    """At the lead: a container for each lane, and for each site a kit of tokens. Re-run to renew."""
    asked = Asked.read(Path.cwd(), sites=sites, days=days, account=account, revoke=revoke)
    if commands:
        text = revoke_script(asked) if revoke else grant_script(asked)
        typer.echo(text.encode("ascii"), nl=False)  # as bytes: a shell takes no Windows line ends
    else:
        typer.echo(revoke_site(asked) if revoke else renew(asked))
