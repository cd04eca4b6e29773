"""Two sites that sign, over one store in memory, and somebody who can write all of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from stitch import layout
from stitch.client import Client, Setup
from stitch.client.keys import make_key, signing_of
from stitch.client.operator import change_roster
from stitch.config.policy import Policy
from stitch.config.settings import Security
from stitch.hooks.inline import FunctionRunner
from stitch.layout import PassRef
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.proof.transcript import Transcript
from stitch.proof.verify import Verification
from stitch.store.base import Store
from stitch.store.lanes import Lanes
from stitch.sync.signing import Signs
from stitch.views.proof import Proof
from stitch.wire import Seal, sha256
from tests.unit.loops.actors import Actors, Loop, aggregate, train

NU = PassRef(1, "nu")
PAIR = ("rush", "nu")


class Run:
    """Two sites with a key each; the lead's is in everybody's settings."""

    def __init__(self, folder: Path, *, policy: Policy | None = None) -> None:
        self.actors = Actors(folder)
        self.keys: dict[str, Signs] = {}
        for site in PAIR:
            (folder / site).mkdir(parents=True)
            self.keys[site] = make_key(folder / site)
        security = Security(sign=True, lead_key=self.keys["rush"].fingerprint)
        self.changes: dict[str, Any] = {"security": security, "sites": PAIR, "num_passes": 1}
        self.changes |= {"policy": policy} if policy else {}
        self.trained: list[str] = []
        self.clients = {site: self.start(site) for site in PAIR}

    def start(self, site: str, *, store: Store | None = None) -> Client:
        """A new process of a site, over the mirror that earlier ones left."""
        client, _ = self.actors.client(site, **self.changes)
        lanes = client.lanes if store is None else over(client, store)
        runner = FunctionRunner({"train": self._train(site), "aggregate": aggregate})
        started = Client(client.settings, Setup(lanes=lanes, runner=runner))
        if hasattr(self, "clients"):
            self.clients[site].close()
            self.clients[site] = started
        return started

    def _train(self, site: str) -> Callable[..., Any]:
        def hook(*, global_path: Path | None, out_path: Path, data_dir: Path) -> dict[str, int]:
            self.trained.append(f"{site} {'base' if global_path else 'start'}")
            return train(global_path=global_path, out_path=out_path, data_dir=data_dir)

        return hook

    @property
    def lead(self) -> Client:
        return self.clients["rush"]

    def loops(self) -> list[Loop]:
        return [Lead(self.lead), *(Local(self.clients[site]) for site in PAIR)]

    def begin(self, *, listed: bool = True) -> None:
        """Global 0, and nu's key on the roster."""
        lead = Lead(self.lead)
        for _ in range(2):
            lead.step()
        if listed:
            change_roster(self.lead, "add", site="nu", key=self.keys["nu"].fingerprint)

    def paths(self) -> list[str]:
        return [entry.key.removeprefix("trial/") for entry in self.actors.inner.list("trial/")]

    def read(self, path: str) -> bytes:
        got = self.lead.lanes.read(path, limit=1 << 20)
        assert got is not None, path
        return got[1]

    def put(self, path: str, data: bytes) -> None:
        """Somebody with a token to write everything."""
        lanes = over(self.lead, self.actors.inner)
        lanes.write(path, data, mode="replace")

    def remove(self, path: str) -> None:
        """Not here yet, as far as a reader sees."""
        del self.actors.inner._held[f"trial/{path}"]

    def sign(self, path: str, data: bytes, *, by: Signs) -> None:
        self.put(layout.signature(path, sha256(data)), by.sign(data, place=f"trial/{path}"))

    def prove(self) -> Proof:
        settings = self.lead.settings
        signing = signing_of(settings, reading=True)
        return Verification(Transcript(over(self.lead, self.actors.inner), signing=signing)).run()


def over(client: Client, store: Store) -> Lanes:
    """A client's lanes in another store, to read and write all of them."""
    lanes = client.lanes
    return replace(lanes, stores=dict.fromkeys(lanes.stores, store), writable=None)


def forged(run: Run, ref: PassRef) -> bytes:
    """A pass whole in itself, under the published names: another model with a seal that fits it."""
    old = run.read(ref.seal)
    seal = Seal.parse(old, source=ref.seal)
    model = b"another model"
    digest = sha256(model)
    run.put(ref.model(digest, "txt"), model)
    fields = {"model_sha256": digest, "model_bytes": len(model)}
    name = layout.stored_name("model", digest, ext="txt")
    data = seal.model_copy(update={**fields, "model_file": name}).dump()
    run.put(ref.seal, data)
    return data
