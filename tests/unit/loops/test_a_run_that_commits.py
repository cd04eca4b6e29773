"""A run whose sites commit to their data: what start and seal declare, and what a difference does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stitch import layout
from stitch.client import Client, Setup
from stitch.client.commitment import root_of_data
from stitch.config.settings import Hooks, Integrity
from stitch.errors import CommitmentMismatch, ConfigError, HookFailed
from stitch.hooks.inline import FunctionRunner
from stitch.layout import Event, PassRef
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.wire import EventDoc
from tests.unit.loops.actors import SITES, Actors, Loop, aggregate, train

COMMIT = Integrity(commit=True)


class Run:
    """Sites that commit, up to global 0."""

    def __init__(self, actors: Actors) -> None:
        self.actors = actors
        hooks = Hooks(model_ext="txt")
        self.clients = {
            name: actors.client(name, num_passes=2, integrity=COMMIT, hooks=hooks)[0] for name in SITES
        }
        for client in self.clients.values():
            (client.data_dir / "vitals.csv").write_bytes(b"id,hr\n1,80\n")
        self.until_global(0)

    def until_global(self, number: int) -> None:
        loops: list[Loop] = [Lead(self.clients["rush"]), *(Local(client) for client in self.clients.values())]
        for turn in range(100):
            if self.actors.inner.stat(f"trial/{PassRef(number).seal}") is not None:
                return
            loops[turn % len(loops)].step()
        raise AssertionError(f"global {number} does not come")

    def restart(self, name: str, hook: Callable[..., dict[str, Any]] = train) -> Client:
        before = self.clients[name]
        before.close()
        runner = FunctionRunner({"train": hook, "aggregate": aggregate})
        self.clients[name] = Client(before.settings, Setup(lanes=before.lanes, runner=runner))
        return self.clients[name]

    def event(self, event: Event, attempt: int = 1) -> EventDoc | None:
        path = layout.event("nu", 1, name=event, attempt=attempt)
        stored = self.clients["rush"].documents.read(path, EventDoc)
        return stored.doc if stored else None


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(Actors(tmp_path))


def test_start_and_seal_declare_the_same_root_and_globals_none(run: Run) -> None:
    run.until_global(1)
    lead = run.clients["rush"]
    seal, started = lead.passes.read_seal(PassRef(1, "nu")), run.event(Event.STARTED)
    assert seal is not None
    assert started is not None
    assert seal.doc.dataset_root == started.dataset_root == root_of_data(run.clients["nu"], 1)
    assert lead.fetch_global(1)[1] is not None
    global_1 = lead.passes.read_seal(PassRef(1))
    assert global_1 is not None
    assert global_1.doc.dataset_root is None
    assert global_1.doc.round is not None
    assert len(global_1.doc.round.inputs) == 3


def changing(run: Run) -> Callable[..., dict[str, Any]]:
    """A training during which somebody adds a patient."""

    def hook(*, out_path: Path, data_dir: Path, **given: object) -> dict[str, Any]:
        out_path.write_text("a model", "utf-8")
        (data_dir / "patient-4711.csv").write_bytes(b"one more")
        return {"n_samples": 100}

    return hook


def test_data_that_change_while_a_pass_trains_are_a_mismatch_and_nothing_is_sealed(run: Run) -> None:
    """Scenario 22, the site's half."""
    client = run.restart("nu", changing(run))
    with pytest.raises(CommitmentMismatch) as mismatch:
        Local(client).step()
    assert (mismatch.value.exit_code, "4711" in str(mismatch.value)) == (35, False)
    assert client.mirror.sealed(PassRef(1, "nu")) is None
    assert run.actors.inner.stat(f"trial/{PassRef(1, 'nu').seal}") is None
    failed = run.event(Event.FAILED)
    assert failed is not None
    assert (failed.exception, failed.message) == ("CommitmentMismatch", None)


def test_data_that_changed_before_a_retrain_are_a_new_attempt_and_no_mismatch(run: Run) -> None:
    with pytest.raises(CommitmentMismatch):
        Local(run.restart("nu", changing(run))).step()
    run.restart("nu")
    run.until_global(1)
    first, second = run.event(Event.STARTED), run.event(Event.STARTED, 2)
    assert first is not None
    assert second is not None
    assert first.dataset_root != second.dataset_root
    seal = run.clients["rush"].passes.read_seal(PassRef(1, "nu"))
    assert seal is not None
    assert (seal.doc.attempt, seal.doc.dataset_root) == (2, second.dataset_root)
    record = run.clients["rush"].passes.read_seal(PassRef(1))
    assert record is not None
    assert record.doc.round is not None
    assert "nu" in [one.site for one in record.doc.round.inputs]


def test_a_leaves_hook_that_fails_after_the_training_fails_the_attempt_under_its_own_name(run: Run) -> None:
    client = run.restart("nu")
    answers = [[b"row"]]

    def leaves(*, data_dir: Path) -> Any:
        return answers.pop()

    hooks = replace(client.settings.hooks, leaves="code/leaves.py:leaves")
    client.settings = replace(client.settings, hooks=hooks)
    client.runner = FunctionRunner({"train": train, "leaves": leaves})
    with pytest.raises(HookFailed):
        Local(client).step()
    failed = run.event(Event.FAILED)
    assert failed is not None
    assert (failed.hook, failed.exception) == ("leaves", "IndexError")
    assert client.mirror.sealed(PassRef(1, "nu")) is None


def test_by_hand_a_pass_needs_its_start_before_its_training(run: Run) -> None:
    """The notebook's verbs: `emit` commits, `push_local_model` compares."""
    client = run.restart("nu")
    client.pull_global(0)
    client.model_path(1).write_text("a model", "utf-8")
    with pytest.raises(ConfigError, match="started event") as told:
        client.push_local_model(1, {"n_samples": 100})
    assert 'emit(1, "started")' in told.value.hint
    client.emit(1, "started")
    (client.data_dir / "late.csv").write_bytes(b"late")
    with pytest.raises(CommitmentMismatch):
        client.push_local_model(1, {"n_samples": 100})
    (client.data_dir / "late.csv").unlink()
    client.push_local_model(1, {"n_samples": 100})
    assert run.actors.inner.stat(f"trial/{PassRef(1, 'nu').seal}") is not None
    client.close()


def test_a_number_that_another_machine_took_meanwhile_is_not_ours(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both saw no attempt yet: the second to write takes the next number, and there is no false alarm."""
    other, _ = Actors(run.actors.folder / "elsewhere").client("nu", integrity=COMMIT)
    (other.data_dir / "more.csv").write_bytes(b"data of its own")
    other.use(run.clients["nu"].lanes)
    other.emit(1, "started")
    client = run.restart("nu")
    monkeypatch.setattr(client.events, "last_attempt", lambda pass_id: 0)
    assert Local(client).step().state == "acted"
    sealed = client.mirror.sealed(PassRef(1, "nu"))
    second = run.event(Event.STARTED, 2)
    assert sealed is not None
    assert second is not None
    assert (sealed.seal.attempt, sealed.seal.dataset_root) == (2, second.dataset_root)
