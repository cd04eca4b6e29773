"""The mirror: `stitch_store/<run_id>/`, this actor's copy of the run, and how a pass enters it.

Stage, seal, rename (law 3): a pass folder appears whole, with its seal, or not at all. Beside the
run's tree lies `local/`, which is never synced:

    local/staging/<lane>-pass_001-<token>/   one hook run: pass/ (model, state/), work/, inputs/
    local/incoming/<lane>-pass_001/          a download under way, resumed where it stopped
    local/aside/<lane>-pass_001-<n>/         work that was set aside unsent
    local/locks/  local/nonces/              one live process per lane (law 10)
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from stitch import layout
from stitch.errors import BadDocument, DigestMismatch
from stitch.files import disk, file_sha256, retried, sync_file, sync_folder, sync_tree, write_file
from stitch.layout import PassRef
from stitch.wire import Seal


@dataclass(frozen=True, slots=True)
class Stage:
    """The folder of one hook run; nobody else writes there.

    Attributes:
        ref: the pass being made.
        folder: holds `pass/`, `work/` and, for aggregation, `inputs/`.
    """

    ref: PassRef
    folder: Path

    @property
    def pass_dir(self) -> Path:
        """What becomes the pass folder when it is sealed."""
        return self.folder / "pass"

    @property
    def state_dir(self) -> Path:
        """The site's private state: committed with the seal, never uploaded."""
        return self.pass_dir / "state"

    @property
    def work_dir(self) -> Path:
        """Scratch of the hook runner."""
        return self.folder / "work"

    @property
    def inputs_dir(self) -> Path:
        """`<site>/pass_NNN/{model.ext,metrics.json}`: exactly the round's inputs."""
        return self.folder / "inputs"

    def model_path(self, ext: str) -> Path:
        """Where the hook writes its model."""
        return self.pass_dir / f"model.{ext}"


@dataclass(frozen=True, slots=True)
class Sealed:
    """A pass that is whole in the mirror: its seal, the seal's exact bytes, its model's path."""

    ref: PassRef
    seal: Seal
    data: bytes
    model: Path

    @property
    def sha256(self) -> str:
        """Hash of the seal's bytes."""
        return hashlib.sha256(self.data).hexdigest()


class Mirror:
    """One run's mirror on this disk.

    Args:
        root: `stitch_store/<run_id>`; made when first written to.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._hashes: dict[tuple[int, int, int, int], str] = {}
        self._entering: dict[PassRef, threading.Lock] = {}

    def path(self, run_path: str) -> Path:
        """Where a path of the run lies in this mirror."""
        return self.root / layout.mirror_path(run_path)

    # -- passes ----------------------------------------------------------------------------------

    def stage(self, ref: PassRef) -> Stage:
        """A new, empty staging folder for one hook run."""
        folder = self.root / "local" / "staging" / f"{_flat(ref)}-{secrets.token_hex(4)}"
        stage = Stage(ref, folder)
        with disk(folder):
            stage.pass_dir.mkdir(parents=True)
            stage.work_dir.mkdir()
        return stage

    def stages(self, lane: str) -> list[Stage]:
        """Staging folders that earlier processes of this lane left behind."""
        base = self.root / "local" / "staging"
        prefix = lane.replace("/", "-") + "-pass_"
        if not base.is_dir():
            return []
        found = [folder for folder in sorted(base.iterdir()) if folder.name.startswith(prefix)]
        return [Stage(PassRef(0, layout.lane_site(lane)), folder) for folder in found]

    def discard(self, stage: Stage) -> None:
        """Remove a staging folder that will not be sealed."""
        shutil.rmtree(stage.folder, ignore_errors=True)

    def seal(self, stage: Stage, seal: Seal) -> Sealed:
        """Write the seal last, then rename the folder into place.

        If the pass is sealed here already, that one is used (law 2: first wins).

        Raises:
            DiskError: the disk is full, read-only or failing; nothing is half-written.
        """
        present = self.sealed(stage.ref)
        if present is None:
            target = self.root / stage.ref.folder
            with disk(target):
                sync_file(stage.model_path(seal.ext))
                for one in seal.attachments:
                    sync_file(stage.pass_dir / f"{one.name}.{one.ext}")
                # A seal without the state it was trained with would hold up the next pass.
                sync_tree(stage.state_dir)
                write_file(stage.pass_dir / "metrics.json", seal.dump(), durable=True)
                self._land(stage.pass_dir, target)
            present = self.sealed(stage.ref)
        if present is None:
            raise DigestMismatch(f"{stage.ref.folder}: the model changed while it was being sealed")
        self.discard(stage)
        return present

    def entering(self, ref: PassRef) -> AbstractContextManager[object]:
        """Held while a pass is brought in: the lead's two loops may want the same global at once."""
        return self._entering.setdefault(ref, threading.Lock())

    def incoming(self, ref: PassRef) -> Path:
        """Where a download of the pass gathers; the same folder every time, so that it resumes."""
        folder = self.root / "local" / "incoming" / _flat(ref)
        with disk(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def scratch(self) -> Path:
        """A folder for bytes that are only looked at."""
        folder = self.root / "local" / "scratch"
        with disk(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def land(self, ref: PassRef, model: Path, *, ext: str, seal: bytes) -> None:
        """Turn a verified download in `incoming` into the pass, with its seal's exact bytes."""
        folder = model.parent
        with disk(folder):
            for other in folder.iterdir():
                if other != model:
                    other.unlink()  # what a resumed download or another seal left
            sync_file(model)
            retried(lambda: model.rename(folder / f"model.{ext}"))
            write_file(folder / "metrics.json", seal, durable=True)
            self._land(folder, self.root / ref.folder)

    def sealed(self, ref: PassRef) -> Sealed | None:
        """The pass, if its seal and its whole model are here and agree.

        A crash leaves half-written folders: they are None here, and are replaced when the pass
        is made or pulled again.
        """
        folder = self.root / ref.folder
        try:
            data = (folder / "metrics.json").read_bytes()
            seal = Seal.parse(data, source=f"{ref.folder}/metrics.json")
            model = folder / f"model.{seal.ext}"
            if seal.pass_id != ref.number or seal.lane != ref.lane or self.digest(model) != seal.model_sha256:
                return None
        except (OSError, BadDocument):
            return None
        return Sealed(ref, seal, data, model)

    def has_attachments(self, sealed: Sealed) -> bool:
        """Whether what the seal lists beside the model is here, as it says."""
        files = ((self.path(f"{sealed.ref.folder}/{one.file}"), one) for one in sealed.seal.attachments)
        return all(file.is_file() and self.digest(file) == one.sha256 for file, one in files)

    def passes(self, lane: str) -> list[PassRef]:
        """Pass folders of a lane that hold a seal (not yet verified), by number."""
        base = self.root / lane
        refs = []
        for folder in base.iterdir() if base.is_dir() else ():
            key = layout.parse(f"{lane}/{folder.name}/metrics.json")
            if key is not None and key.ref is not None and (folder / "metrics.json").is_file():
                refs.append(key.ref)
        return sorted(refs, key=lambda ref: (ref.number, ref.attempt))

    def set_aside(self, ref: PassRef) -> Path | None:
        """Move a pass out of the run's tree, unsent; None if there is none."""
        folder = self.root / ref.folder
        if not folder.exists():
            return None
        base = self.root / "local" / "aside"
        with disk(base):
            base.mkdir(parents=True, exist_ok=True)
            serial = 1 + sum(1 for entry in base.iterdir() if entry.name.startswith(_flat(ref) + "-"))
            target = base / f"{_flat(ref)}-{serial}"
            retried(lambda: folder.rename(target))
        return target

    def digest(self, file: Path) -> str:
        """SHA-256 of a file, remembered as long as its size, time and inode stay the same.

        A rename keeps all three: what was hashed in staging or on its way in is not read again.
        """
        mark = _mark(file)
        known = self._hashes.get(mark)
        if known is None:
            known = self._hashes[mark] = file_sha256(file)
        return known

    def remember_digest(self, file: Path, digest: str) -> None:
        """Take a digest that was made of the file's bytes as they were written."""
        self._hashes[_mark(file)] = digest

    def _land(self, folder: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            key = layout.require(f"{target.relative_to(self.root).as_posix()}/metrics.json")
            if key.ref is not None:
                self.set_aside(key.ref)
        retried(lambda: folder.rename(target))
        sync_folder(target.parent)

    # -- documents and locks ---------------------------------------------------------------------

    def keep(self, run_path: str, data: bytes) -> None:
        """Keep a copy of a document that was read from or written to the store."""
        file = self.path(run_path)
        with disk(file):
            write_file(file, data, durable=False)

    def read(self, run_path: str) -> bytes | None:
        """A document's bytes; None when it is not here."""
        try:
            return self.path(run_path).read_bytes()
        except OSError:
            return None

    def nonces(self, lane: str) -> tuple[str, ...]:
        """Nonces this mirror ever claimed the lane with."""
        try:
            raw = json.loads(self._nonce_file(lane).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return ()
        return tuple(item for item in raw if isinstance(item, str)) if isinstance(raw, list) else ()

    def remember_nonce(self, lane: str, nonce: str) -> None:
        """Add a nonce, durably, before its term is created (law 10)."""
        file = self._nonce_file(lane)
        with disk(file):
            write_file(file, json.dumps([*self.nonces(lane)[-63:], nonce]).encode(), durable=True)

    def _nonce_file(self, lane: str) -> Path:
        return self.root / "local" / "nonces" / f"{lane.replace('/', '-')}.json"

    def watched(self, lane: str, mark: str, *, now: float, ticks: float) -> float:
        """Seconds for which this machine has seen a lane's sign of life stand still.

        For stores without a time of their own; kept across processes, so that turns started by a
        scheduler see a dead holder too.

        Args:
            lane: the lane.
            mark: names the sign of life; another one starts the watch anew.
            now: this machine's wall clock, in seconds; it may be put forward.
            ticks: its monotonic clock, in seconds; it restarts on a boot. The smaller counts.
        """
        file = self.root / "local" / "watched" / f"{lane.replace('/', '-')}.json"
        try:
            seen = json.loads(file.read_text(encoding="utf-8"))
            by_wall, by_ticks = now - float(seen["since"]), ticks - float(seen["ticks"])
            if seen["mark"] == mark and by_wall >= 0:
                return min(by_wall, by_ticks) if by_ticks >= 0 else by_wall
        except (OSError, ValueError, KeyError, TypeError):
            pass
        with disk(file):
            write_file(file, json.dumps({"mark": mark, "since": now, "ticks": ticks}).encode(), durable=False)
        return 0.0

    @contextlib.contextmanager
    def lock(self, lane: str) -> Iterator[bool]:
        """Hold the lane on this machine; yields False if another process here holds it."""
        file = self.root / "local" / "locks" / f"{lane.replace('/', '-')}.lock"
        with disk(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(file)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                held = False
            else:
                held = True
        try:
            yield held
        finally:
            if held:
                lock.release()


def _mark(file: Path) -> tuple[int, int, int, int]:
    facts = file.stat()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _flat(ref: PassRef) -> str:
    return ref.folder.replace("/", "-")
