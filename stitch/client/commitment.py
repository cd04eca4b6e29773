"""What a site commits to before it trains: the root over its data (docs/protocol.md, The dataset's root).

Beside the passes in the mirror's `local/`, and never sent:

    local/dataset/salt          32 random bytes; without them a root tells nothing of the data
    local/dataset/hashes.json   what was hashed, by path, size, times and inode: a stat instead of a read
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stitch.client.actor import Actor
from stitch.client.admission import read_started
from stitch.client.begun import Begun
from stitch.client.calls import leaves_call
from stitch.client.ended import until_ended
from stitch.errors import ConfigError, Stopped
from stitch.files import disk, disk_error, write_file
from stitch.layout import PassRef
from stitch.rounds import Started, dataset_root, numbered

_DIGEST_BYTES = 32
_CHUNK_BYTES = 1 << 20
_LEFT_BY_DESKTOPS = frozenset({"thumbs.db", "desktop.ini"})

Mark = list[int]
"""Size, times and inode: as long as they stay, so does the content."""


def commitment(actor: Begun, ref: PassRef, *, attempt: int) -> tuple[Started | None, str | None]:
    """What the attempt declared when it started, and the root over the data now; None twice without `commit`.

    Raises:
        ConfigError, HookError, DiskError, RunEnded, Stopped: as `root_of_data`.
        BadDocument: the started event cannot be believed.
    """
    if not actor.settings.integrity.commit:
        return None, None
    return read_started(actor, ref, attempt=attempt), root_of_data(actor, ref.number)


def root_of_data(actor: Actor, pass_id: int) -> str:
    """The root over this site's data as it is now: its files, or what its `leaves` hook yields.

    Raises:
        ConfigError: there is no data.
        HookError: the leaves hook failed.
        DiskError: a file cannot be read.
        RunEnded: the run was ended meanwhile.
        Stopped: the actor was told to stop.
    """
    folder = _folder(actor)
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        secret = _secret(folder / "salt")
    with until_ended(actor) as halt:  # hashing a cohort may take hours, as training does
        contents = _contents(actor, pass_id, stop=halt)
    return dataset_root(contents, secret=secret)


@dataclass(frozen=True, slots=True)
class Standing:
    """This site's data as they are now, beside what it declared.

    Attributes:
        root: over the data now.
        declared: by pass, in their order, the root in the seal of each that this mirror holds.
        contents: name and SHA-256 of each content.
        secret: the site's salt. Never shown.
    """

    root: str
    declared: Mapping[PassRef, str]
    contents: Sequence[tuple[bytes, bytes]]
    secret: bytes = field(repr=False)


def standing(actor: Actor) -> Standing:
    """Compare the data with what was declared; also after the end of the run. Nothing is written but hashes.

    Raises:
        ConfigError: this run does not commit to data, or the salt is gone: no root can be opened any more.
        HookError, DiskError, Stopped: as `root_of_data`.
    """
    if not actor.settings.integrity.commit:
        raise ConfigError(
            "this run does not commit to data", hint="[integrity] commit = true, before a run begins."
        )
    file = _folder(actor) / "salt"
    secret = file.read_bytes() if file.is_file() else b""
    if len(secret) != _DIGEST_BYTES:
        raise ConfigError(
            "there is no salt here: what this site declared cannot be opened",
            hint="Use the machine that trained, or bring back its stitch_store/<run_id>/local/dataset.",
        )
    seals = [actor.mirror.sealed(ref) for ref in actor.mirror.passes(actor.lane)]
    declared = {one.ref: one.seal.dataset_root for one in seals if one and one.seal.dataset_root}
    newest = max((ref.number for ref in declared), default=1)
    contents = _contents(actor, newest, stop=actor.stop)
    return Standing(dataset_root(contents, secret=secret), declared, contents, secret)


def _folder(actor: Actor) -> Path:
    return actor.mirror.root / "local" / "dataset"


def _contents(actor: Actor, pass_id: int, *, stop: threading.Event) -> list[tuple[bytes, bytes]]:
    """Name and SHA-256 of each content of the site's data."""
    if actor.settings.hooks.leaves is not None:
        return numbered(_yielded(actor, actor.settings.hooks.leaves, pass_id, stop=stop))
    hashes = Hashes(_folder(actor) / "hashes.json", stop=stop)
    files = [(name, hashes.of(name, path)) for name, path in data_files(actor.settings.data_dir)]
    hashes.keep()
    return [(os.fsencode(name), digest) for name, digest in files]


def data_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every file below a folder with its relative path, sorted; links are followed, each folder once.

    Left out is what comes and goes without anybody's doing: hidden files and folders, the lock files
    of office programs (`~$...`), and what desktops leave behind.

    Raises:
        DiskError: a folder cannot be read.
    """
    seen: set[tuple[int, int]] = set()
    found = []
    for base, folders, names in os.walk(folder, followlinks=True, onerror=_refuse):
        facts = Path(base).stat()
        if (facts.st_dev, facts.st_ino) in seen:
            folders.clear()
            continue
        seen.add((facts.st_dev, facts.st_ino))
        folders[:] = [name for name in folders if not _passing(name)]
        paths = (Path(base) / name for name in names if not _passing(name))
        found += [(path.relative_to(folder).as_posix(), path) for path in paths if path.is_file()]
    yield from sorted(found)


class Hashes:
    """SHA-256 of data files, remembered on disk as long as their marks stay the same.

    Args:
        file: where they are kept.
        stop: ends a long read.
    """

    def __init__(self, file: Path, *, stop: threading.Event) -> None:
        self._file = file
        self._stop = stop
        self._known = _load(file)
        self._used: dict[str, tuple[Mark, str]] = {}

    def of(self, name: str, path: Path) -> bytes:
        """The digest of a file.

        Raises:
            DiskError: it cannot be read.
            Stopped: `stop` was set.
        """
        try:
            mark = _mark(path)
            known = self._known.get(name)
            if known is None or known[0] != mark:
                known = (mark, self._read(path))
            self._used[name] = known
        except OSError as error:
            raise disk_error(path, error, what="read") from error
        return bytes.fromhex(known[1])

    def keep(self) -> None:
        """Write down what was used."""
        if self._used != self._known:
            with disk(self._file):
                write_file(self._file, json.dumps(self._used).encode(), durable=False)

    def _read(self, path: Path) -> str:
        digest = hashlib.sha256()
        with path.open("rb") as source:
            while chunk := source.read(_CHUNK_BYTES):
                digest.update(chunk)
                if self._stop.is_set():
                    raise Stopped
        return digest.hexdigest()


def _yielded(actor: Actor, spec: str, pass_id: int, *, stop: threading.Event) -> list[bytes]:
    """The digests of what the site's hook yields."""
    stage = actor.mirror.stage(PassRef(pass_id, actor.site))
    try:
        call = leaves_call(actor.settings, spec=spec, pass_id=pass_id, folder=stage.work_dir)
        actor.runner.run(call, stop=stop)
        data = (stage.work_dir / "leaves.bin").read_bytes()
    finally:
        actor.mirror.discard(stage)
    return [data[at : at + _DIGEST_BYTES] for at in range(0, len(data), _DIGEST_BYTES)]


def _secret(file: Path) -> bytes:
    """The site's salt, made when first asked for, and durable before any root is made with it."""
    if file.is_file() and len(secret := file.read_bytes()) == _DIGEST_BYTES:
        return secret
    secret = secrets.token_bytes(_DIGEST_BYTES)
    with contextlib.suppress(OSError):  # some network mounts know no modes
        file.parent.chmod(0o700)
    write_file(file, secret, durable=True)
    return secret


def _load(file: Path) -> dict[str, tuple[Mark, str]]:
    """What an earlier process kept; a damaged file only costs reading the data again."""
    try:
        kept = json.loads(file.read_bytes())
        return {
            name: ([int(n) for n in mark], bytes.fromhex(sha).hex()) for name, (mark, sha) in kept.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _mark(path: Path) -> Mark:
    facts = path.stat()
    return [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]


def _passing(name: str) -> bool:
    return name.startswith((".", "~$")) or name.lower() in _LEFT_BY_DESKTOPS


def _refuse(error: OSError) -> None:
    raise disk_error(Path(error.filename or ""), error, what="read") from error
