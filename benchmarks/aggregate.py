"""How fast models become a global, and in how much memory: clif-stitch beside reading alone and beside flwr.

    uv run --isolated --no-dev --with "flwr<2" python benchmarks/aggregate.py [--sites 4,16,64] [--mb 256]
        [--tensors 8] [--strategies FedAvg,FedAdam,FedMedian] [--repeats 3] [--warm] [--dir DIR]

- bare: all inputs read once and one model written, from and to the same disk, in blocks of 4 MiB: the floor.
- stitch: `stitch.learning.aggregate`, tensor by tensor, its check included.
- flwr: Flower's own function for the same strategy on the same arrays, loaded with numpy.load, and the
  result saved with numpy.savez: what a strategy class of Flower does inside a server that has received
  everything. Left out where the arrays would not fit into the memory.

Every run is a fresh process. Before each the inputs are dropped from the page cache, so that the disk is
read, and the written file is flushed. With --warm they stay there: what a disk without delay would give.
The table shows medians, ratios to bare and peak memory (VmHWM).
Linux only.
"""

# Each side is imported in its own child process, so that its memory is its own.
# ruff: noqa: PLC0415

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BLOCK = 1 << 22
MB = 1_000_000
FLWR = {"FedAvg": "aggregate", "FedMedian": "aggregate_median", "Krum": "aggregate_krum"}


# -- the sides, each in a child process ----------------------------------------------------------------


def bare_side(root: Path, strategy: str) -> None:
    buffer = bytearray(BLOCK)
    last = root / "global.npz"
    for path in sorted(root.glob("sites/*/pass_001/model.npz")):
        with path.open("rb", buffering=0) as source:
            while source.readinto(buffer):
                pass
    with last.open("rb", buffering=0) as source, (root / "new.npz").open("wb") as out:
        while count := source.readinto(buffer):
            out.write(memoryview(buffer)[:count])


def stitch_side(root: Path, strategy: str) -> None:
    from stitch import learning

    learning.aggregate(
        site_dir=root / "sites",
        out_path=root / "new.npz",
        global_path=root / "global.npz",
        strategy=getattr(learning, strategy)(),
        outer_out_path=root / "state.npz",
    )


def flwr_side(root: Path, strategy: str) -> None:
    import flwr.server.strategy.aggregate as flower
    import numpy as np

    def arrays(path: Path) -> list[Any]:
        with np.load(path, allow_pickle=False) as loaded:
            return [loaded[name] for name in loaded.files]

    results = [
        (arrays(path), json.loads(path.with_name("metrics.json").read_text(encoding="utf-8"))["n_samples"])
        for path in sorted(root.glob("sites/*/pass_001/model.npz"))
    ]
    function = getattr(flower, FLWR[strategy])
    made = function(results, 1, 0) if strategy == "Krum" else function(results)
    np.savez(root / "new.npz", *made)


SIDES: dict[str, Callable[[Path, str], None]] = {
    "bare": bare_side,
    "stitch": stitch_side,
    "flwr": flwr_side,
}


def child(side: str, root: Path, strategy: str) -> None:
    if side == "stitch":  # what a hook's child has imported when its hook is called
        import stitch.learning  # noqa: F401  imported for its time alone
    elif side == "flwr":
        import flwr.server.strategy.aggregate  # noqa: F401  as above
    begun = time.perf_counter()
    SIDES[side](root, strategy)
    with (root / "new.npz").open("rb") as made:
        os.fsync(made.fileno())
    seconds = time.perf_counter() - begun
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    print(json.dumps({"seconds": seconds, "mib": int(peak[1]) / 1024 if peak else 0.0}))


# -- the parent ----------------------------------------------------------------------------------------


def make_inputs(root: Path, *, sites: int, mb: int, tensors: int) -> None:
    """Models of float32 tensors of equal size, different at every site."""
    import numpy as np

    from stitch.learning import write_model

    size = mb * MB // 4 // tensors
    rng = np.random.default_rng(sites)
    noise = rng.normal(size=size).astype(np.float32)
    write_model(root / "global.npz", {f"layer{n}": noise * 0 for n in range(tensors)})
    for place in range(sites):
        folder = root / "sites" / f"site{place:02d}" / "pass_001"
        folder.mkdir(parents=True)
        write_model(
            folder / "model.npz", {f"layer{n}": noise + np.float32(place + n) for n in range(tensors)}
        )
        seal = {"n_samples": 100 + place, "metrics": {}}
        (folder / "metrics.json").write_text(json.dumps(seal), encoding="utf-8")


def forget(root: Path) -> None:
    """Drop the inputs from the page cache."""
    for path in root.rglob("*.npz"):
        with path.open("rb") as source:
            os.fsync(source.fileno())
            os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(side: str, root: Path, strategy: str, *, warm: bool) -> dict[str, float]:
    for name in ("new.npz", "state.npz"):
        with contextlib.suppress(FileNotFoundError):
            (root / name).unlink()
    if not warm:
        forget(root)
    command = [sys.executable, __file__, "--child", side, strategy, str(root)]
    ran = subprocess.run(command, capture_output=True, check=True, text=True)
    measured: dict[str, float] = json.loads(ran.stdout)
    return measured


def check_mean(root: Path) -> None:
    """That what FedAvg wrote is the mean by samples of what `make_inputs` made.

    Raises:
        SystemExit: it is not.
    """
    import numpy as np

    models = sorted(root.glob("sites/*/pass_001/model.npz"))
    samples = [100 + place for place in range(len(models))]
    beyond = sum(place * weight for place, weight in enumerate(samples)) / sum(samples)
    with (
        np.load(models[0], allow_pickle=False) as first,
        np.load(root / "new.npz", allow_pickle=False) as made,
    ):
        for mine, theirs in zip(first.files, made.files, strict=True):
            if not np.allclose(made[theirs], first[mine] + beyond, rtol=0, atol=1e-4):
                raise SystemExit(f"{theirs} is not the mean")


def fits(sites: int, mb: int) -> bool:
    """Whether flwr's arrays, their products and the sum would fit into two thirds of the free memory."""
    free = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="utf-8"))
    return free is not None and 2.5 * sites * mb * MB < int(free[1]) * 1024 * 2 / 3


def table(options: argparse.Namespace, root: Path) -> None:
    print("| sites | MB each | strategy | side | s | ratio to bare | peak MiB |")
    print("|---|---|---|---|---|---|---|")
    for sites in options.sites:
        folder = root / str(sites)
        folder.mkdir()
        make_inputs(folder, sites=sites, mb=options.mb, tensors=options.tensors)
        for strategy in options.strategies:
            sides = ["bare", "stitch"]
            if strategy in FLWR and fits(sites, options.mb) and not options.without_flwr:
                sides.append("flwr")
            runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
            for _ in range(options.repeats):  # the sides take turns
                for side in sides:
                    runs[side].append(measure(side, folder, strategy, warm=options.warm))
                    if strategy == "FedAvg" and side != "bare":
                        check_mean(folder)
            floor = statistics.median(run["seconds"] for run in runs["bare"])
            for side in sides:
                seconds = statistics.median(run["seconds"] for run in runs[side])
                mib = max(run["mib"] for run in runs[side])
                row = (
                    sites,
                    options.mb,
                    strategy,
                    side,
                    f"{seconds:.2f}",
                    f"{seconds / floor:.2f}",
                    f"{mib:.0f}",
                )
                print("| " + " | ".join(map(str, row)) + " |", flush=True)
        shutil.rmtree(folder)


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        _, _, side, strategy, root = sys.argv
        child(side, Path(root), strategy)
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sites", type=numbers, default=[4, 16, 64])
    parser.add_argument("--mb", type=int, default=256)
    parser.add_argument("--tensors", type=int, default=8)
    parser.add_argument("--strategies", type=lambda text: text.split(","), default=["FedAvg"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--without-flwr", action="store_true")
    parser.add_argument("--dir", type=Path, help="on the disk to be measured; needs sites x MB")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as root:
        table(options, Path(root))


if __name__ == "__main__":
    main()
