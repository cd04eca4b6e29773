"""Documents between store and memory, with a copy in the mirror (laws 1, 2 and 5)."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Generic, TypeVar

from stitch import layout
from stitch.errors import AlreadyExists, BadDocument, OutcomeUnknown
from stitch.mirror import Mirror
from stitch.store.base import Entry, Match, Mode
from stitch.store.lanes import Lanes
from stitch.store.place import check_place
from stitch.sync.signing import Signing
from stitch.wire import MAX_BYTES, Document, Roster, sha256

D = TypeVar("D", bound=Document)

_CREATE_TRIES = 3


@dataclass(frozen=True, slots=True)
class Stored(Generic[D]):
    """A document as the store holds it.

    Attributes:
        doc: parsed.
        data: the exact bytes.
        entry: size, etag and the store's time.
        ours: after a create, whether the bytes there are the ones we brought.
        conflict: after a create, whether something else is there, beyond its `created_at` (law 1).
    """

    doc: D
    data: bytes
    entry: Entry
    ours: bool = False
    conflict: bool = False

    @property
    def sha256(self) -> str:
        """Hash of the exact bytes."""
        return sha256(self.data)


class Documents:
    """Reads, creates and replaces documents of one run; paths are relative to the run.

    Args:
        lanes: the run's stores.
        mirror: keeps copies.
        signing: signs what is created and checks what is read; None in a run that does not sign.
    """

    def __init__(self, lanes: Lanes, mirror: Mirror, *, signing: Signing | None = None) -> None:
        self.lanes = lanes
        self.signing = signing
        self._mirror = mirror

    def exists(self, path: str) -> bool:
        """Whether the store has the key now."""
        return self.lanes.stat(path) is not None

    def version(self, path: str) -> str | None:
        """The etag of what the store has under a key now, readable or not; None when there is nothing."""
        there = self.lanes.stat(path)
        return there.etag if there else None

    def read(self, path: str, cls: type[D], *, unless: str = "") -> Stored[D] | None:
        """The stored document; None when it is absent, or unchanged since the etag `unless`.

        Raises:
            BadDocument, UnsupportedKind: it cannot be believed; the mirror keeps what it had.
            SignatureRefused: its lane's owner did not sign it.
            StoreError: as for the store.
        """
        got = self.lanes.read(path, limit=MAX_BYTES, unless=unless)
        if got is None or (unless and got[0].etag == unless):
            return None
        entry, data = got
        stored = Stored(cls.parse(data, source=path), data, entry)
        check_place(stored.doc, path, run_id=self.lanes.run_id)
        self.check(path, data)
        if self.signing is not None and isinstance(stored.doc, Roster):
            self.signing.learn(stored.doc)
        if self._mirror.read(path) != data:
            self._mirror.keep(path, data)
        return stored

    def check(self, path: str, data: bytes, *, keep: bool = True) -> None:
        """Refuse a document that must be signed and is not; a run that does not sign asks nothing.

        Args:
            path: the document's.
            data: its exact bytes.
            keep: keep the signature in the mirror as well.

        Raises:
            SignatureRefused: its lane's owner did not sign it.
            BadDocument: in a copied folder, its signature has not arrived yet.
        """
        if self.signing is None:
            return
        if self.signing.absent(self.lanes, path, data=data):
            raise BadDocument(f"{path}: its signature is not there yet")
        envelope = self.signing.check(self.lanes, path, data=data)
        beside = layout.signature(path, sha256(data))
        if keep and envelope is not None and self._mirror.read(beside) != envelope:
            self._mirror.keep(beside, envelope)

    def create(self, path: str, doc: D, *, data: bytes | None = None) -> Stored[D]:
        """Create a document once; gives what is there afterwards, ours or not (law 2: first wins).

        A lost reply is settled by reading back (law 5).

        Args:
            path: where.
            doc: the document.
            data: its exact bytes where they exist already: an older version may have written them.

        Raises:
            OutcomeUnknown: the store can neither create it nor show it.
            SignatureRefused: what is there is not signed by its lane's owner.
            ConfigError: the run is signed, and there is no key to sign it with.
        """
        data = doc.dump() if data is None else data
        if self.signing is not None:
            self.signing.sign(self.lanes, path, data=data)  # law 2: up before what it belongs to
        for _ in range(_CREATE_TRIES):
            try:
                entry = self.lanes.write(path, data, mode="create")
            except (AlreadyExists, OutcomeUnknown):
                found = self.read(path, type(doc))
                if found is not None:
                    ours, conflict = found.data == data, not found.doc.agrees(doc)
                    return Stored(found.doc, found.data, found.entry, ours=ours, conflict=conflict)
            else:
                self._mirror.keep(path, data)
                self.check(path, data)
                if self.signing is not None and isinstance(doc, Roster):
                    self.signing.learn(doc)
                return Stored(doc, data, entry, ours=True)
        raise OutcomeUnknown(f"{path}: the store refuses to create it and does not show it either")

    def replace(self, path: str, doc: D, *, etag: str | None) -> Stored[D] | None:
        """Replace one of the two documents that may be replaced, only over the version we saw.

        Args:
            path: orchestration or a heartbeat.
            doc: the new document.
            etag: the version seen; None when none was there.

        Returns:
            The new version, or None when another version is there now.
        """
        data = doc.dump()
        mode: Mode = "create" if etag is None else Match(etag)
        if etag is not None and not self.lanes.store_of(path).traits.compare_and_swap:
            mode = "replace"
        try:
            entry = self.lanes.write(path, data, mode=mode)
        except (AlreadyExists, OutcomeUnknown):
            found = None
            with contextlib.suppress(BadDocument):  # too large to be ours, so another version
                found = self.lanes.read(path, limit=MAX_BYTES)
            if found is None or found[1] != data:
                return None
            entry = found[0]
        self._mirror.keep(path, data)
        return Stored(doc, data, entry, ours=True)
