"""Actors of one run over one counted store in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stitch.client import Client, Setup
from stitch.config.settings import Hooks, Settings
from stitch.hooks.inline import FunctionRunner
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore
from stitch.store.meter import MeteredStore

SITES = ("rush", "nu", "uchicago")


def train(*, global_path: Path | None, out_path: Path, data_dir: Path) -> dict[str, int]:
    """Any model will do."""
    out_path.write_text(f"{global_path is None}{data_dir.name}", "utf-8")
    return {"n_samples": 100}


class Actors:
    """Clients over one counted store."""

    def __init__(self, folder: Path) -> None:
        self.inner = MemoryStore()
        self.folder = folder

    def client(self, site: str) -> tuple[Client, MeteredStore]:
        root = self.folder / site
        (root / "data").mkdir(parents=True)
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
        runner = FunctionRunner({"train": train, "aggregate": train})
        return Client(settings, Setup(lanes=lanes, runner=runner)), store
