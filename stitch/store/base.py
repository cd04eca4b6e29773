"""The contract every backend keeps: files in, files out, keys as plain strings.

Keys are the POSIX-style paths of docs/protocol.md (`<run_id>/global/…`), made and checked by `layout`; a
store neither invents nor interprets them, and refuses a key that some backend could not hold. A
backend raises only `stitch.errors.StoreError`s (and `DigestMismatch` from `push`). What it cannot
do it declares in its `Traits`. `stitch.testing.StoreContract` tests all of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all), from any thread, at least once at the end of a transfer."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What a store can promise.

    Attributes:
        atomic_create: of two racing creates of one key exactly one succeeds.
        compare_and_swap: `Match(etag)` is honoured atomically.
        server_time: `modified` and `now()` come from one clock that all actors share.
        ranged_reads: a cut download resumes where it stopped.
    """

    atomic_create: bool
    compare_and_swap: bool
    server_time: bool
    ranged_reads: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored key.

    Attributes:
        key: the full key.
        size: bytes.
        etag: changes with the content; without quotes or a weak prefix. Equal etags, equal bytes.
        modified: the store's time of the last write, aware, UTC.
        digest: lower-case hex SHA-256 of the content when known: after a `pull` or `push`
            always, from `stat` and `list` where the store keeps it.
    """

    key: str
    size: int
    etag: str
    modified: datetime
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """Replace only the version with this etag."""

    etag: str


Mode = Literal["create", "replace"] | Match
"""How a push meets an existing key: refuse it, overwrite it, or overwrite that version only."""


class Store(Protocol):
    """A flat map from keys to files that somebody else operates."""

    @property
    def traits(self) -> Traits:
        """What this store can promise."""
        ...

    def stat(self, key: str) -> Entry | None:
        """The key's entry, or None when it does not exist.

        Raises:
            StoreMissing: the container or root folder itself is not there.
            StoreDenied: the credential may not read.
            StoreUnavailable: no usable answer.
        """
        ...

    def list(self, prefix: str) -> Iterator[Entry]:
        """Entries whose key starts with `prefix` (a string prefix, any depth), sorted by key.

        Raises:
            StoreMissing: the container or root folder itself is not there.
            StoreDenied, StoreUnavailable: as for `stat`.
        """
        ...

    def pull(self, key: str, to: Path, *, unless: str = "", progress: Progress | None = None) -> Entry:
        """Stream a key into the file `to`, hashing on the way.

        `to` appears whole or not at all: bytes gather in a sibling `<name>.part`, which a later
        pull of the same version may continue. If the stored etag equals `unless`, nothing is
        transferred, `to` is left as it is, and the entry returned has that etag.

        Raises:
            NotFound: no such key; as StoreMissing, no container or root folder.
            DiskError: `to` cannot be written.
            StoreDenied, StoreUnavailable: as for `stat`.
        """
        ...

    def push(
        self, src: Path, key: str, *, mode: Mode, digest: str = "", progress: Progress | None = None
    ) -> Entry:
        """Stream the file `src` to a key, hashing on the way; visible whole or not at all.

        With "create", an existing key is found before the bytes are sent where that is cheap. If
        `digest` is given, the key becomes visible only if the bytes sent hash to it (law 3).

        Raises:
            DigestMismatch: `src` is not what `digest` says; nothing became visible.
            DiskError: `src` cannot be read.
            AlreadyExists: "create" met a key, or `Match` met another version or none.
            OutcomeUnknown: the reply was lost (the caller reads back, law 5).
            StoreMissing: the container or root folder itself is not there.
            StoreDenied, StoreUnavailable: as for `stat`.
        """
        ...

    def now(self) -> datetime:
        """The store's clock, aware, UTC; one request at the most, often none.

        Where `traits.server_time` is false, the local clock: do not compare it with `modified`.
        """
        ...
