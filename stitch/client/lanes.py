"""Opening the stores an actor needs, each behind the retry wrapper."""

from __future__ import annotations

import threading

from stitch import layout
from stitch.clock import Clock
from stitch.config.settings import Settings
from stitch.store.base import Store
from stitch.store.lanes import Lanes
from stitch.store.location import StoreOptions
from stitch.store.open import open_store
from stitch.store.retry import RetryingStore


def open_lanes(settings: Settings, *, clock: Clock, stop: threading.Event) -> Lanes:
    """The stores of every lane this actor has a URL for; one connection a URL.

    Nothing is asked of a store yet.

    Raises:
        ConfigError: a URL or the credential beside it cannot be used.
    """
    opened: dict[str, Store] = {}

    def store(url: str) -> Store:
        if url not in opened:
            options = StoreOptions(
                environment=settings.environ,
                clock=clock,
                synced=settings.store.synced,
                ca_bundle=settings.store.ca_bundle,
            )
            opened[url] = RetryingStore(
                open_store(url, options=options),
                max_retries=settings.transfer.max_retries,
                backoff_seconds=settings.transfer.retry_backoff_seconds,
                stop=stop,
            )
        return opened[url]

    urls = settings.urls
    lanes = {layout.site_lane(site): url for site, url in urls.lanes.items()}
    lanes |= {layout.site_lane(settings.site): urls.site, layout.GLOBAL: urls.global_}
    stores = {lane: store(url) for lane, url in lanes.items() if url}
    own = layout.site_lane(settings.site)
    heartbeat = _container(urls.heartbeat, f"{settings.run_id}/{layout.heartbeat(own)}")
    heartbeats = {own: store(heartbeat)} if heartbeat not in ("", urls.site) else {}
    rest = store(urls.rest) if urls.rest else None
    return Lanes(settings.run_id, stores, heartbeats, outbox=settings.output_dir / "final_no_phi", rest=rest)


def _container(url: str, key: str) -> str:
    """A token for one blob comes as that blob's URL; keys are put together from its container's."""
    place, mark, token = url.partition("?")
    return place.removesuffix(f"/{key}") + mark + token
