"""Where `status` looks: the stores while they answer, else this machine's mirror alone."""

from __future__ import annotations

import threading
from dataclasses import replace

from rich.console import Console
from rich.live import Live

from stitch import layout
from stitch.cli.project import shown
from stitch.cli.sources import store_lanes
from stitch.client.outbox import Outbox
from stitch.clock import Clock
from stitch.config import Settings
from stitch.errors import ConfigError, StoreError
from stitch.mirror import Mirror
from stitch.store import FolderStore, parse_location
from stitch.store.lanes import Lanes
from stitch.views.observe import Observer
from stitch.views.render import render
from stitch.views.status import RunStatus, Source

_EVERY_S = 5.0


class Lookout:
    """Looks at the run of a project as often as asked, wherever it can be seen.

    Args:
        settings: the project's; URLs may be missing.
        clock: this machine's clocks.
        stop: ends a store's retries.
    """

    def __init__(self, settings: Settings, *, clock: Clock, stop: threading.Event) -> None:
        self._settings = settings
        self._clock = clock
        self._stop = stop
        self._by_store: tuple[Lanes, Observer] | None = None
        self._on_mirror: Observer | None = None

    def look(self) -> RunStatus:
        """The run as it stands now.

        Raises:
            StoreError: the store cannot be read, and this machine has no mirror of the run.
            ConfigError: no store is set, and this machine has no mirror of the run.
        """
        try:
            lanes, observer = self._store()
            lanes.stat(layout.manifest())  # whether the store answers at all
        except (StoreError, ConfigError) as error:
            if not (self._settings.mirror_dir / layout.GLOBAL).is_dir():
                raise
            return self._mirror(str(error))
        return self._reviewed(observer.observe())

    def _reviewed(self, seen: RunStatus) -> RunStatus:
        """Say beside this site what waits here for a person: nobody else can know."""
        settings = self._settings
        if not settings.egress.reviewed:
            return seen
        held = Outbox(settings, Mirror(settings.mirror_dir), clock=self._clock).held()
        if not held:
            return seen
        line = f"pass {held[-1].ref.number} is held for review: clif-stitch outbox show"
        sites = (
            replace(site, reason="; ".join(filter(None, (site.reason, line))))
            if site.site == settings.site
            else site
            for site in seen.sites
        )
        return replace(seen, sites=tuple(sites))

    def _store(self) -> tuple[Lanes, Observer]:
        if self._by_store is None:
            settings = self._settings
            lanes = store_lanes(settings, clock=self._clock, stop=self._stop, quick=True)
            source = Source("store", str(parse_location(settings.urls.global_)))
            self._by_store = lanes, self._observer(lanes, source)
        return self._by_store

    def _mirror(self, reason: str) -> RunStatus:
        if self._on_mirror is None:
            folder = self._settings.mirror_dir.parent
            store = FolderStore(folder, clock=self._clock)
            lanes = (layout.GLOBAL, *(layout.site_lane(site) for site in self._settings.sites))
            mirror = Lanes(self._settings.run_id, dict.fromkeys(lanes, store), {})
            self._on_mirror = self._observer(mirror, Source("mirror", shown(folder), reason))
        return self._reviewed(self._on_mirror.observe())

    def _observer(self, lanes: Lanes, source: Source) -> Observer:
        return Observer(
            lanes,
            sites=self._settings.sites,
            lead=self._settings.lead,
            heartbeat_minutes=self._settings.heartbeat_minutes,
            clock=self._clock,
            source=source,
            own=self._settings.site,
        )


def watch_in(out: Console, lookout: Lookout, *, stop: threading.Event) -> None:
    """Show the run anew every few seconds until `stop` is set."""
    with Live(console=out, auto_refresh=False, vertical_overflow="visible") as live:
        while not stop.is_set():
            live.update(render(lookout.look()), refresh=True)
            stop.wait(_EVERY_S)
