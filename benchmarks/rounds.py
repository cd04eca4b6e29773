"""How long a round takes, and what it moves: whole federations of real processes on one machine.

    uv run --group bench python benchmarks/rounds.py [--sites 2,4] [--sizes 1,4,16,128] [--passes 10]
        [--store folder|azurite] [--repeats 3]

Every hook adds one (train) or takes the mean (aggregate), each in a fresh child process, so the
final mean must equal the number of passes; a wrong one is named and ends the benchmark with 1. One row
a setting:

- s/pass: seconds per pass beyond the first, (t_R - t_1) / (R - 1), median over the repeats [min-max];
- bare: the same hooks and the same copies without any protocol, measured in the same run, and the ratio;
- moved: bytes through the store over the floor (each site pass up once, to the lead once; each
  global up once, to each other site once);
- requests a pass, of the lead process and of one site;
- CPU seconds of the whole run, and the peak of the summed RSS of all processes.

The poll interval is part of the result and is printed: waiting is what a round mostly does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from stitch import layout
from stitch.client import Client, Note, Setup
from stitch.client.lanes import open_lanes
from stitch.clock import SystemClock
from stitch.config import load_settings
from stitch.loops import drive
from stitch.store.lanes import Lanes
from stitch.store.meter import MeteredStore

NAMES = ("rush", "nu", "uchicago", "emory")
POLL_S = 2.0

HOOKS = """
import numpy as np

STEP = 1 << 20


def _map(paths, out_path, rule):
    files = [open(path, "rb") for path in paths]
    with open(out_path, "wb") as out:
        while True:
            parts = [np.fromfile(file, dtype=np.float32, count=STEP) for file in files]
            if not parts[0].size:
                break
            rule(parts).astype(np.float32).tofile(out)
    for file in files:
        file.close()


def train(global_path, out_path, data_dir, config):
    if global_path is None:
        count = config["floats"]
        with open(out_path, "wb") as out:
            for start in range(0, count, STEP):
                np.zeros(min(STEP, count - start), dtype=np.float32).tofile(out)
    else:
        _map([global_path], out_path, lambda parts: parts[0] + 1)
    return {"n_samples": 100}


def aggregate(site_dir, out_path):
    paths = sorted(site_dir.glob("*/pass_*/model.bin"))
    _map(paths, out_path, lambda parts: sum(part.astype(np.float64) for part in parts) / len(parts))
    return {}
"""


@dataclass(frozen=True)
class Measured:
    """One federation, measured."""

    per_pass: float
    moved: int
    requests: tuple[float, float]
    cpu: float
    peak: int
    mean: float


def main() -> int:
    """Print the table; 1 if a final mean is wrong."""
    options, right = _options(), True
    cores = os.cpu_count()
    print(f"# {options.passes} passes, poll_seconds {POLL_S:g}, store: {options.store}, {cores} cores")
    print("# sites  MB   s/pass [min-max]     bare  ratio  moved/floor  req/pass lead,site   CPU s  peak MiB")
    for count in options.sites:
        for size in options.sizes:
            with _store(options.store) as url:
                runs, bare = [], []
                for _ in range(options.repeats):
                    bare.append(_bare(count, size))
                    runs.append(_federation(count, size, passes=options.passes, url=url()))
            right &= _row(count, size, options.passes, runs=runs, bare=bare)
    return 0 if right else 1


def _row(count: int, size: int, passes: int, *, runs: list[Measured], bare: list[float]) -> bool:
    """Print one row; whether every final mean is right."""
    pace = [run.per_pass for run in runs]
    median, floor = statistics.median(pace), statistics.median(bare)
    up_down = (count + (count - 1)) * passes + (1 + (count - 1)) * (passes + 1)
    moved = statistics.median(run.moved for run in runs) / (up_down * size * 1_000_000)
    wrong = [run.mean for run in runs if run.mean != passes]
    lead, site = (statistics.median(one) for one in zip(*(run.requests for run in runs), strict=True))
    print(
        f"{count:7d} {size:3d}  {median:6.2f} [{min(pace):.2f}-{max(pace):.2f}]"
        f"  {floor:7.2f}  {median / floor:5.2f}  {moved:11.4f}  {lead:13.1f},{site:5.1f}"
        f"  {statistics.median(run.cpu for run in runs):6.1f}"
        f"  {max(run.peak for run in runs) / 2**20:8.0f}" + (f"  WRONG MEAN {wrong}" if wrong else ""),
        flush=True,
    )
    return not wrong


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731  a parser's type
    parser.add_argument("--sites", type=numbers, default=[2, 4])
    parser.add_argument("--sizes", type=numbers, default=[1, 4, 16, 128], help="MB of 1,000,000 bytes")
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--store", choices=["folder", "azurite"], default="folder")
    parser.add_argument("--actor", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.actor:
        _actor(Path(options.actor))
        sys.exit(0)
    return options


# -- one federation ------------------------------------------------------------------------------


def _federation(count: int, size: int, *, passes: int, url: str) -> Measured:
    folder = Path(tempfile.mkdtemp(prefix="stitch-rounds-"))
    try:
        names = NAMES[:count]
        projects = [_project(folder / name, names, size=size, passes=passes) for name in names]
        before = os.times()
        environ = {**os.environ, "STITCH_STORE": url or str(_made(folder / "store"))}
        command = [sys.executable, __file__, "--actor"]
        actors = [subprocess.Popen([*command, str(project)], env=environ) for project in projects]
        peak = _watch(actors)
        after = os.times()
        if any(actor.returncode for actor in actors):
            raise SystemExit("an actor failed: see its lines above")
        reports = [json.loads((project / "report.json").read_text("utf-8")) for project in projects]
        final = projects[0] / f"stitch_store/rounds/global/{layout.pass_name(passes)}/model.bin"
        return Measured(
            per_pass=reports[0]["per_pass"],
            moved=sum(report["up"] + report["down"] for report in reports),
            requests=(reports[0]["requests"] / passes, reports[-1]["requests"] / passes),
            cpu=after.children_user + after.children_system - before.children_user - before.children_system,
            peak=peak,
            mean=float(np.memmap(final, dtype=np.float32, mode="r").mean(dtype=np.float64)),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _project(folder: Path, sites: tuple[str, ...], *, size: int, passes: int) -> Path:
    (folder / "code").mkdir(parents=True)
    (folder / "config").mkdir()
    (folder / "data").mkdir()
    (folder / "code" / "hooks.py").write_text(HOOKS, encoding="utf-8")
    (folder / "stitch.toml").write_text(
        f'run_id = "rounds"\nlead = "rush"\nsites = {json.dumps(sites)}\nnum_passes = {passes}\n'
        f"poll_seconds = {POLL_S}\nroot_seed = 1\n"
        '[hooks]\ntrain = "code/hooks.py:train"\naggregate = "code/hooks.py:aggregate"\nmodel_ext = "bin"\n'
        f"[config]\nfloats = {size * 250_000}\n",
        encoding="utf-8",
    )
    config = {"site_name": folder.name, "data_directory": "data"}
    (folder / "config" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def _watch(actors: list[subprocess.Popen[bytes]]) -> int:
    """Wait for all; the peak of the summed RSS of all their processes, in bytes."""
    peak, tick = 0, threading.Event()
    while any(actor.poll() is None for actor in actors):
        total = 0
        for actor in actors:
            with contextlib.suppress(psutil.Error):
                root = psutil.Process(actor.pid)
                for process in (root, *root.children(recursive=True)):
                    with contextlib.suppress(psutil.Error):
                        total += process.memory_info().rss
        peak = max(peak, total)
        tick.wait(0.05)
    return peak


def _actor(project: Path) -> None:
    """One site's process: the product's own loops, over counted stores."""
    settings = load_settings(project, os.environ)
    stop, clock = threading.Event(), SystemClock()
    lanes = open_lanes(settings, clock=clock, stop=stop)
    metered: dict[int, MeteredStore] = {}
    for store in lanes.stores.values():
        metered.setdefault(id(store), MeteredStore(store))
    counted = Lanes(lanes.run_id, {lane: metered[id(store)] for lane, store in lanes.stores.items()}, {})
    published: dict[int, float] = {}

    def listen(note: Note) -> None:
        if note.step == "publish" and note.pass_id is not None:
            published[note.pass_id] = time.monotonic()

    client = Client(settings, Setup(stop=stop, listeners=[listen], lanes=counted))
    drive.drive(client)
    meters = [store.meter for store in metered.values()]
    span = published[max(published)] - published[1] if len(published) > 2 else 0.0
    report = {
        "per_pass": span / max(1, len(published) - 2),
        "requests": sum(sum(meter.requests.values()) for meter in meters),
        "up": sum(meter.bytes_up for meter in meters),
        "down": sum(meter.bytes_down for meter in meters),
    }
    (project / "report.json").write_text(json.dumps(report), encoding="utf-8")


# -- the other side of the ratio -----------------------------------------------------------------


def _bare(count: int, size: int) -> float:
    """One pass of the same hooks and copies, without staging, hashing, sealing or waiting."""
    folder = Path(tempfile.mkdtemp(prefix="stitch-bare-"))
    try:
        (folder / "hooks.py").write_text(HOOKS, encoding="utf-8")
        base = folder / "base.bin"
        np.zeros(size * 250_000, dtype=np.float32).tofile(base)
        begun = time.monotonic()
        children = [_train(folder, name) for name in NAMES[:count]]
        if any(child.wait() for child in children):
            raise SystemExit("a bare hook failed")
        for name in NAMES[:count]:
            inputs = folder / "in" / name / "pass_001"
            inputs.mkdir(parents=True)
            shutil.copyfile(folder / f"{name}.bin", folder / f"{name}.up")
            shutil.copyfile(folder / f"{name}.up", inputs / "model.bin")
        code = (
            "import hooks, pathlib as p;hooks.aggregate(site_dir=p.Path('in'), out_path=p.Path('global.bin'))"
        )
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
        for number in range(count):
            shutil.copyfile(folder / "global.bin", folder / f"copy{number}.bin")
        return time.monotonic() - begun
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _train(folder: Path, name: str) -> subprocess.Popen[bytes]:
    code = (
        f"import hooks; hooks.train(global_path='base.bin', out_path='{name}.bin', data_dir='', config={{}})"
    )
    return subprocess.Popen([sys.executable, "-c", code], cwd=folder)


@contextlib.contextmanager
def _store(kind: str) -> Iterator[Callable[[], str]]:
    """A maker of store URLs: "" stands for a fresh folder."""
    if kind == "folder":
        yield lambda: ""
        return
    from stitch.testing.azurite import azurite  # noqa: PLC0415  only this store needs it

    with azurite(Path(__file__).parent.parent / "tests" / "services" / "azurite") as server:
        yield lambda: server.container_url(server.new_container(), "rwlc")


if __name__ == "__main__":
    sys.exit(main())
