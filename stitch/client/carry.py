"""A lane carried by hand: between a store and a folder on a stick or behind a one-way diode.

A site without a network works on a store of its own, a plain folder. What it writes there is carried
out, and brought into the real store on a machine that has a network, with that lane's own token; the
lead's lane comes back the same way. The folder holds the store's keys as they are, and a list of their
SHA-256 in the form of `sha256sum`, written last. Nothing is overwritten, nothing is deleted (laws 1, 5),
and whatever is interrupted goes on when the same command is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from stitch import layout
from stitch.client.carry_in import Bringing
from stitch.client.carry_list import Carried, CarryList, in_order, is_carried, named, size_of
from stitch.config.settings import Settings
from stitch.errors import (
    BadDocument,
    ConfigError,
    ProtocolError,
)
from stitch.files import disk, file_sha256, sync_file
from stitch.layout import GLOBAL, Key, What
from stitch.mirror import Mirror
from stitch.store.base import Entry
from stitch.store.lanes import Lanes
from stitch.store.location import parse_location
from stitch.wire import MAX_BYTES, Seal


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
            bringing = Bringing(self._settings, lanes, self._mirror, there, carried)
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
                missing = [name for name, size in named(key, seal) if size_of(entries, name) != size]
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
