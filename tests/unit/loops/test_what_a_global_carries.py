"""The aggregation's own state and the next pass's config: sealed with a global, proven, given again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stitch import layout
from stitch.client import Client
from stitch.client.calls import aggregate_call
from stitch.client.carried import Carried, forget_carried, read_carried
from stitch.config.settings import Integrity
from stitch.errors import DigestMismatch, HookOutput, NonDeterministicAggregation, ProtocolError
from stitch.hooks.call import HookCall
from stitch.hooks.inline import FunctionRunner
from stitch.layout import PassRef
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.mirror import Sealed
from stitch.proof.transcript import Transcript
from stitch.proof.verify import Verification
from stitch.proof.workbench import Workbench
from stitch.store.meter import MeteredStore
from stitch.sync.status import Status
from stitch.wire import Orchestration, Seal
from tests.unit.loops.actors import SITES, Actors, Loop, finish

OUTER = "outer_state"


class Momentum:
    """Hooks of an outer optimiser: its velocity adds 1 a round, and it halves the sites' step."""

    def __init__(self) -> None:
        self.outer: list[str | None] = []
        self.configs: dict[tuple[str, int], dict[str, Any]] = {}
        self.noise: Callable[[], str] = lambda: ""

    def train(
        self,
        *,
        global_path: Path | None,
        out_path: Path,
        data_dir: Path,
        pass_id: int,
        config: dict[str, Any],
    ) -> dict[str, int]:
        self.configs[data_dir.parent.name, pass_id] = config
        out_path.write_text(f"{global_path is None}{data_dir.parent.name}{pass_id}", "utf-8")
        return {"n_samples": 100}

    def aggregate(
        self,
        *,
        site_dir: Path,
        out_path: Path,
        pass_id: int,
        outer_path: Path | None,
        outer_out_path: Path,
        config_out_path: Path,
    ) -> dict[str, int]:
        before = None if outer_path is None else outer_path.read_text("utf-8")
        self.outer.append(before)
        outer_out_path.write_text(str(int(before or 0) + 1) + self.noise(), "utf-8")
        config_out_path.write_text(json.dumps({"step": 0.5**pass_id, "mode": "local"}), "utf-8")
        out_path.write_text(f"global {pass_id} of {len(list(site_dir.iterdir()))}", "utf-8")
        return {}


class Run:
    """Three sites with these hooks."""

    def __init__(self, folder: Path) -> None:
        self.actors = Actors(folder)
        self.hooks = Momentum()
        self.clients: list[Client] = []

    def client(self, site: str, **changes: Any) -> tuple[Client, MeteredStore]:
        changes.setdefault("num_passes", 2)
        client, store = self.actors.client(
            site, hyper={"step": 8, "rows": 3}, train_config={"step": 4, "mode": "all"}, **changes
        )
        client.runner = FunctionRunner({"train": self.hooks.train, "aggregate": self.hooks.aggregate})
        self.clients.append(client)
        return client, store

    def whole(self, **changes: Any) -> list[Client]:
        clients = [self.client(site, **changes)[0] for site in SITES]
        finish([Lead(clients[0]), *map(Local, clients)])
        return clients

    def seal(self, number: int) -> Seal:
        stored = self.clients[0].passes.read_seal(PassRef(number))
        assert stored is not None
        return stored.doc

    def verify(self, *, rerun: bool = False) -> None:
        client = self.clients[0]
        record = Transcript(client.lanes)
        bench = None
        if rerun:
            manifest = record.chain.manifest.doc
            bench = Workbench(client.settings, client.lanes, manifest=manifest, runner=client.runner)
        Verification(record, bench=bench, logs=client.settings.root / "logs").run()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    for client in made.clients:
        client.close()


def test_a_state_is_published_before_the_seal_that_lists_it_and_given_to_the_next_round(run: Run) -> None:
    run.whole()
    assert run.hooks.outer == [None, "1"]
    for number in (1, 2):
        (listed,) = run.seal(number).attachments
        assert listed.name == OUTER
        assert listed.file == layout.stored_name(OUTER, listed.sha256, ext="txt")
        got = run.clients[0].lanes.read(f"global/pass_00{number}/{listed.file}", limit=100)
        assert got is not None
        assert got[1] == str(number).encode()
    run.verify(rerun=True)
    sites = run.clients[1].mirror.root
    assert not list(sites.rglob(f"{OUTER}*")), "a site does not need it"


def test_a_state_that_was_altered_is_found_by_verify_and_used_by_nobody(run: Run) -> None:
    clients = [run.client(site)[0] for site in SITES]
    lead, loops = Lead(clients[0]), [Local(client) for client in clients]
    turns: list[Loop] = [lead, *loops]
    while clients[0].passes.stat_seal(PassRef(1)) is None:
        for loop in turns:
            loop.step()
    (listed,) = run.seal(1).attachments
    key = f"trial/global/pass_001/{listed.file}"
    wrong = clients[0].settings.root / "wrong"
    wrong.write_text("9", "utf-8")
    run.actors.inner.push(wrong, key, mode="replace")
    shutil.rmtree(clients[0].mirror.root / "global" / "pass_001")
    with pytest.raises(DigestMismatch, match="outer_state"):
        run.verify()
    with pytest.raises(DigestMismatch, match=r"outer_state\.\w+\.txt: the stored file does not match"):
        finish([lead, *loops])
    assert run.hooks.outer == [None]


def test_the_velocity_of_a_lead_killed_after_the_seal_is_restored_on_another_machine(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 28: dead between the marker of global 1 and orchestration; the mirror is gone as well."""
    clients = [run.client(site)[0] for site in SITES]
    lead, loops = Lead(clients[0]), [Local(client) for client in clients]

    announce = lead._announce

    def killed(newest: int) -> None:
        if newest:
            raise KeyboardInterrupt
        announce(newest)

    monkeypatch.setattr(lead, "_announce", killed)
    with pytest.raises(KeyboardInterrupt):
        finish([*loops, lead])
    assert clients[0].passes.stat_seal(PassRef(1)) is not None
    stored = clients[0].documents.read(layout.orchestration(), Orchestration)
    assert stored is not None
    assert stored.doc.directive.base == 0
    clients[0].close()
    shutil.rmtree(clients[0].mirror.root)
    again, _ = run.client("rush")
    finish([Lead(again), Local(again), *loops[1:]])
    assert run.hooks.outer == [None, "1"]
    assert (again.mirror.root / "global/pass_001" / f"{OUTER}.txt").read_text("utf-8") == "1"
    run.verify(rerun=True)


def test_a_candidate_that_lost_its_state_before_it_was_published_is_made_anew(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = [run.client(site)[0] for site in SITES]
    lead, loops = Lead(clients[0]), [Local(client) for client in clients]
    publish = clients[0].publish_global

    def killed(sealed: Sealed) -> Status:
        if sealed.ref.number:
            raise KeyboardInterrupt
        return publish(sealed)

    monkeypatch.setattr(clients[0], "publish_global", killed)
    with pytest.raises(KeyboardInterrupt):
        finish([*loops, lead])
    (clients[0].mirror.root / "global/pass_001" / f"{OUTER}.txt").unlink()
    clients[0].close()
    again, _ = run.client("rush")
    finish([Lead(again), Local(again), *loops[1:]])
    assert run.hooks.outer == [None, None, "1"]
    run.verify()


def test_a_lost_copy_is_fetched_again(run: Run) -> None:
    lead = run.whole()[0]
    shutil.rmtree(lead.mirror.root / "global" / "pass_002")
    (lead.mirror.root / "global" / "pass_001" / f"{OUTER}.txt").unlink()
    sealed = lead.require_global(2)
    assert not lead.mirror.has_attachments(sealed)
    (listed,) = sealed.seal.attachments
    path = lead.passes.attachment(sealed, listed)
    assert path is not None
    assert path.read_text("utf-8") == "2"
    assert lead.mirror.has_attachments(sealed)


def test_the_reproduce_check_compares_the_state_as_well(run: Run) -> None:
    texts = iter(["a", "b", "c", "d"])
    run.hooks.noise = lambda: next(texts)
    with pytest.raises(NonDeterministicAggregation):
        run.whole(integrity=Integrity(reproduce="abort"))


def test_making_it_again_with_another_state_is_named(run: Run) -> None:
    run.whole()
    run.hooks.noise = lambda: "!"
    with pytest.raises(DigestMismatch, match="global 1's outer_state made again from its inputs"):
        run.verify(rerun=True)


def test_the_next_config_is_sealed_published_and_given_to_every_sites_training(run: Run) -> None:
    run.whole()
    for site in SITES:
        first, second = run.hooks.configs[site, 1], run.hooks.configs[site, 2]
        assert first == {"step": 4, "rows": 3, "mode": "all", "site": {}}
        assert second == {"step": 0.5, "rows": 3, "mode": "local", "site": {}}
    assert run.seal(1).next_config == {"step": 0.5, "mode": "local"}
    assert b'"config"' not in (run.clients[0].mirror.read(PassRef(0).seal) or b"")


def test_the_seal_is_obeyed_and_not_orchestration(run: Run) -> None:
    clients = [run.client(site)[0] for site in SITES]
    lead, loops = Lead(clients[0]), [Local(client) for client in clients]
    turns: list[Loop] = [lead, *loops]
    while clients[0].passes.stat_seal(PassRef(1)) is None:
        for loop in turns:
            loop.step()
    stored = clients[0].documents.read(layout.orchestration(), Orchestration)
    assert stored is not None
    assert stored.doc.directive.config == {"step": 0.5, "rows": 3, "mode": "local"}
    directive = stored.doc.directive.model_copy(update={"config": {"step": 99}})
    lies = stored.doc.model_copy(update={"directive": directive})
    clients[0].documents.replace(layout.orchestration(), lies, etag=stored.entry.etag)
    finish([lead, *loops])
    assert {run.hooks.configs[site, 2]["step"] for site in SITES} == {0.5}


def test_another_config_made_again_is_named(run: Run) -> None:
    run.whole()
    aggregate = run.hooks.aggregate

    def other(*, config_out_path: Path, **given: Any) -> dict[str, int]:
        given = {
            name: given[name] for name in ("site_dir", "out_path", "pass_id", "outer_path", "outer_out_path")
        }
        answer = aggregate(config_out_path=config_out_path, **given)
        config_out_path.write_text('{"step": 7}', "utf-8")
        return answer

    run.clients[0].runner = FunctionRunner({"train": run.hooks.train, "aggregate": other})
    with pytest.raises(ProtocolError, match="global 1 made again has another config"):
        run.verify(rerun=True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[1]", "no map"),
        ("{", "no JSON"),
        ('{"a": NaN}', "'a' is no finite number"),
        ('{"a": null}', "'a' is no finite number"),
        ('{"a": {"b": 1}}', "'a' is no finite number"),
        ('{"site": 1}', "the name 'site'"),
        ('{"a b": 1}', "the name 'a b'"),
        (json.dumps({"a": "x" * 1001}), "'a' is no finite number, short text"),
        (json.dumps({f"k{n}": 1 for n in range(65)}), "no map of at most 64"),
        (json.dumps({"a": 2**63}), "'a' is no finite number"),
        (json.dumps({"a": "half a pair \ud83d"}), "'a' is no finite number, short text"),
        (json.dumps({f"k{n}": "x" * 400 for n in range(60)}), "more than 16384 bytes"),
    ],
)
def test_a_config_that_no_seal_may_carry_is_refused_by_name(tmp_path: Path, text: str, why: str) -> None:
    call = aggregate_of(tmp_path)
    Path(str(call.optional["config_out_path"])).write_text(text, "utf-8")
    with pytest.raises(HookOutput, match=f"the aggregate hook wrote a config .*{why}"):
        read_carried(call)


def test_what_a_hook_wrote_is_read_and_what_it_did_not_write_is_nothing(tmp_path: Path) -> None:
    call = aggregate_of(tmp_path)
    assert read_carried(call) == Carried()
    Path(str(call.optional["config_out_path"])).write_text('{"a": 1, "b": true, "c": "x", "d": 0.5}', "utf-8")
    Path(str(call.optional["outer_out_path"])).write_bytes(b"v")
    found = read_carried(call)
    assert found.config == {"a": 1, "b": True, "c": "x", "d": 0.5}
    assert [(one.name, one.bytes) for one in found.attachments] == [(OUTER, 1)]
    forget_carried(call)
    assert read_carried(call) == Carried()


def test_an_empty_state_and_a_linked_one_are_refused(tmp_path: Path) -> None:
    call = aggregate_of(tmp_path)
    state = Path(str(call.optional["outer_out_path"]))
    state.write_bytes(b"")
    with pytest.raises(HookOutput, match=r"wrote an empty outer_state\.txt"):
        read_carried(call)
    state.unlink()
    try:
        state.symlink_to(tmp_path / "anywhere")
    except OSError:  # Windows lets only administrators link
        return
    with pytest.raises(HookOutput, match=r"made outer_state\.txt a symbolic link"):
        read_carried(call)


def aggregate_of(folder: Path) -> HookCall:
    client, _ = Actors(folder).client("rush")
    stage = client.stage(PassRef(1))
    call = aggregate_call(
        client.settings, stage, base=folder / "base", bases=folder, pass_id=1, seed=1, n_samples=1
    )
    client.close()
    return call
