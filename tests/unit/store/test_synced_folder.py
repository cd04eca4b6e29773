"""Folders that a sync client copies between machines: any order, conflict copies, no shared clock."""

import hashlib
import random
import shutil
from pathlib import Path

import pytest

from stitch.errors import NotFound
from stitch.store import Conflict, FolderStore, find_conflicts


class _SyncClient:
    """Copies files between two replicas one at a time, in random order, each first in part."""

    def __init__(self, chance: random.Random, *sides: Path) -> None:
        self.sides = sides
        self.chance = chance

    def step(self) -> bool:
        """Moves one file a bit; False when the replicas are equal."""
        waiting = self._differences()
        if not waiting:
            return False
        source, target = self.chance.choice(waiting)
        target.parent.mkdir(parents=True, exist_ok=True)
        content = source.read_bytes()
        if self.chance.random() < 0.5:
            content = content[: self.chance.randrange(len(content) + 1)]
        target.write_bytes(content)
        return True

    def _differences(self) -> list[tuple[Path, Path]]:
        found = []
        for here, there in (self.sides, self.sides[::-1]):
            for path in here.rglob("*"):
                twin = there / path.relative_to(here)
                if path.is_file() and (not twin.exists() or twin.stat().st_size < path.stat().st_size):
                    found.append((path, twin))
        return found


@pytest.mark.parametrize("seed", range(20))
def test_a_digest_never_names_wrong_bytes_however_files_arrive(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    roots = [tmp_path / "rush", tmp_path / "nu"]
    for root in roots:
        root.mkdir()
    ours, theirs = (FolderStore(root, synced=True) for root in roots)
    wanted: dict[str, str] = {}
    for number in range(6):
        content = chance.randbytes(chance.randrange(1, 5000))
        source = tmp_path / "source"
        source.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        key = f"run/sites/rush/pass_{number:03d}/model.{digest[:12]}.npz"
        ours.push(source, key, mode="create", digest=digest)
        wanted[key] = digest
    client, target = _SyncClient(chance, *roots), tmp_path / "out"
    whole: set[str] = set()
    moving = True
    while moving:
        moving = client.step()
        for key, digest in wanted.items():
            try:
                entry = theirs.pull(key, target)
            except NotFound:
                continue
            assert entry.digest == hashlib.sha256(target.read_bytes()).hexdigest()
            if entry.digest == digest:
                whole.add(key)
            else:
                assert key not in whole, "a file that was whole stays whole"
                assert theirs.stat(key) is not None, "a part is there, and its digest tells it from the whole"
    assert whole == set(wanted)


def test_a_synced_folder_promises_nothing_across_machines(tmp_path: Path) -> None:
    traits = FolderStore(tmp_path, synced=True).traits
    assert not any((traits.atomic_create, traits.compare_and_swap, traits.server_time))


@pytest.mark.parametrize(
    "copy",
    [
        "model (conflicted copy 2026-11-29).npz",
        "model (rush's conflicted copy 2026-11-29).npz",
        "model_conflict-copy.npz",
        "model (1).npz",
        "model-WARD7.npz",
        "model-WARD7-2.npz",
    ],
)
def test_conflict_copies_are_reported_with_the_key_they_copy(tmp_path: Path, copy: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "model.npz").write_bytes(b"1")
    shutil.copy(tmp_path / "a" / "model.npz", tmp_path / "a" / copy)
    store = FolderStore(tmp_path, synced=True)
    assert store.conflicts("a/") == (Conflict(key="a/model.npz", copy=f"a/{copy}"),)


def test_ordinary_names_are_no_conflict_copies() -> None:
    names = [
        "r/sites/rush-medical/pass_001/model.77e0.npz",
        "r/sites/rush/pass_001/metrics.json",
        "r/global/lease/term-0001.json",
        "r/global/lease/term-0002.json",
        "r/conflict/metrics.json",
    ]
    assert find_conflicts(names) == ()
