"""How fast a pass travels: clif-stitch beside raw HTTP and obstore, on the same Azurite, in the same run.

    uv run --group bench python benchmarks/transfer.py [--sizes 64MiB,1GiB,2GiB,200x100KiB]
        [--server disk|memory] [--repeats 3] [--dir DIR]

- stitch: a pass through the sync layer, as `run` does it. Up: hash, seal in the mirror, read back whether
  it is published, model, seal. Down: seal, model, hash, flush, move into the mirror.
- httpx: one PUT and one GET of the model alone, streamed, unchecked: the floor of what HTTP costs.
- obstore: `put` of the file and a streamed `get` of the model alone, with its defaults.

All sides download the blobs that stitch uploaded. Every download ends flushed to the disk (fsync),
because a sealed pass must survive a power cut. Each transfer runs in a fresh process; the sides take
turns; the table shows medians, the ratio to the better of the named others, and the peak memory of
the transferring process. `200x100KiB` moves many small passes, eight at a time on all sides: stitch
needs four requests where the others need one.

The bottleneck is the server, one Node process on this same machine: trust the ratios, not the MB/s.
"""

# Each side is imported in its own child process, so that its memory is its own.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stitch.layout import PassRef
from stitch.testing.azurite import ACCOUNT, Azurite, azurite

SIDES = ("stitch", "httpx", "obstore")
LANES_AT_A_TIME = 8
MIB = 1 << 20
LOCK_FOLDER = Path(__file__).parents[1] / "tests" / "services" / "azurite"


@dataclass(frozen=True, slots=True)
class Load:
    """What is moved: so many files of so many bytes."""

    name: str
    files: int
    size: int

    @property
    def total(self) -> int:
        return self.files * self.size


def parse_load(text: str) -> Load:
    count, _, size = text.rpartition("x")
    number = size.rstrip("KMGiB")
    unit = {"KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}[size[len(number) :]]
    return Load(text, int(count or 1), int(number) * unit)


# -- the sides, each in a child process ----------------------------------------------------------------


def stitch_side(way: str, url: str, folder: Path, keys: dict[str, str]) -> float:
    from stitch.config.settings import Egress
    from stitch.layout import stored_name
    from stitch.mirror import Mirror
    from stitch.store import RetryingStore, StoreOptions, open_store
    from stitch.store.lanes import Lanes
    from stitch.sync.documents import Documents
    from stitch.sync.passes import Limits, Passes
    from stitch.sync.status import Status
    from stitch.version import __version__
    from stitch.wire import Seal

    names = list(keys)
    store = RetryingStore(open_store(url, options=StoreOptions()))
    sites = [f"site-{number}" for number in range(len(names))]
    lanes = Lanes("bench", {f"sites/{site}": store for site in sites}, {})
    mirror = Mirror(folder / f"mirror-{way}" / "bench")
    limits = Limits("bench", "npz", 1 << 40, Egress())
    passes = Passes(lanes, mirror, documents=Documents(lanes, mirror), limits=limits)

    def up(site: str, name: str) -> None:
        stage = mirror.stage(PassRef(1, site))
        model = stage.model_path("npz")
        os.link(folder / name, model)
        digest = mirror.digest(model)
        seal = Seal.make(
            run_id="bench", lane=f"sites/{site}", pass_id=1, attempt=1, base_pass=0, base_sha256="0" * 64,
            model_file=stored_name("model", digest, ext="npz"), model_sha256=digest,
            model_bytes=model.stat().st_size, n_samples=100, metrics={}, config_sha256="0" * 64, round_seed=0,
            created_at=datetime.now(UTC), stitch_version=__version__,
        )  # fmt: skip
        assert passes.push(mirror.seal(stage, seal)) is Status.UPLOADED

    def down(site: str, name: str) -> None:
        status, sealed = passes.pull(PassRef(1, site))
        assert status is Status.DOWNLOADED
        assert sealed is not None
        os.link(sealed.model, folder / f"{name}.got")

    return timed(up if way == "up" else down, sites, names)


def httpx_side(way: str, url: str, folder: Path, keys: dict[str, str]) -> float:
    import httpx

    names = list(keys)
    client = httpx.Client(timeout=600)
    base, _, token = url.partition("?")

    def up(_: str, name: str) -> None:
        headers = {"x-ms-blob-type": "BlockBlob", "x-ms-version": "2026-06-06"}
        with (folder / name).open("rb") as source:
            client.put(f"{base}/{name}?{token}", content=source, headers=headers).raise_for_status()

    def down(_: str, name: str) -> None:
        with (
            client.stream("GET", f"{base}/{keys[name]}?{token}") as answer,
            (folder / f"{name}.got").open("wb") as sink,
        ):
            answer.raise_for_status()
            for piece in answer.iter_bytes():
                sink.write(piece)
            flush(sink.fileno())

    return timed(up if way == "up" else down, names, names)


def obstore_side(way: str, url: str, folder: Path, keys: dict[str, str]) -> float:
    from obstore.store import AzureStore

    base, _, token = url.partition("?")
    names = list(keys)
    endpoint, _, container = base.rpartition("/")
    store = AzureStore(
        container_name=container, account_name=ACCOUNT, endpoint=endpoint, sas_key=token,
        client_options={"allow_http": True, "timeout": "600s"},
    )  # fmt: skip

    def up(_: str, name: str) -> None:
        store.put(name, folder / name)

    def down(_: str, name: str) -> None:
        with (folder / f"{name}.got").open("wb") as sink:
            for piece in store.get(keys[name]).stream():
                sink.write(piece)
            flush(sink.fileno())

    return timed(up if way == "up" else down, names, names)


def flush(descriptor: int) -> None:
    os.fsync(descriptor)


def timed(move: Callable[[str, str], None], sites: list[str], names: list[str]) -> float:
    began = time.perf_counter()
    if len(names) == 1:
        move(sites[0], names[0])
    else:
        with ThreadPoolExecutor(LANES_AT_A_TIME) as pool:
            list(pool.map(move, sites, names))
    return time.perf_counter() - began


def peak_mib() -> float:
    """The most memory this process ever held, in MiB."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    import psutil

    memory = psutil.Process().memory_info()
    return float(getattr(memory, "peak_wset", memory.rss)) / MIB


def child(side: str, way: str, folder: Path) -> None:
    sides = {"stitch": stitch_side, "httpx": httpx_side, "obstore": obstore_side}
    task = json.loads(sys.stdin.read())
    seconds = sides[side](way, task["url"], folder, task["keys"])
    print(json.dumps({"seconds": seconds, "peak_mib": peak_mib()}))


# -- the table -----------------------------------------------------------------------------------------


def run_child(side: str, way: str, url: str, folder: Path, keys: dict[str, str]) -> dict[str, float]:
    """One transfer in a process of its own. The URL goes by stdin: a process list shows no token."""
    command = [sys.executable, __file__, "--child", side, way, str(folder)]
    task = json.dumps({"url": url, "keys": keys})
    done = subprocess.run(command, input=task, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} {way} failed:\n{done.stderr[-3000:]}")
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def make_files(load: Load, folder: Path) -> None:
    """Incompressible files, flushed."""
    chance = random.Random(7)
    for number in range(load.files):
        with (folder / f"model-{number}").open("wb") as sink:
            for done in range(0, load.size, MIB):
                sink.write(chance.randbytes(min(MIB, load.size - done)))
            flush(sink.fileno())


def measure(
    turn: int,
    load: Load,
    server: Azurite,
    folder: Path,
    results: dict[tuple[str, str], list[dict[str, float]]],
) -> None:
    """One turn of every side. Who goes first changes: a cold server and a full page cache cost the first."""
    source = folder / "source"
    if not source.exists():
        source.mkdir()
        make_files(load, source)
    names = sorted((path.name for path in source.iterdir()), key=lambda name: int(name.rpartition("-")[2]))
    wanted = {name: digest_of(source / name) for name in names}
    keys = {name: f"bench/{stitch_ref(name).model(wanted[name], 'npz')}" for name in names}
    urls = {}
    sides = SIDES[turn % 3 :] + SIDES[: turn % 3]
    for side in sides:
        work = folder / side
        work.mkdir()
        for name in names:
            os.link(source / name, work / name)
        urls[side] = server.container_url(server.new_container())
        results.setdefault((side, "up"), []).append(run_child(side, "up", urls[side], work, keys))
    for side in sides:
        results.setdefault((side, "down"), []).append(
            run_child(side, "down", urls["stitch"], folder / side, keys)
        )
        for name in names:
            assert digest_of(folder / side / f"{name}.got") == wanted[name], f"{side}: wrong bytes"
        shutil.rmtree(folder / side)


def stitch_ref(name: str) -> PassRef:
    """Each file is the pass of a site of its own."""
    return PassRef(1, f"site-{name.rpartition('-')[2]}")


def digest_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def report(load: Load, results: dict[tuple[str, str], list[dict[str, float]]]) -> None:
    speed = {
        key: load.total / 1e6 / statistics.median(run["seconds"] for run in runs)
        for key, runs in results.items()
    }
    peak = {key: max(run["peak_mib"] for run in runs) for key, runs in results.items()}
    for way, rival_names in (("up", ("httpx",)), ("down", ("httpx", "obstore"))):
        ratio = speed["stitch", way] / max(speed[name, way] for name in rival_names)
        cells = "".join(f"{speed[side, way]:>9.0f}" for side in SIDES)
        memory = "".join(f"{peak[side, way]:>9.0f}" for side in SIDES)
        print(
            f"{load.name:<12}{way:<6}{cells}   {ratio:>5.2f}  {'/'.join(rival_names):<14}{memory}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default="64MiB,1GiB,2GiB,200x100KiB")
    parser.add_argument("--server", choices=("disk", "memory"), default="disk")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--dir", type=Path, default=None, help="where files and server data lie for the while"
    )
    parser.add_argument("--child", nargs=3, metavar=("SIDE", "WAY", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        side, way, folder = options.child
        child(side, way, Path(folder))
        return
    print(
        f"Azurite 3.37.0 keeping its data {'on' if options.server == 'disk' else 'in'} {options.server}; ",
        end="",
    )
    print(f"medians of {options.repeats}; MB/s (1e6 bytes), peak MiB of the transferring process")
    heads = "".join(f"{side:>9}" for side in SIDES)
    print(f"{'load':<12}{'way':<6}{heads}   ratio  {'to':<14}{heads}")
    for load in map(parse_load, options.sizes.split(",")):
        results: dict[tuple[str, str], list[dict[str, float]]] = {}
        with tempfile.TemporaryDirectory(prefix="stitch-transfer-", dir=options.dir) as scratch:
            for turn in range(options.repeats):
                data = Path(scratch) / f"server-{turn}"
                data.mkdir()
                with azurite(LOCK_FOLDER, location=data if options.server == "disk" else None) as server:
                    measure(turn, load, server, Path(scratch), results)
                shutil.rmtree(data)
        report(load, results)


if __name__ == "__main__":
    main()
