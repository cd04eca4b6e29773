"""Hooks whose models depend on all they were given, so that one wrong turn shows in the final bytes.

What they shall do besides is ordered in files `data/orders/<hook>-<pass>-<point>`, each obeyed once:
the hook that runs again after a crash is an honest one. Points: begin, half (half of the model is
written), written. Standard library only: every hook run pays for its imports.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from array import array
from pathlib import Path

TYPE_CHECKING = False  # typing itself is not worth its import time here
if TYPE_CHECKING:
    from typing import Any

WIDTH = 512


def train(
    *,
    global_path: Path | None,
    out_path: Path,
    data_dir: Path,
    pass_id: int,
    round_seed: int,
    state_dir: Path,
) -> dict[str, object]:
    """Half of the base, plus what is this site's own, this pass's own and this round's own."""
    steps = state_dir / "steps.txt"
    earlier = int(steps.read_text(encoding="utf-8")) if steps.exists() else 0
    steps.write_text(str(earlier + 1), encoding="utf-8")
    _begin("train", data_dir, pass_id)
    base = _read(global_path) if global_path else array("d", [0.0] * WIDTH)
    own = float((data_dir / "value.txt").read_text(encoding="utf-8"))
    shift = pass_id + (round_seed % 1000) / 1000
    model = array("d", [0.5 * w + own * (i + 1) + shift for i, w in enumerate(base)])
    _write(model, out_path, data_dir=data_dir, point=("train", pass_id))
    return {"n_samples": int((data_dir / "n_samples.txt").read_text(encoding="utf-8")), "first": model[0]}


def aggregate(
    *,
    site_dir: Path,
    out_path: Path,
    data_dir: Path,
    pass_id: int,
    config: dict[str, Any],
    outer_path: Path | None,
    outer_out_path: Path,
) -> dict[str, object]:
    """The mean of the sites' models, each weighted with its place, and a quarter of the last round's mean."""
    _begin("aggregate", data_dir, pass_id)
    models = [_read(path) for path in sorted(site_dir.glob("*/pass_*/model.bin"))]
    weight = sum(range(1, len(models) + 1))
    mean = array("d", [sum(n * w for n, w in enumerate(ws, 1)) / weight for ws in zip(*models, strict=True)])
    outer_out_path.write_bytes(mean.tobytes())
    before = _read(outer_path) if outer_path else array("d", [0.0] * WIDTH)
    model = array("d", [m + 0.25 * b for m, b in zip(mean, before, strict=True)])
    _write(model, out_path, data_dir=data_dir, point=("aggregate", pass_id))
    return {"should_stop": pass_id == config.get("stop_at"), "inputs": len(models)}


def _begin(hook: str, data_dir: Path, pass_id: int) -> None:
    with (data_dir / "calls.log").open("a", encoding="utf-8") as log:
        log.write(f"{hook} {pass_id}\n")
    (data_dir / "hook.pid").write_text(str(os.getpid()), encoding="utf-8")
    _obey(data_dir, (hook, pass_id), "begin", data_dir / "nowhere")


def _read(path: Path) -> array[float]:
    model = array("d")
    model.frombytes(path.read_bytes())
    return model


def _write(model: array[float], path: Path, *, data_dir: Path, point: tuple[str, int]) -> None:
    data = model.tobytes()
    path.write_bytes(data[: len(data) // 2])
    _obey(data_dir, point, "half", path)
    path.write_bytes(data)
    _obey(data_dir, point, "written", path)


def _obey(data_dir: Path, point: tuple[str, int], when: str, out_path: Path) -> None:
    order = data_dir / "orders" / f"{point[0]}-{point[1]}-{when}"
    if not order.exists():
        return
    what, _, argument = order.read_text(encoding="utf-8").partition(" ")
    order.unlink()
    if what == "raise":
        raise RuntimeError(argument)
    if what == "await":
        _await(Path(argument))
    elif what == "kill":
        os.kill(_parent_of(os.getppid()), signal.SIGKILL)
        threading.Event().wait()  # the guard ends us
    elif what == "orphan":
        _leave_an_orphan(data_dir, out_path, marked=argument == "marked")
    else:
        raise ValueError(what)


def _await(path: Path) -> None:
    """Hold the hook until the test lets it go."""
    until = time.monotonic() + 100
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(path.name)
        threading.Event().wait(0.02)


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


def _leave_an_orphan(data_dir: Path, out_path: Path, *, marked: bool) -> None:
    """A process that kills guard and actor, survives both, and goes on writing where the hook wrote."""
    guard = os.getppid()
    orphan = [sys.executable, str(Path(__file__).with_name("orphan.py"))]
    subprocess.Popen(
        [*orphan, str(guard), str(_parent_of(guard)), str(out_path), str(data_dir / "orphan.pid")],
        env=None if marked else {},
        start_new_session=True,
    )
    threading.Event().wait()
