"""Bringing a carried lane into a store, file by file: what is refused, what waits, what conflicts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stitch.client.carry_list import Carried, named, size_of
from stitch.config.settings import Settings
from stitch.errors import AlreadyExists, DigestMismatch, OutcomeUnknown, ProtocolError
from stitch.files import file_sha256
from stitch.layout import GLOBAL, Key, What
from stitch.mirror import Mirror
from stitch.store.base import Entry
from stitch.store.lanes import Lanes
from stitch.store.place import check_place
from stitch.sync.egress import check_counts
from stitch.wire import MAX_BYTES, Orchestration, Seal, sha256


@dataclass(frozen=True, slots=True)
class Bringing:
    """Brings one file at a time into a store.

    Attributes:
        there: what the store's list showed, by path.
        carried: takes a line for whatever is not brought.
    """

    settings: Settings
    lanes: Lanes
    mirror: Mirror
    there: dict[str, Entry]
    carried: Carried

    def bring(self, path: str, key: Key, *, file: Path, digest: str) -> bool:
        """Whether the file was written now."""
        trouble = self._refused(path, key, file=file, digest=digest)
        if trouble:
            self.carried.damaged.append(f"{path}: {trouble}")
            return False
        present = self.there.get(path)
        if present is not None and (self._digest(present) == digest or key.replaced):
            return self._renew(path, file, present=present, digest=digest)
        if present is not None:
            self.carried.conflicts.append(path)
            return False
        lacking = self._lacking(key, file)
        if lacking:
            self.carried.waiting.append(f"{path}: {lacking} is not in the store yet")
            return False
        return self._create(path, file, digest=digest)

    def _create(self, path: str, file: Path, *, digest: str) -> bool:
        try:
            self.there[path] = self.lanes.push(file, path, mode="create", digest=digest)
        except DigestMismatch:
            self.carried.damaged.append(f"{path}: its bytes are not those that were carried out")
            return False
        except (AlreadyExists, OutcomeUnknown):
            present = self.lanes.stat(path)  # law 5: look, compare, accept equality
            if present is None:
                raise
            self.there[path] = present
            if self._digest(present) != digest:
                self.carried.conflicts.append(path)
                return False
            self.carried.already += 1
            return False
        return True

    def _renew(self, path: str, file: Path, *, present: Entry, digest: str) -> bool:
        """Of a key that is replaced the newer version holds; an old stick never turns time back."""
        before = self.lanes.read(path, limit=MAX_BYTES) if self._digest(present) != digest else None
        if before is None or not _is_newer(file.read_bytes(), before[1], path=path):
            self.carried.already += 1
            return False
        self.there[path] = self.lanes.push(file, path, mode="replace", digest=digest)
        return True

    def _digest(self, entry: Entry) -> str:
        """What the store holds; fetched and hashed where it does not say."""
        if entry.digest:
            return entry.digest
        to = self.mirror.scratch() / entry.key.rpartition("/")[2]
        try:
            return self.lanes.pull(entry.key, to).digest or file_sha256(to)
        finally:
            to.unlink(missing_ok=True)

    def _refused(self, path: str, key: Key, *, file: Path, digest: str) -> str:
        """Why a file of the folder may not be used at all; "" when it may."""
        on_the_way = [file, *list(file.parents)[: len(path.split("/"))]]
        if any(one.is_symlink() for one in on_the_way) or not file.is_file():
            return "it is not in the folder"
        limit = self.settings.transfer.max_bytes if key.digest else MAX_BYTES
        if file.stat().st_size > limit:
            return f"{file.stat().st_size} bytes are more than may leave"
        if key.digest and not digest.startswith(key.digest):
            return "its hash is not that of its name"
        if key.digest:
            return ""  # hashed as it is sent
        data = file.read_bytes()
        if sha256(data) != digest:
            return "its bytes are not those that were carried out"
        if key.what is not What.SEAL:
            return ""
        try:
            seal = Seal.parse(data, source=path)
            check_place(seal, path, run_id=self.settings.run_id)
            if key.lane != GLOBAL:
                check_counts(seal.n_samples, self.settings.egress)
        except ProtocolError as error:
            return str(error)
        return ""

    def _lacking(self, key: Key, file: Path) -> str:
        """What a seal names and the store does not have (law 2: model first, seal last)."""
        if key.what is not What.SEAL:
            return ""
        seal = Seal.parse(file.read_bytes(), source=file.name)
        return next((name for name, size in named(key, seal) if size_of(self.there, name) != size), "")


def _is_newer(ours: bytes, there: bytes, *, path: str) -> bool:
    """Whether the carried orchestration says more than the one that is there."""
    try:
        new = Orchestration.parse(ours, source=path)
        old = Orchestration.parse(there, source=path)
    except ProtocolError:
        return False
    return (new.current_pass, new.phase == "complete", new.created_at) > (
        old.current_pass,
        old.phase == "complete",
        old.created_at,
    )
