"""From the store URL in a site's settings to a store."""

from __future__ import annotations

from stitch.store.base import Store
from stitch.store.folder import FolderStore
from stitch.store.location import StoreOptions, parse_location
from stitch.store.memory import MemoryStore


def open_store(url: str, *, options: StoreOptions) -> Store:
    """Opens the store a URL names, without asking it anything yet.

    The store is bare: wrap it in `RetryingStore` for use over a network.

    Raises:
        ConfigError: the URL or the credentials beside it cannot be used.
    """
    location = parse_location(url)
    if location.kind == "memory":
        return MemoryStore(clock=options.clock)
    if location.kind == "folder":
        assert location.folder is not None  # noqa: S101  narrows the type: parse_location sets it
        return FolderStore(location.folder, synced=options.synced, clock=options.clock)
    from stitch.store.azure import open_azure  # noqa: PLC0415  the SDK costs a second to import

    return open_azure(location, options)
