"""Actors of a private run over one store in memory: each site moves every weight by its own step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stitch.client import Client, Setup
from stitch.client.budget import BudgetJournal, Release, journal_of
from stitch.config.hooks import Hooks
from stitch.config.privacy import Privacy
from stitch.config.settings import Settings
from stitch.hooks.call import HookName
from stitch.hooks.inline import FunctionRunner, HookFunction
from stitch.layout import Event, PassRef, event
from stitch.learning.tensors import read_model, write_model
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.privacy import central, compress, release
from stitch.store.base import Store
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore
from stitch.wire import EventDoc, Seal

SITES = ("rush", "nu", "uchicago")
LOCAL = Privacy(mode="local", clip=1.0, noise_multiplier=2.0, epsilon=8.0, delta=1e-5, data_free_start=True)
STEP = {"rush": 0.001, "nu": 0.002, "uchicago": -0.001}
SHAPE = (40, 50)


class PrivateRun:
    """A run of three sites; the transforms are the add-on's, called in this process.

    Args:
        folder: takes the project folders.
        store: what they share.
        privacy: of all sites.
        functions: replace hooks, by name; None leaves a transform to its child process.
        changes: further settings.
    """

    def __init__(
        self,
        folder: Path,
        *,
        store: Store | None = None,
        privacy: Privacy = LOCAL,
        functions: Mapping[str, HookFunction | None] | None = None,
        **changes: Any,
    ) -> None:
        self.folder = folder
        self.store = store or MemoryStore()
        self.privacy = privacy
        self.functions = functions or {}
        self.changes = {"run_id": "private", "num_passes": 2, **changes}
        self.trained: list[str] = []
        self.given: list[dict[str, Any]] = []
        self.clients: dict[str, Client] = {}

    def client(self, site: str) -> Client:
        """A new process of a site."""
        if site in self.clients:
            self.clients[site].close()
        root = self.folder / site
        (root / "data").mkdir(parents=True, exist_ok=True)
        settings = Settings(
            root=root,
            lead="rush",
            sites=SITES,
            site=site,
            data_dir=root / "data",
            output_dir=root / "output",
            root_seed=1,
            privacy=self.privacy,
            site_config={"data_directory": str(root / "data")},
            **{"hooks": Hooks(model_ext="npz"), **self.changes},
        )
        run_id = settings.run_id
        lanes = Lanes(run_id, dict.fromkeys(("global", *(f"sites/{one}" for one in SITES)), self.store), {})
        runner = FunctionRunner({**self.hooks(site), **self.functions})  # type: ignore[dict-item]  # names of hooks
        self.clients[site] = Client(settings, Setup(lanes=lanes, runner=runner))
        return self.clients[site]

    def hooks(self, site: str) -> dict[HookName, HookFunction]:
        """What a site's hooks are."""

        def train(global_path: Path | None, out_path: Path, **given: Any) -> dict[str, Any]:
            self.given.append({"hook": "train", "pass": given["pass_id"], **given})
            if global_path is None:
                write_model(out_path, {"w": np.zeros(SHAPE, np.float32), "steps": np.array(0)})
                return {"n_samples": 0}
            self.trained.append(f"{site} {given['pass_id']}")
            base = read_model(global_path)
            write_model(out_path, {"w": base["w"] + np.float32(STEP[site]), "steps": base["steps"] + 1})
            return {"n_samples": 100}

        def mean(site_dir: Path, out_path: Path, **given: Any) -> dict[str, Any]:
            self.given.append({"hook": "aggregate", **given})
            models = [read_model(path) for path in sorted(site_dir.glob("*/pass_*/model.npz"))]
            write_model(
                out_path, {"w": np.mean([m["w"] for m in models], axis=0), "steps": models[0]["steps"]}
            )
            return {}

        aggregate = central.aggregate if self.privacy.mode == "central" else mean
        return {"train": train, "aggregate": aggregate, "release": either, "expand": compress.expand}

    def loops(self, *sites: str) -> list[Lead | Local]:
        """New processes' loops."""
        found: list[Lead | Local] = []
        for site in sites or SITES:
            client = self.client(site)
            found += [Lead(client), Local(client)] if site == "rush" else [Local(client)]
        return found

    def finish(self, loops: list[Lead | Local], *, turns: int = 60) -> None:
        """Turn after turn, until all are done."""
        for _ in range(turns):
            if all(turn.state == "done" for turn in [loop.step() for loop in loops]):
                return
        raise AssertionError("the run does not end")

    def close(self) -> None:
        """End all processes."""
        for client in self.clients.values():
            client.close()

    # -- what came of it -----------------------------------------------------------------------------

    def paths(self, prefix: str = "") -> list[str]:
        """Keys of the run in the store."""
        run_id = self.changes["run_id"]
        return [entry.key.removeprefix(f"{run_id}/") for entry in self.store.list(f"{run_id}/{prefix}")]

    def read(self, path: str) -> bytes:
        """A stored document or model."""
        to = self.folder / "looked-at"
        self.store.pull(f"{self.changes['run_id']}/{path}", to)
        return to.read_bytes()

    def seal(self, number: int, site: str | None = None) -> Seal:
        """The stored seal of a pass."""
        ref = PassRef(number, site)
        return Seal.parse(self.read(ref.seal), source=ref.seal)

    def model(self, number: int, site: str | None = None) -> dict[str, Any]:
        """The stored model of a pass."""
        ref, seal = PassRef(number, site), self.seal(number, site)
        file = self.folder / "model.npz"
        file.write_bytes(self.read(ref.model(seal.model_sha256, "npz")))
        return read_model(file)

    def failed(self, site: str, number: int) -> EventDoc:
        """What a site told of a failed training."""
        path = event(site, number, name=Event.FAILED)
        return EventDoc.parse(self.read(path), source=path)

    def journal(self, site: str) -> BudgetJournal:
        """A site's journal."""
        return journal_of(replace(self.client(site).settings))

    def releases(self, site: str) -> list[Release]:
        """What was charged to a site's data."""
        file = self.folder / site / "privacy" / f"{self.privacy.dataset}.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        entries = [json.loads(line) for line in lines]
        return [Release(**{k: v for k, v in e.items() if k not in ("number", "prev")}) for e in entries]


def either(**given: Any) -> dict[str, float]:
    """The add-on's function that the call's spec would name."""
    if "compression" in given:
        return compress.compress(**given)
    return release.release(**given) if "out_path" in given else release.inspect(**given)
