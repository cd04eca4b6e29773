"""The list of a carried lane: `<sha256>  <run_id>/<path>` a line, as `sha256sum -c` reads it.

Beside it: what travels, in which order, and what a carrying came to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stitch import layout
from stitch.errors import BadDocument
from stitch.files import disk, write_file
from stitch.layout import GLOBAL, Event, Key, What
from stitch.store.base import Entry
from stitch.wire import Seal

_LINE = re.compile(r"([0-9a-f]{64})  ([ -~]{1,1000})")
_END = "# complete"
_MOST_BYTES = 64 * 1024 * 1024

# Law 2: a seal after all that it names, what reports a seal after it, the end of the run last.
_ORDER = {
    What.MANIFEST: 0,
    What.ROSTER: 1,
    What.JOIN: 1,
    What.TERM: 1,
    What.SIGNATURE: -1,  # up before what it signs, whatever that is
    What.MODEL: 3,
    What.ATTACHMENT: 3,
    What.VERDICT: 3,
    What.ABORT: 4,
    What.SEAL: 5,
    What.ORCHESTRATION: 7,
    What.DONE: 8,
}
_BEFORE_THE_SEAL, _OTHER, _AFTER_THE_SEAL = 2, 4, 6


@dataclass(frozen=True, slots=True)
class CarryList:
    """What a folder holds of one lane.

    Attributes:
        file: the list itself.
        run_id: the first component of every key.
    """

    file: Path
    run_id: str

    @classmethod
    def in_folder(cls, folder: Path, run_id: str, *, lane: str) -> CarryList:
        """The list of a lane in a folder that is carried."""
        return cls(folder / f"{run_id}.{lane.replace('/', '-')}.sha256", run_id)

    def place(self, path: str) -> Path:
        """Where a key's file lies beside the list."""
        return self.file.parent.joinpath(self.run_id, *path.split("/"))

    def read(self) -> dict[str, str]:
        """Digests by path; empty when there is no list yet.

        Raises:
            BadDocument: it is cut short, too long, or no such list.
        """
        name = self.file.name
        try:
            if self.file.stat().st_size > _MOST_BYTES:
                raise BadDocument(f"{name}: too long for a list of one lane")
            text = self.file.read_bytes().decode("ascii")
        except OSError:
            return {}
        except UnicodeDecodeError:
            raise BadDocument(f"{name}: no list of hashes") from None
        *lines, end = text.splitlines() or [""]
        if end != _END:
            raise BadDocument(
                f"{name}: cut short", hint="Run `clif-stitch carry out` once more, then copy it."
            )
        found: dict[str, str] = {}
        for number, line in enumerate(lines, start=1):
            match = _LINE.fullmatch(line)
            if match is None or not match[2].startswith(f"{self.run_id}/"):
                raise BadDocument(f"{name}, line {number}: no hash of a key of run {self.run_id}")
            found[match[2].removeprefix(f"{self.run_id}/")] = match[1]
        return found

    def write(self, digests: Mapping[str, str]) -> None:
        """Write the list whole, durably.

        Raises:
            DiskError: the folder cannot be written.
        """
        lines = [f"{digest}  {self.run_id}/{path}\n" for path, digest in sorted(digests.items())]
        with disk(self.file):
            write_file(self.file, "".join([*lines, f"{_END}\n"]).encode("ascii"), durable=True)


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


def is_carried(key: Key | None, lane: str) -> bool:
    """Whether a key travels: a beat that arrives days later would lie, and the lead's lease is the lead's."""
    if key is None or key.lane != lane or key.what is What.HEARTBEAT:
        return False
    return not (key.what is What.TERM and lane == GLOBAL)


def in_order(paths: Iterable[str], lane: str) -> list[tuple[str, Key]]:
    """The keys that travel, in the order in which they may become visible."""
    keys = [(path, layout.parse(path)) for path in paths]
    known = [(path, key) for path, key in keys if key is not None and is_carried(key, lane)]
    return sorted(known, key=lambda one: (_rank(one[1]), one[1].number, one[0]))


def named(key: Key, seal: Seal) -> list[tuple[str, int]]:
    """Path and size of each file that a seal names."""
    folder = key.ref.folder if key.ref else key.lane
    files = [(seal.model_file, seal.model_bytes), *((one.file, one.bytes) for one in seal.attachments)]
    return [(f"{folder}/{name}", size) for name, size in files]


def size_of(entries: Mapping[str, Entry], path: str) -> int:
    """Bytes of a listed key; -1 where it is not there."""
    return entries[path].size if path in entries else -1


def _rank(key: Key) -> int:
    if key.what is What.EVENT:
        before = key.name != Event.COMPLETED  # a score belongs to the global that came before the seal
        return _BEFORE_THE_SEAL if before else _AFTER_THE_SEAL
    return _ORDER.get(key.what, _OTHER)
