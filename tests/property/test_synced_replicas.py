"""A federation over a folder that a sync client copies between machines, in whatever order it likes."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from stitch.client import Client, Setup
from stitch.config.hooks import Hooks
from stitch.config.settings import Settings
from stitch.errors import DigestMismatch, StoreError
from stitch.hooks.inline import FunctionRunner
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.store.folder import FolderStore
from stitch.store.lanes import Lanes

PASSES = 3
SITES = ("rush", "nu")


def train(*, global_path: Path | None, out_path: Path, data_dir: Path) -> dict[str, int]:
    """A model is one number in a few lines; training adds one."""
    assert data_dir.is_dir()
    value = 0.0 if global_path is None else float(global_path.read_text("utf-8").split()[0]) + 1
    out_path.write_text(f"{value}\n" * 50, "utf-8")
    return {"n_samples": 100}


def aggregate(*, site_dir: Path, out_path: Path) -> dict[str, int]:
    """The mean of the inputs."""
    paths = sorted(site_dir.glob("*/pass_*/model.txt"))
    values = [float(path.read_text("utf-8").split()[0]) for path in paths]
    out_path.write_text(f"{sum(values) / len(values)}\n" * 50, "utf-8")
    return {"inputs": len(values)}


class Courier:
    """A sync client: copies one file at a time between two folders, now and then half of it first."""

    def __init__(self, folders: tuple[Path, Path], seed: int) -> None:
        self._folders = folders
        self._random = random.Random(seed)
        self._owner: dict[str, int] = {}

    def deliver_one(self) -> bool:
        """Copy one file that the other side lacks or has an older version of; False if there is none."""
        waiting = [(name, side) for side in (0, 1) for name in self._names(side) if self._differs(name, side)]
        if not waiting:
            return False
        name, side = self._random.choice(sorted(waiting))
        source, target = self._folders[side] / name, self._folders[1 - side] / name
        target.parent.mkdir(parents=True, exist_ok=True)
        data = source.read_bytes()
        half = name.endswith(".txt") and not target.exists() and self._random.random() < 0.5
        target.write_bytes(data[: len(data) // 2] if half else data)
        return True

    def _names(self, side: int) -> list[str]:
        """Files that this side wrote itself: of what arrived, the other side stays the owner."""
        root = self._folders[side]
        names = []
        for path in root.rglob("*"):
            name = path.relative_to(root).as_posix()
            scratch = path.name.startswith(".") or path.name.endswith((".part", ".tmp"))
            if path.is_file() and not scratch and self._owner.setdefault(name, side) == side:
                names.append(name)
        return names

    def _differs(self, name: str, side: int) -> bool:
        theirs = self._folders[1 - side] / name
        return not theirs.exists() or theirs.read_bytes() != (self._folders[side] / name).read_bytes()


def client(site: str, store: Path, project: Path) -> Client:
    (project / "data").mkdir(parents=True)
    settings = Settings(
        root=project,
        run_id="synced",
        lead="rush",
        sites=SITES,
        site=site,
        num_passes=PASSES,
        data_dir=project / "data",
        output_dir=project / "output",
        root_seed=1,
        heartbeat_minutes=60,
        hooks=replace(Hooks(), model_ext="txt"),
    )
    store.mkdir()
    folder = FolderStore(store, synced=True)
    lanes = Lanes("synced", dict.fromkeys(("global", "sites/rush", "sites/nu"), folder), {})
    runner = FunctionRunner({"train": train, "aggregate": aggregate})
    return Client(settings, Setup(lanes=lanes, runner=runner, host=site))


@pytest.mark.parametrize("seed", range(12))
def test_files_that_arrive_in_any_order_and_by_halves_still_make_the_same_run(
    tmp_path: Path, seed: int
) -> None:
    clients = [client(site, tmp_path / f"box-{site}", tmp_path / site) for site in SITES]
    courier = Courier((tmp_path / "box-rush", tmp_path / "box-nu"), seed)
    loops: list[Lead | Local] = [Lead(clients[0]), Local(clients[0]), Local(clients[1])]
    chance = random.Random(seed)
    done: set[int] = set()
    for _ in range(20_000):
        turn = chance.randrange(len(loops) + 4)
        if turn >= len(loops):
            courier.deliver_one()
        elif turn not in done:
            try:
                done |= {turn} if loops[turn].step().state == "done" else set()
            except (StoreError, DigestMismatch):
                continue  # a file under way: the driver reports it and tries again
        if len(done) == len(loops):
            break
    else:
        pytest.fail(f"the run never ended (seed {seed})")
    for one in clients:
        final = one.global_model_path(PASSES)
        assert float(final.read_text("utf-8").split()[0]) == PASSES
        one.close()
    models = {one.global_model_path(PASSES).read_bytes() for one in clients}
    assert len(models) == 1
    shutil.rmtree(tmp_path, ignore_errors=True)
