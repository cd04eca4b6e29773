"""Where a verb that only reads finds the run: the stores while they answer, else a mirror."""

from __future__ import annotations

import threading
from dataclasses import replace

from stitch import layout
from stitch.cli.project import shown
from stitch.client.lanes import open_lanes
from stitch.client.mirror_store import mirror_lanes
from stitch.clock import Clock
from stitch.config import Settings
from stitch.errors import ConfigError, StoreError
from stitch.store import parse_location
from stitch.store.lanes import Lanes
from stitch.views.status import Source

_QUICK_TRIES = 1


def store_lanes(settings: Settings, *, clock: Clock, stop: threading.Event, quick: bool = False) -> Lanes:
    """The stores of a project, opened for reading alone; nothing is asked of them yet.

    Args:
        settings: the project's; URLs may be missing.
        clock: this machine's clocks.
        stop: ends a store's retries.
        quick: one retry, for a person who waits, not the minutes that `run` would give it.

    Raises:
        ConfigError: no URL is set, or one cannot be used.
    """
    if not settings.urls.global_:
        raise ConfigError(
            "no store URL is set: STITCH_STORE, or STITCH_STORE_GLOBAL",
            hint="Run `clif-stitch setup` with what the lead sent you, or put it into .env.",
        )
    if quick:
        transfer = replace(settings.transfer, max_retries=_QUICK_TRIES, retry_backoff_seconds=0.5)
        settings = replace(settings, transfer=transfer)
    opened = open_lanes(settings, clock=clock, stop=stop)
    # A heartbeat's own token may not read; and nothing is written from here.
    return replace(opened, heartbeats={}, outbox=None, writable=frozenset())


def record_lanes(settings: Settings, *, clock: Clock, stop: threading.Event) -> tuple[Lanes, Source]:
    """Where the whole record of the run can be read; the lead's mirror has it too, other mirrors do not.

    Raises:
        StoreError: the store cannot be read, and this is not the lead's machine.
        ConfigError: no store is set, and this is not the lead's machine.
    """
    try:
        store_lanes(settings, clock=clock, stop=stop, quick=True).stat(layout.manifest())
        lanes = store_lanes(settings, clock=clock, stop=stop)
    except (StoreError, ConfigError) as error:
        mirror = settings.mirror_dir
        if not settings.is_lead or not (mirror / layout.GLOBAL).is_dir():
            raise
        return mirror_lanes(mirror, clock=clock), Source("mirror", shown(mirror), str(error))
    return lanes, Source("store", str(parse_location(settings.urls.global_)))


def where(source: Source) -> str:
    """One line on where was read."""
    if source.kind == "mirror":
        return f"read from this machine's mirror {source.place}: {source.reason}"
    return f"store {source.place}"
