"""Actors of one run over one counted store in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stitch.client import Client, Setup
from stitch.config.hooks import Hooks
from stitch.config.settings import Settings
from stitch.hooks.inline import FunctionRunner
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore
from stitch.store.meter import MeteredStore

Loop = Lead | Local

SITES = ("rush", "nu", "uchicago")


def train(*, global_path: Path | None, out_path: Path, data_dir: Path) -> dict[str, int]:
    """Any model will do."""
    out_path.write_text(f"{global_path is None}{data_dir.name}", "utf-8")
    return {"n_samples": 100}


def aggregate(*, site_dir: Path, out_path: Path) -> dict[str, int]:
    """The inputs' texts, one after the other."""
    models = sorted(site_dir.glob("*/pass_*/model.txt"))
    out_path.write_text("".join(path.read_text("utf-8") for path in models), "utf-8")
    return {}


def finish(loops: Sequence[Loop], *, turns: int = 100) -> None:
    """Turn after turn of everybody, until the run is over for all."""
    for _ in range(turns):
        if all(turn.state == "done" for turn in [loop.step() for loop in loops]):
            return
    raise AssertionError("the run does not end")


class Actors:
    """Clients over one counted store."""

    def __init__(self, folder: Path) -> None:
        self.inner = MemoryStore()
        self.folder = folder

    def client(self, site: str, **changes: Any) -> tuple[Client, MeteredStore]:
        """A process of a site, with these settings instead of the usual ones."""
        root = self.folder / site
        (root / "data").mkdir(parents=True, exist_ok=True)
        settings = Settings(
            root=root,
            run_id="trial",
            lead="rush",
            sites=SITES,
            site=site,
            num_passes=3,
            data_dir=root / "data",
            output_dir=root / "output",
            root_seed=1,
            hooks=replace(Hooks(), model_ext="txt"),
        )
        store = MeteredStore(self.inner)
        lanes = Lanes("trial", dict.fromkeys(("global", *(f"sites/{one}" for one in SITES)), store), {})
        runner = FunctionRunner({"train": train, "aggregate": aggregate})
        return Client(replace(settings, **changes), Setup(lanes=lanes, runner=runner)), store
