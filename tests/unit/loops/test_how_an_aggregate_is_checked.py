"""The aggregate hook is run again when asked, and a diagnose hook looks at what it made."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from stitch import layout
from stitch.client import Client
from stitch.config.settings import Integrity
from stitch.errors import NonDeterministicAggregation
from stitch.hooks.call import HookName
from stitch.hooks.inline import FunctionRunner, HookFunction
from stitch.layout import PassRef
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.loops.making import NON_DETERMINISTIC
from stitch.sync.documents import Stored
from stitch.wire import Abort, Seal, Verdict
from tests.unit.loops.actors import SITES, Actors, train

Reproduce = Literal["off", "warn", "abort"]


class Aggregates:
    """An aggregate hook that writes the next of these texts at each call."""

    def __init__(self, *texts: str) -> None:
        self.texts = itertools.cycle(texts)
        self.calls = 0
        self.inputs: list[tuple[str, ...]] = []

    def run(self, *, site_dir: Path, out_path: Path) -> dict[str, Any]:
        self.calls += 1
        self.inputs.append(tuple(sorted(str(path) for path in site_dir.rglob("*") if path.is_file())))
        out_path.write_text(next(self.texts), "utf-8")
        return {"loss": 0.5}


class Federation:
    """Three sites that have trained pass 1, and a lead with these hooks."""

    def __init__(
        self,
        folder: Path,
        aggregate: Aggregates,
        *,
        reproduce: Literal["off", "warn", "abort"] = "off",
        **hooks: HookFunction,
    ) -> None:
        self.actors = Actors(folder)
        self.aggregate = aggregate
        self.hooks: dict[HookName, HookFunction] = {"diagnose": hooks["diagnose"]} if hooks else {}
        self.integrity = Integrity(reproduce=reproduce)
        self.clients: list[Client] = []
        self.lead = self.new_lead()
        assert self.lead.step().state == "acted"
        for site in SITES:
            client, _ = self.actors.client(site)
            self.clients.append(client)
            while Local(client).step().state == "acted":
                pass
            client.close()

    def new_lead(self) -> Lead:
        client, _ = self.actors.client("rush", integrity=self.integrity, poll_seconds=30.0)
        hooks: dict[HookName, HookFunction] = {"train": train, "aggregate": self.aggregate.run}
        client.runner = FunctionRunner(hooks | self.hooks)
        if "diagnose" in self.hooks:
            wanted = replace(client.settings.hooks, diagnose="code/diagnose.py:diagnose")
            client.settings = replace(client.settings, hooks=wanted)
        self.clients.append(client)
        return Lead(client)

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def read(self, path: str, cls: Any) -> Stored[Any] | None:
        return self.lead.client.documents.read(path, cls)


@pytest.fixture
def federations(tmp_path: Path) -> Iterator[Any]:
    made: list[Federation] = []

    def make(*texts: str, **options: Any) -> Federation:
        made.append(Federation(tmp_path, Aggregates(*texts), **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def sealed(federation: Federation) -> Seal | None:
    stored = federation.read(PassRef(1).seal, Seal)
    return stored.doc if stored else None


def test_without_being_asked_it_runs_once(federations: Any) -> None:
    federation = federations("a", "b")
    assert federation.lead.step().state == "acted"
    assert federation.aggregate.calls == 1


def test_a_deterministic_hook_runs_twice_on_the_same_inputs_folder(federations: Any) -> None:
    federation = federations("same", reproduce="abort")
    assert federation.lead.step().state == "acted"
    assert federation.aggregate.calls == 2
    assert federation.aggregate.inputs[0] == federation.aggregate.inputs[1] != ()
    assert sealed(federation) is not None


def test_one_difference_is_computed_again_and_forgiven(federations: Any) -> None:
    federation = federations("a", "b", "b", reproduce="abort")
    assert federation.lead.step().state == "acted"
    assert federation.aggregate.calls == 3
    assert sealed(federation) is not None


def test_a_second_difference_gives_the_attempt_up_and_the_global_stands(federations: Any) -> None:
    """Scenario 26: no marker, no model, and the next process tries a new attempt with what is staged."""
    federation = federations("a", "b", "c", reproduce="abort")
    before = federation.lead.client.lanes.read(PassRef(0).seal, limit=1 << 20)
    with pytest.raises(NonDeterministicAggregation):
        federation.lead.step()
    given_up = federation.read(layout.abort(1, 0), Abort)
    assert given_up is not None
    assert given_up.doc.code == NON_DETERMINISTIC
    assert sealed(federation) is None
    after = federation.lead.client.lanes.read(PassRef(0).seal, limit=1 << 20)
    assert before is not None
    assert after is not None
    assert before[1] == after[1]
    assert not list(federation.actors.inner.list("trial/global/pass_001/"))
    federation.lead.client.close()
    federation.aggregate = Aggregates("fixed")
    again = federation.new_lead()
    while sealed(federation) is None:
        again.step()
    record = sealed(federation)
    assert record is not None
    assert record.round is not None
    assert record.round.attempt == 1
    assert federation.read(layout.verdict(1, 1), Verdict) is not None


def test_to_warn_is_to_go_on(federations: Any) -> None:
    federation = federations("a", "b", "c", reproduce="warn")
    assert federation.lead.step().state == "acted"
    assert sealed(federation) is not None


def test_what_the_diagnose_hook_reports_is_sealed_with_the_global(federations: Any) -> None:
    seen: dict[str, Any] = {}

    def diagnose(*, candidate_path: Path, global_path: Path, pass_id: int) -> dict[str, float]:
        seen.update(text=Path(candidate_path).read_text("utf-8"), base=Path(global_path).is_file(), k=pass_id)
        return {"drift": 0.25}

    federation = federations("model", diagnose=diagnose)
    assert federation.lead.step().state == "acted"
    assert seen == {"text": "model", "base": True, "k": 1}
    seal = sealed(federation)
    assert seal is not None
    assert dict(seal.metrics) == {"loss": 0.5, "diagnose.drift": 0.25}


def test_a_diagnose_hook_cannot_change_the_candidate(federations: Any) -> None:
    def meddle(*, candidate_path: Path, global_path: Path) -> dict[str, float]:
        Path(candidate_path).write_text(f"not {global_path.name}", "utf-8")
        return {}

    federation = federations("model", diagnose=meddle)
    assert federation.lead.step().state == "acted"
    client: Client = federation.lead.client
    published = client.mirror.sealed(PassRef(1))
    assert published is not None
    assert published.model.read_text("utf-8") == "model"


def test_a_diagnose_hook_that_fails_stops_nothing(federations: Any) -> None:
    def broken(*, candidate_path: Path, global_path: Path) -> dict[str, float]:
        raise ValueError(f"{candidate_path} {global_path}")

    federation = federations("model", diagnose=broken)
    assert federation.lead.step().state == "acted"
    assert sealed(federation) is not None
