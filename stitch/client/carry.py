"""A lane carried by hand: between a store and a folder on a stick or behind a one-way diode.

A site without a network works on a store of its own, a plain folder. What it writes there is carried
out, and brought into the real store on a machine that has a network, with that lane's own token; the
lead's lane comes back the same way. The folder holds the store's keys as they are, and a list of their
SHA-256 in the form of `sha256sum`, written last. Nothing is overwritten, nothing is deleted (laws 1, 5),
and whatever is interrupted goes on when the same command is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stitch import layout
from stitch.client.carry_list import CarryList, in_order, is_carried
from stitch.config.settings import Settings
from stitch.errors import (
    AlreadyExists,
    BadDocument,
    ConfigError,
    DigestMismatch,
    OutcomeUnknown,
    ProtocolError,
)
from stitch.files import disk, file_sha256, sync_file
from stitch.layout import GLOBAL, Key, What
from stitch.mirror import Mirror
from stitch.store.base import Entry
from stitch.store.lanes import Lanes
from stitch.store.location import parse_location
from stitch.store.place import check_place
from stitch.sync.egress import check_counts
from stitch.wire import MAX_BYTES, Orchestration, Seal, sha256


@dataclass(slots=True)
class Carried:
    """What a carrying came to.

    Attributes:
        lane: whose files.
        moved: paths that were written now.
        already: how many were there before.
        waiting: a line for each that cannot be used yet.
        damaged: a line for each whose bytes are not what the list says.
        conflicts: paths under which something else lies; it was left as it is.
    """

    lane: str
    moved: list[str] = field(default_factory=list)
    already: int = 0
    waiting: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)


class Carrier:
    """Carries one site's lane one way, and the lead's lane the other.

    Where the lead's lease lies in the store, this is the real store: the lead's lane goes out, the
    site's comes in. Elsewhere it is the site's own folder, and it is the other way round.

    Args:
        settings: whose lane.
        lanes: the stores of this machine.
        mirror: remembers in `local/carried/` what went out.
        tell: told of each file that was written.
    """

    def __init__(
        self,
        settings: Settings,
        lanes: Lanes,
        *,
        mirror: Mirror,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        if settings.is_lead:
            raise ConfigError(
                f"{settings.site} leads this run: its lanes are not carried",
                hint="Name the site whose lane is carried: --site ID.",
            )
        self._settings = settings
        self._own = layout.site_lane(settings.site)
        self._lanes = lanes
        self._mirror = mirror
        self._tell = tell

    def out(self, folder: Path, *, everything: bool = False) -> Carried:
        """Write what was not carried yet into a folder; its list last.

        Args:
            folder: on the stick; made if it is not there.
            everything: also what was carried before: a stick was lost.

        Raises:
            DiskError: the folder cannot be written.
            StoreError: the store cannot be read.
        """
        carried = Carried(GLOBAL if self._is_the_real_store() else self._own)
        here = CarryList.in_folder(folder, self._lanes.run_id, lane=carried.lane)
        gone = CarryList(self._memory(carried.lane), self._lanes.run_id)
        known = {} if everything else self._old(gone)
        # A list that came back on a stick is believed as far as we wrote it ourselves.
        listed = {
            path: digest
            for path, digest in self._old(here).items()
            if known.get(path) == digest and here.place(path).is_file()
        }
        entries = {entry.key: entry for entry in self._lanes.list(f"{carried.lane}/")}
        for path, key in in_order(entries, carried.lane):
            if not key.replaced and path in known:
                carried.already += 1
            elif self._is_whole(path, key, entries=entries, carried=carried):
                digest = self._fetch(path, key, to=here.place(path), carried=carried)
                if digest and known.get(path) == digest and path in listed:
                    carried.already += 1
                elif digest:
                    carried.moved.append(path)
                    self._tell(path)
                listed |= {path: digest} if digest else {}
        here.write(listed)
        gone.write(known | listed)
        return carried

    def bring_in(self, folder: Path) -> Carried:
        """Write what a folder's list names into this machine's store: models before seals.

        Raises:
            ConfigError: nothing for this store is in the folder.
            BadDocument: its list cannot be read, or names a key of another lane; nothing was written.
            StoreError: the store cannot be written.
        """
        real = self._is_the_real_store()
        carried = Carried(self._own if real else GLOBAL)
        here = CarryList.in_folder(folder, self._lanes.run_id, lane=carried.lane)
        wanted = here.read()
        if not wanted:
            raise ConfigError(
                f"{folder} holds nothing of {carried.lane} for run {self._lanes.run_id}",
                hint="Fill it with `clif-stitch carry out` on the other machine.",
            )
        for path in wanted:
            if not is_carried(layout.parse(path), carried.lane):
                raise BadDocument(f"{here.file.name} names {path[:120]!r}, which is no key of {carried.lane}")
        lanes = replace(
            self._lanes, writable=frozenset({carried.lane}), outbox=self._lanes.outbox if real else None
        )
        there = {entry.key: entry for entry in lanes.list(f"{carried.lane}/")}
        for path, key in in_order(wanted, carried.lane):
            bringing = _Bringing(self._settings, lanes, self._mirror, there, carried)
            if bringing.bring(path, key, file=here.place(path), digest=wanted[path]):
                carried.moved.append(path)
                self._tell(path)
        return carried

    def _old(self, here: CarryList) -> dict[str, str]:
        """What a list says; one that was cut or damaged is written anew."""
        try:
            return here.read()
        except BadDocument:
            return {}

    def _is_the_real_store(self) -> bool:
        """The lead's lease is never carried: where it lies, the lead itself writes."""
        url = self._settings.urls.global_
        if url and parse_location(url).kind != "folder":
            return True
        return any(True for _ in self._lanes.list(f"{GLOBAL}/lease/"))

    def _memory(self, lane: str) -> Path:
        return self._mirror.root / "local" / "carried" / f"{lane.replace('/', '-')}.sha256"

    def _is_whole(self, path: str, key: Key, *, entries: Mapping[str, Entry], carried: Carried) -> bool:
        """Whether a key may travel: of no unheard-of size, and a seal only with all that it names."""
        most = self._settings.transfer.max_bytes if key.digest else MAX_BYTES
        trouble = "" if entries[path].size <= most else f"{path}: {entries[path].size} bytes are too many"
        if not trouble and key.what is What.SEAL:
            got = self._lanes.read(path, limit=MAX_BYTES)
            try:
                seal = Seal.parse(got[1] if got else b"", source=path)
                missing = [name for name, size in _named(key, seal) if _size(entries, name) != size]
                trouble = f"{path}: {missing[0]} is not whole yet" if missing else ""
            except ProtocolError as error:
                trouble = str(error)
        carried.waiting += [trouble] if trouble else []
        return not trouble

    def _fetch(self, path: str, key: Key, *, to: Path, carried: Carried) -> str:
        """Copy one key into the folder and flush it; its digest, "" when it is not what its name says."""
        with disk(to):
            to.parent.mkdir(parents=True, exist_ok=True)
        digest = self._lanes.pull(path, to).digest or file_sha256(to)
        if key.digest and not digest.startswith(key.digest):
            to.unlink(missing_ok=True)
            carried.damaged.append(f"{path}: its bytes are not those of its name")
            return ""
        with disk(to):
            sync_file(to)
        return digest


@dataclass(frozen=True, slots=True)
class _Bringing:
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
        return next((name for name, size in _named(key, seal) if _size(self.there, name) != size), "")


def _named(key: Key, seal: Seal) -> list[tuple[str, int]]:
    """Path and size of each file that a seal names."""
    folder = key.ref.folder if key.ref else key.lane
    files = [(seal.model_file, seal.model_bytes), *((one.file, one.bytes) for one in seal.attachments)]
    return [(f"{folder}/{name}", size) for name, size in files]


def _size(entries: Mapping[str, Entry], path: str) -> int:
    return entries[path].size if path in entries else -1


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
