"""A finished run that this version made is a proof, a view and a place to go on from, for ever."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stitch import layout
from stitch.client import Client
from stitch.loops import Lead
from stitch.loops.drive import loops_of
from stitch.store import FolderStore
from stitch.store.lanes import Lanes
from stitch.views.observe import Observer
from stitch.views.status import RunStatus, SiteState, Source
from tests.golden.check_chain import check
from tests.golden.make_run import RUN, SITES, SlowClock, actor, hooks_of

HERE = Path(__file__).parent
FINAL = "524afc9e03c374a0d1456bb92d3410082a6676c65f9d0c096949e603f60c0d50"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A copy of the golden run's store, which nobody may alter where it lies."""
    return Path(shutil.copytree(HERE / "run", tmp_path / "store"))


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def amend(path: Path, field: str = "created_at") -> None:
    raw = json.loads(path.read_bytes())
    raw[field] = raw[field][:-2] + ("1" if raw[field][-2] != "1" else "2") + raw[field][-1]
    path.write_text(json.dumps(raw, indent=2), encoding="utf-8")


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


def test_it_holds_nothing_that_the_layout_does_not_name() -> None:
    assert [path for path in files(HERE / "run" / RUN) if layout.parse(path) is None] == []


def test_an_auditor_with_the_standard_library_alone_can_prove_the_final_model() -> None:
    bare = [sys.executable, "-I", "-S", "-X", "utf8"]
    command = [*bare, str(HERE / "check_chain.py"), str(HERE / "run" / RUN)]
    proof = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (proof.returncode, proof.stdout) == (0, f"OK: the final model is {FINAL}\n"), proof.stderr


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("global/manifest.json", amend),
        ("global/pass_000/metrics.json", amend),
        ("global/pass_001/metrics.json", amend),
        ("global/pass_002/metrics.json", amend),
        ("global/rounds/pass_001.a0.json", amend),
        ("global/rounds/pass_002.a0.json", lengthen),
        ("global/pass_000/model.58fd8027f714.json", lengthen),
        ("global/pass_002/model.524afc9e03c3.json", lengthen),
        ("global/DONE.json", lambda path: amend(path, "final_metrics_sha256")),
        ("sites/nu/pass_001/metrics.json", amend),
        ("sites/uchicago/pass_001/model.3b84d25c58d2.json", lengthen),
        ("sites/rush/pass_002/metrics.json", lengthen),
    ],
)
def test_the_proof_breaks_with_any_byte_of_it(store: Path, path: str, change: Callable[[Path], None]) -> None:
    assert check(store / RUN) == FINAL
    change(store / RUN / path)
    with pytest.raises(SystemExit, match="BROKEN"):
        check(store / RUN)


def observe(store: Path) -> RunStatus:
    clock = SlowClock()
    shared = FolderStore(store, clock=clock)
    lanes = (layout.GLOBAL, *(layout.site_lane(site) for site in SITES))
    return Observer(
        Lanes(RUN, dict.fromkeys(lanes, shared), {}),
        sites=SITES,
        lead=SITES[0],
        heartbeat_minutes=2.0,
        clock=clock,
        source=Source("store", "a folder"),
    ).observe()


def test_status_shows_it_whole(store: Path) -> None:
    seen = observe(store)
    assert (seen.phase, seen.num_passes, seen.newest_global, seen.problems) == ("complete", 2, 2, ())
    assert seen.finished is not None
    assert (seen.finished.final_pass, seen.finished.reason) == (2, "completed")
    assert seen.finished.model_sha256 == FINAL
    assert [(site.site, site.state, site.hooks, site.settings) for site in seen.sites] == [
        (site, SiteState.COMPLETED, "same", "same") for site in SITES
    ]


def test_status_tells_what_became_of_each_pass(store: Path) -> None:
    seen = observe(store)
    fates = {(own.site, own.pass_id): own.fate for item in seen.passes for own in item.sites}
    assert fates == {(site, k): "used" for site in SITES for k in (1, 2)} | {("uchicago", 2): "excluded"}
    attempts = {own.site: own.attempt for own in seen.passes[1].sites}
    assert attempts == {"nu": 2, "rush": 1, "uchicago": 1}
    assert {score.site for score in seen.passes[2].evaluated} == set(SITES)
    assert all(item.global_ and item.global_.ready for item in seen.passes)


def processes(root: Path, store: Path) -> list[Client]:
    """New processes of all sites on new machines, whose mirrors are empty."""
    clock = SlowClock()
    shared = FolderStore(store, clock=clock)
    return [actor(root, site, store=shared, clock=clock, hooks=hooks_of(site)) for site in SITES]


def test_new_processes_take_it_for_finished_and_write_nothing(store: Path, tmp_path: Path) -> None:
    before = files(store)
    for client in processes(tmp_path, store):
        turns = [loop.step() for loop in loops_of(client)]
        client.close()
        assert {(turn.state, turn.final_pass) for turn in turns} == {("done", 2)}
        assert client.mirror.digest(client.global_model_path(2)) == FINAL
    assert files(store) == before


def test_a_new_lead_finishes_it_from_its_verdict_with_the_same_model(store: Path, tmp_path: Path) -> None:
    run = store / RUN
    shutil.rmtree(run / "global" / "pass_002")
    for name in ("DONE.json", "orchestration.json"):
        (run / "global" / name).unlink()
    verdict = (run / "global" / "rounds" / "pass_002.a0.json").read_bytes()
    lead = processes(tmp_path, store)[0]
    loop = Lead(lead)
    states = [loop.step().state for _ in range(3)]
    lead.close()
    assert states == ["acted", "acted", "done"]
    assert (run / "global" / "rounds" / "pass_002.a0.json").read_bytes() == verdict
    assert check(run) == FINAL
