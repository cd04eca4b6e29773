"""What leaves beside a model: agreed metrics, and counts that point at nobody, by every way out (law 8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitch.client import Client
from stitch.config.hooks import Hooks
from stitch.config.settings import Egress
from stitch.errors import EgressRefused
from stitch.hooks.inline import FunctionRunner
from stitch.layout import Event, PassRef, event
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.wire import EventDoc, Seal
from tests.unit.loops.actors import SITES, Actors, Loop, finish

MEASURED = {"loss": 0.5, "oldest_patient": 97.0, "n_died": 3.0}
AGREED = {"loss": 0.5}


class Federation:
    """Loops whose hooks return more metrics than were agreed, and these counts."""

    def __init__(self, folder: Path, *, trained: int = 100, aggregated: int = 300, evaluated: int = 50):
        self.actors = Actors(folder)
        self.clients = {site: self._client(site) for site in SITES}
        self.loops: list[Loop] = [
            Lead(self.clients["rush"]),
            *(Local(client) for client in self.clients.values()),
        ]
        counts = {"train": trained, "aggregate": aggregated, "evaluate": evaluated}

        def train(*, out_path: Path, **given: object) -> dict[str, float]:
            out_path.write_text(str(given["data_dir"]), "utf-8")
            return {"n_samples": counts["train"], **MEASURED}

        def aggregate(*, out_path: Path, **given: object) -> dict[str, float]:
            out_path.write_text(str(given["site_dir"]), "utf-8")
            return {"n_samples": counts["aggregate"], **MEASURED}

        def evaluate(**given: object) -> dict[str, float]:
            return {"n_samples": counts["evaluate"], **MEASURED}

        for client in self.clients.values():
            client.runner = FunctionRunner({"train": train, "aggregate": aggregate, "evaluate": evaluate})

    def run(self) -> None:
        """Turn after turn until everybody has finished."""
        try:
            finish(self.loops)
        finally:
            for client in self.clients.values():
                client.close()

    def seal(self, ref: PassRef) -> Seal:
        return Seal.parse(self._read(ref.seal), source=ref.seal)

    def event(self, site: str, pass_id: int, name: Event) -> EventDoc:
        path = event(site, pass_id, name=name)
        return EventDoc.parse(self._read(path), source=path)

    def paths(self) -> list[str]:
        return [entry.key.removeprefix("trial/") for entry in self.actors.inner.list("")]

    def everything(self) -> bytes:
        """All that ever left, in a row."""
        return b"".join(self._read(path) for path in self.paths())

    def _client(self, site: str) -> Client:
        hooks = Hooks(model_ext="txt", evaluate="code/train.py:evaluate")
        return self.actors.client(site, num_passes=2, hooks=hooks, egress=Egress(metrics=("loss",)))[0]

    def _read(self, path: str) -> bytes:
        to = self.actors.folder / "looked-at"
        self.actors.inner.pull(f"trial/{path}", to)
        return to.read_bytes()


def test_no_seal_and_no_event_tells_a_metric_that_was_not_agreed(tmp_path: Path) -> None:
    federation = Federation(tmp_path)
    federation.run()
    for number in (0, 1, 2):
        assert federation.seal(PassRef(number)).metrics == AGREED
    for site in SITES:
        for number in (1, 2):
            assert federation.seal(PassRef(number, site)).metrics == AGREED
            assert federation.event(site, number, Event.COMPLETED).metrics == AGREED
        for number in (0, 1, 2):
            assert federation.event(site, number, Event.EVALUATED).metrics == AGREED
    for name in set(MEASURED) - set(AGREED):
        assert name.encode() not in federation.everything()


def test_a_starting_model_that_rests_on_too_few_is_not_sealed(tmp_path: Path) -> None:
    federation = Federation(tmp_path, trained=9)
    with pytest.raises(EgressRefused, match="n_samples is 9"):
        federation.run()
    assert federation.clients["rush"].mirror.sealed(PassRef(0)) is None
    assert not [path for path in federation.paths() if "/pass_000/" in path]


def test_a_global_that_rests_on_too_few_is_not_sealed(tmp_path: Path) -> None:
    """The aggregate hook sees the lead's data: what it counts is the lead's to keep."""
    federation = Federation(tmp_path, aggregated=9)
    with pytest.raises(EgressRefused, match="n_samples is 9"):
        federation.run()
    assert federation.clients["rush"].mirror.sealed(PassRef(1)) is None
    assert not [path for path in federation.paths() if path.startswith("global/pass_001/")]


def test_an_evaluation_of_too_few_is_not_told(tmp_path: Path) -> None:
    federation = Federation(tmp_path, evaluated=9)
    with pytest.raises(EgressRefused, match="n_samples is 9"):
        federation.run()
    assert not [path for path in federation.paths() if ".evaluated" in path]
