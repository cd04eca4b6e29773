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
from stitch.config.hooks import Hooks
from stitch.config.settings import Integrity
from stitch.errors import CommitmentMismatch, ConfigError, HookFailed
from stitch.hooks.inline import FunctionRunner
from stitch.layout import Event, PassRef
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.testing.lines import Line
from stitch.wire import EventDoc, Orchestration, Verdict
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


# -- a broken commitment at the lead ---------------------------------------------------------------


def broken(run: Run, *, before: Callable[[str, str], None] = lambda verb, key: None) -> Lead:
    """Everybody has sealed pass 1, nu's seal declares other data than its start; the lead that meets it."""
    for name in SITES:
        local = Local(run.clients[name])
        while run.actors.inner.stat(f"trial/{PassRef(1, name).seal}") is None:
            local.step()
    started, lead = run.event(Event.STARTED), run.clients["rush"]
    assert started is not None
    store = Line(run.actors.inner, before)
    other = replace(lead.lanes, stores=dict.fromkeys(lead.lanes.stores, store), writable=None)
    altered = started.model_copy(update={"dataset_root": "ab" * 32})
    other.write(layout.event("nu", 1, name=Event.STARTED), altered.dump(), mode="replace")
    lead.close()
    run.clients["rush"] = Client(lead.settings, Setup(lanes=other, runner=lead.runner))
    return Lead(run.clients["rush"])


def test_a_broken_commitment_gives_the_attempt_up_and_asks_for_a_new_pass(run: Run) -> None:
    with pytest.raises(CommitmentMismatch, match="the round was given up") as told:
        broken(run).step()
    assert told.value.exit_code == 35
    verdict = run.clients["rush"].documents.read(layout.verdict(1, 0), Verdict)
    assert verdict is not None
    assert (verdict.doc.verdict, verdict.doc.redo) == ("aborted", ("nu",))


def test_where_another_lead_closed_the_round_first_it_says_so_and_gives_nothing_up(run: Run) -> None:
    """Law 11: one verdict an attempt, and the rival's was there when ours arrived."""
    rival, _ = Actors(run.actors.folder / "elsewhere").client("rush", num_passes=2, integrity=COMMIT)
    rival.use(run.clients["rush"].lanes)

    def before(verb: str, key: str) -> None:
        if verb == "push" and key == f"trial/{layout.verdict(1, 0)}":
            taken = [rival.pull_site(PassRef(1, name))[1] for name in ("rush", "uchicago")]
            inputs = [sealed for sealed in taken if sealed is not None]
            attempt, _ = rival.attempt_of(1)
            rival.close_attempt(attempt, rival.roster(), inputs=inputs, excluded={"nu": "it has no root"})

    with pytest.raises(CommitmentMismatch, match="declares other data") as told:
        broken(run, before=before).step()
    assert "given up" not in str(told.value)
    assert "Another lead has closed the round meanwhile" in told.value.hint
    lead = run.clients["rush"]
    verdict = lead.documents.read(layout.verdict(1, 0), Verdict)
    assert verdict is not None
    assert (verdict.doc.verdict, [one.site for one in verdict.doc.inputs]) == ("closed", ["rush", "uchicago"])
    assert not lead.documents.exists(layout.abort(1, 0))
    assert not lead.documents.exists(layout.verdict(1, 1))
    view = lead.documents.read(layout.orchestration(), Orchestration)
    assert view is not None
    assert (view.doc.attempt, view.doc.state) != (0, "aborted")
    rival.close()
    lead.close()
