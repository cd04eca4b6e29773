"""`Client`: every verb of one actor, from one project folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from stitch.client.lead import LeadVerbs
from stitch.client.setup import Setup
from stitch.config import load_settings, require_urls


class Client(LeadVerbs):
    """One actor of one run: all verbs that the seed names.

    A site uses `pull_global`, `push_local_model`, `emit` and `heartbeating`; the lead adds
    `pull_sites`, `push_global_model` and `write_end_marker`. Verbs that write the global lane are
    the lead's alone. Use it as a context manager: leaving it releases the lanes.

    Example:
        with Client.open("my-project") as client:
            client.wait_for_global(0)
    """

    @classmethod
    def open(
        cls,
        project: str | Path = ".",
        *,
        site: str | None = None,
        environ: Mapping[str, str] | None = None,
        setup: Setup | None = None,
    ) -> Self:
        """Open the project in a folder.

        Args:
            project: the folder with `stitch.toml`.
            site: who runs here, where `config/config.json` does not say so.
            environ: instead of the process environment; `.env` is read beneath it.
            setup: other clocks, stores or hooks than the usual ones.

        Raises:
            ConfigError: a file, a name or a store URL is missing or wrong.
        """
        environ = dict(os.environ) if environ is None else environ
        settings = load_settings(Path(project), environ, site=site)
        setup = setup or Setup(environ=environ)
        if setup.lanes is None:
            require_urls(settings)
        return cls(settings, setup)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
