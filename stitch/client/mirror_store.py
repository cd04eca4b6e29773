"""A mirror behind the store contract: asked for a stored name, it reads the plain one. Read-only."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from stitch import layout
from stitch.clock import Clock
from stitch.errors import StoreDenied
from stitch.store import Entry, FolderStore, Mode, Progress, Traits
from stitch.store.lanes import Lanes


class MirrorStore:
    """Models and attachments lie in a mirror under names without a digest (ADR 0001).

    Args:
        folder: holds the mirrors of runs: `stitch_store`.
        clock: this machine's clocks.
    """

    def __init__(self, folder: Path, *, clock: Clock) -> None:
        self._folder = FolderStore(folder, synced=True, clock=clock)

    @property
    def traits(self) -> Traits:
        """Those of a folder that shares no clock with anybody."""
        return self._folder.traits

    def stat(self, key: str) -> Entry | None:
        """See `Store.stat`."""
        return self._folder.stat(_plain(key))

    def list(self, prefix: str) -> Iterator[Entry]:
        """See `Store.list`; models have their plain names."""
        return self._folder.list(prefix)

    def pull(self, key: str, to: Path, *, unless: str = "", progress: Progress | None = None) -> Entry:
        """See `Store.pull`."""
        return self._folder.pull(_plain(key), to, unless=unless, progress=progress)

    def push(
        self,
        src: Path,  # noqa: ARG002  the contract's, as are the others: nothing of it is used
        key: str,
        *,
        mode: Mode,  # noqa: ARG002  as above
        digest: str = "",  # noqa: ARG002  as above
        progress: Progress | None = None,  # noqa: ARG002  as above
    ) -> Entry:
        """Refused.

        Raises:
            StoreDenied: always.
        """
        raise StoreDenied(f"{key} cannot be written: this is a mirror that is only read")

    def now(self) -> datetime:
        """See `Store.now`."""
        return self._folder.now()


def mirror_lanes(mirror: Path, *, clock: Clock) -> Lanes:
    """A mirror as the lanes of its run: those that it holds anything of.

    Args:
        mirror: `stitch_store/<run_id>`.
        clock: this machine's clocks.
    """
    store = MirrorStore(mirror.parent, clock=clock)
    sites = sorted(folder.name for folder in (mirror / "sites").glob("*") if folder.is_dir())
    lanes = [layout.GLOBAL, *(layout.site_lane(site) for site in sites)]
    return Lanes(mirror.name, dict.fromkeys(lanes, store), {}, writable=frozenset())


def _plain(key: str) -> str:
    run_id, _, path = key.partition("/")
    return f"{run_id}/{layout.mirror_path(path)}"
