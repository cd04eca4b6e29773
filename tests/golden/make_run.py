"""Makes a small finished run as files: how `run/` was made, once, by the first version.

    python -m tests.golden.make_run FOLDER

Files of a published version stay as they are, for ever: a later version puts a run of its own beside
them. Only the nonces of the lease are random. nu's training fails once and is repeated by a new
process; uchicago has no patients in pass 2, and is excluded.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from stitch import layout
from stitch.client import Client, Setup
from stitch.config.hooks import Hooks
from stitch.config.settings import Settings
from stitch.errors import HookError
from stitch.hooks.call import HookName
from stitch.hooks.inline import FunctionRunner
from stitch.loops.drive import Loop, loops_of
from stitch.store.base import Store
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore
from stitch.sync.heart import Heart

RUN = "icu-mortality-1"
SITES = ("rush", "nu", "uchicago")
ROWS = {"rush": 812, "nu": 455, "uchicago": 1203}

Hook = Callable[..., dict[str, Any]]


class SlowClock:
    """One clock for hosts and store; each reading is a quarter of a second after the last."""

    def __init__(self) -> None:
        self._now = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)

    def now(self) -> datetime:
        self._now += timedelta(seconds=0.25)
        return self._now

    def monotonic(self) -> float:
        return self.now().timestamp()


class OneBeat(Heart):
    """Beats when a lane is taken, and has no thread."""

    def start(self) -> None:
        self.beat()


def settings(root: Path, site: str) -> Settings:
    """The settings of one site of this run."""
    return Settings(
        root=root / site,
        run_id=RUN,
        lead=SITES[0],
        sites=SITES,
        site=site,
        num_passes=2,
        data_dir=root / site / "data",
        output_dir=root / site / "output",
        root_seed=7,
        hooks=Hooks(evaluate="code/train.py:evaluate", model_ext="json"),
        hyper={"learning_rate": 0.5, "outcome": "décès"},
    )


def actor(root: Path, site: str, *, store: Store, clock: SlowClock, hooks: dict[HookName, Hook]) -> Client:
    """A fresh process of a site, with the hooks that `settings` names lying in its project folder."""
    code = root / site / "code"
    code.mkdir(parents=True, exist_ok=True)
    for name in ("train", "aggregate"):
        (code / f"{name}.py").write_bytes(f"def {name}(**paths):\n    ...\n".encode())
    lanes = (layout.GLOBAL, *(layout.site_lane(one) for one in SITES))
    setup = Setup(
        clock=clock,
        lanes=Lanes(RUN, dict.fromkeys(lanes, store), {}),
        runner=FunctionRunner(hooks),
        heart=OneBeat,
        readers=1,
        host=f"{site}-ward",
    )
    return Client(settings(root, site), setup)


def hooks_of(site: str) -> dict[HookName, Hook]:
    """Two weights as JSON: training adds to the first and takes from the second."""
    failures = [ValueError("a text that must not leave")] if site == "nu" else []

    def train(*, global_path: Path | None, out_path: Path, data_dir: Path, pass_id: int) -> dict[str, Any]:
        if failures and pass_id == 1:
            raise failures.pop()
        step = ROWS[site] / 1000 if global_path else 0.0
        base = _read(global_path) if global_path else [0.0, 0.0]
        _write(out_path, [base[0] + step, base[1] - step / 2])
        rows = 0 if (site, pass_id) == ("uchicago", 2) else ROWS[site]
        return {"n_samples": rows, "auroc": round(0.7 + pass_id / 100 + step / 50, 4), "loss": 0.5}

    def aggregate(*, site_dir: Path, out_path: Path) -> dict[str, Any]:
        folders = sorted(site_dir.glob("*/pass_*"))
        models = [_read(folder / "model.json") for folder in folders]
        rows = [json.loads((folder / "metrics.json").read_bytes())["n_samples"] for folder in folders]
        pairs = list(zip(rows, models, strict=True))
        _write(out_path, [sum(n * model[i] for n, model in pairs) / sum(rows) for i in range(2)])
        return {"sites": len(models)}

    def evaluate(*, global_path: Path, data_dir: Path) -> dict[str, Any]:
        return {"n_samples": ROWS[site] // 4, "auroc": 0.7421}

    return {"train": train, "aggregate": aggregate, "evaluate": evaluate}


def make(target: Path) -> None:
    """Run the federation turn by turn, and write every key of its store below `target`."""
    clock = SlowClock()
    store = MemoryStore(clock=clock)
    with tempfile.TemporaryDirectory() as folder:
        _drive(Path(folder), store=store, clock=clock)
    for entry in store.list(f"{RUN}/"):
        file = target / entry.key
        file.parent.mkdir(parents=True, exist_ok=True)
        store.pull(entry.key, file)


def _drive(root: Path, *, store: Store, clock: SlowClock) -> None:
    hooks = {site: hooks_of(site) for site in SITES}

    def start(site: str) -> tuple[Client, list[Loop]]:
        client = actor(root, site, store=store, clock=clock, hooks=hooks[site])
        return client, loops_of(client)

    running = {site: start(site) for site in SITES}
    while running:
        for site, (client, loops) in list(running.items()):
            try:
                turns = [loop.step() for loop in loops]
            except HookError:  # as `run` does: leave, and let the next process train again
                client.close()
                running[site] = start(site)
                continue
            if all(turn.state == "done" for turn in turns):
                client.close()
                del running[site]


def _read(path: Path) -> list[float]:
    weights: list[float] = json.loads(path.read_bytes())["weights"]
    return weights


def _write(path: Path, weights: list[float]) -> None:
    path.write_bytes(json.dumps({"weights": weights}).encode() + b"\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
