"""The seed's verbs, used by hand as a notebook would: no loops, no command line."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from stitch import Client, Status, layout, run_lead, run_local
from stitch.client import Setup
from stitch.client.rebuild import rebuild
from stitch.config.privacy import Privacy
from stitch.config.settings import Settings
from stitch.errors import ConfigError, EgressRefused, HookOutput, RoundError, StoreUnavailable
from stitch.store.base import Entry
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore

SITES = ("rush", "nu")


def train(*, global_path: Path | None, out_path: Path, data_dir: Path) -> dict[str, float]:
    """A model is one number; training adds one."""
    assert data_dir.is_dir()
    out_path.write_text(str(0 if global_path is None else float(global_path.read_text("utf-8")) + 1), "utf-8")
    return {"n_samples": 100, "loss": 0.5}


def aggregate(*, site_dir: Path, out_path: Path) -> dict[str, float]:
    """The mean of the inputs."""
    values = [float(path.read_text("utf-8")) for path in sorted(site_dir.glob("*/pass_*/model.txt"))]
    out_path.write_text(str(sum(values) / len(values)), "utf-8")
    return {"inputs": len(values)}


class World:
    """Two sites over one store in memory."""

    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore()
        self._folder = folder

    def client(self, site: str, *, num_passes: int = 2) -> Client:
        root = self._folder / site
        (root / "data").mkdir(parents=True, exist_ok=True)
        settings = Settings(
            root=root,
            run_id="trial",
            lead="rush",
            sites=SITES,
            site=site,
            num_passes=num_passes,
            data_dir=root / "data",
            output_dir=root / "output",
            poll_seconds=0.01,
            root_seed=7,
        )
        settings = _with_ext(settings, "txt")
        lanes = Lanes(
            "trial",
            dict.fromkeys(("global", "sites/rush", "sites/nu"), self.store),
            {},
            outbox=root / "output" / "final_no_phi",
        )
        return Client(settings, Setup(lanes=lanes))


def _with_ext(settings: Settings, ext: str) -> Settings:
    return replace(settings, hooks=replace(settings.hooks, model_ext=ext))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_seed_s_two_loops_written_by_hand_end_with_the_known_model(world: World) -> None:
    lead, site = world.client("rush"), world.client("nu")

    first = train(global_path=None, out_path=lead.global_model_path(0), data_dir=lead.data_dir)
    assert lead.push_global_model(0, first) is Status.UPLOADED

    for k in range(1, lead.num_passes + 1):
        assert site.wait_for_global(k - 1) in (Status.DOWNLOADED, Status.ALREADY_SYNCED)
        lead.pull_global(k - 1)
        for one in (lead, site):
            assert one.resume_point() == k
            assert not one.has_local_model(k)
            one.emit(k, "started")
            with one.heartbeating(k):
                metrics = train(
                    global_path=one.global_model_path(k - 1),
                    out_path=one.model_path(k),
                    data_dir=one.data_dir,
                )
            assert one.push_local_model(k, metrics) is Status.UPLOADED
            assert one.push_local_model(k) is Status.ALREADY_SYNCED
            assert one.read_local_metrics(k)["n_samples"] == 100
            assert one.metrics_path(k).is_file()
        assert lead.all_completed(k, SITES)
        assert lead.wait_for_all_expected(k) == [Status.DOWNLOADED, Status.ALREADY_SYNCED]
        agg = aggregate(site_dir=lead.sites_pass_dir(k), out_path=lead.global_model_path(k))
        assert lead.push_global_model(k, agg) is Status.UPLOADED
        assert site.has_global_model(k)

    lead.write_end_marker(final_pass=2, reason="completed")
    assert site.pull_global(2) is Status.DOWNLOADED
    assert site.pull_global(3) is Status.RUN_COMPLETE
    assert float(site.global_model_path(2).read_text("utf-8")) == 2
    view = site.read_orchestration()
    assert (view["phase"], view["final_pass"], view["current_pass"]) == ("complete", 2, 2)
    lead.close()
    site.close()


def test_a_pull_of_a_global_that_is_not_there_says_so(world: World) -> None:
    site = world.client("nu")
    assert site.pull_global(0) is Status.NO_NEW_PASS
    assert not site.has_global_model(0)


def test_run_lead_and_run_local_take_plain_functions(world: World) -> None:
    lead, site = world.client("rush", num_passes=3), world.client("nu", num_passes=3)
    ends: list[object] = []
    thread = threading.Thread(target=lambda: ends.append(run_local(site, train)))
    thread.start()
    ends.append(run_lead(lead, train, aggregate))
    thread.join()
    assert [getattr(end, "final_pass", None) for end in ends] == [3, 3]
    assert float(site.global_model_path(3).read_text("utf-8")) == 3


def test_early_stopping_ends_the_run_at_that_pass(world: World) -> None:
    def stop_at_one(*, site_dir: Path, out_path: Path) -> dict[str, object]:
        return {**aggregate(site_dir=site_dir, out_path=out_path), "should_stop": True}

    lead, site = world.client("rush", num_passes=9), world.client("nu", num_passes=9)
    thread = threading.Thread(target=lambda: run_local(site, train))
    thread.start()
    end = run_lead(lead, train, stop_at_one)
    thread.join()
    assert end is not None
    assert (end.final_pass, end.reason) == (1, "early_stopped")
    assert site.passes.newest("sites/nu") == 1


def test_a_run_of_no_passes_publishes_its_starting_model_and_ends(world: World) -> None:
    lead = world.client("rush", num_passes=0)
    end = run_lead(lead, train, aggregate)
    assert end is not None
    assert end.final_pass == 0


def test_a_starting_model_from_a_file_replaces_the_first_training(world: World) -> None:
    lead, site = world.client("rush", num_passes=1), world.client("nu", num_passes=1)
    start = lead.settings.root / "start.txt"
    start.write_text("41", "utf-8")
    lead.settings = replace(lead.settings, initial_model="start.txt")
    thread = threading.Thread(target=lambda: run_local(site, train))
    thread.start()
    run_lead(lead, train, aggregate)
    thread.join()
    assert float(lead.global_model_path(1).read_text("utf-8")) == 42


def test_a_run_can_start_from_an_earlier_run_s_global(world: World, tmp_path: Path) -> None:
    test_run_lead_and_run_local_take_plain_functions(world)
    later = World(tmp_path / "later")
    later.store = world.store
    lead, site = later.client("rush", num_passes=1), later.client("nu", num_passes=1)
    for one in (lead, site):
        one.settings = replace(one.settings, run_id="second")
    lead.settings = replace(lead.settings, initial_model="run:trial/pass_003")
    fresh = [Client(one.settings, Setup(lanes=replace(one.lanes, run_id="second"))) for one in (lead, site)]
    thread = threading.Thread(target=lambda: run_local(fresh[1], train))
    thread.start()
    run_lead(fresh[0], train, aggregate)
    thread.join()
    assert float(fresh[0].global_model_path(1).read_text("utf-8")) == 4


def test_too_few_samples_seal_nothing(world: World) -> None:
    lead, site = world.client("rush"), world.client("nu")
    lead.push_global_model(
        0, train(global_path=None, out_path=lead.global_model_path(0), data_dir=lead.data_dir)
    )
    site.pull_global(0)
    train(global_path=site.global_model_path(0), out_path=site.model_path(1), data_dir=site.data_dir)
    with pytest.raises(EgressRefused, match="n_samples is 9"):
        site.push_local_model(1, {"n_samples": 9})
    assert not site.has_local_model(1)
    assert site.passes.newest("sites/nu") == -1


@pytest.mark.parametrize("metrics", [{}, {"n_samples": 20, "loss": float("nan")}, {"n_samples": 2.5}])
def test_metrics_that_cannot_be_used_seal_nothing(world: World, metrics: dict[str, float]) -> None:
    lead, site = world.client("rush"), world.client("nu")
    lead.push_global_model(
        0, train(global_path=None, out_path=lead.global_model_path(0), data_dir=lead.data_dir)
    )
    site.pull_global(0)
    train(global_path=site.global_model_path(0), out_path=site.model_path(1), data_dir=site.data_dir)
    with pytest.raises(HookOutput):
        site.push_local_model(1, metrics)
    assert not site.has_local_model(1)


def begun_by_hand(world: World) -> tuple[Client, Client]:
    lead, site = world.client("rush"), world.client("nu")
    first = train(global_path=None, out_path=lead.global_model_path(0), data_dir=lead.data_dir)
    lead.push_global_model(0, first)
    site.pull_global(0)
    return lead, site


def test_no_verdict_is_made_by_hand_without_those_whom_the_policy_waits_for(world: World) -> None:
    """Law 7: a verdict is for ever, and a notebook's cell is quickly run too early."""
    lead, site = begun_by_hand(world)
    lead.global_model_path(1).write_bytes(b"made of nothing")
    for here in range(2):
        with pytest.raises(RoundError, match=f"round 1: {here} of 2 passes are here"):
            lead.push_global_model(1, {"n_samples": 100})
        assert not lead.documents.exists(layout.verdict(1, 0))
        train(global_path=site.global_model_path(0), out_path=site.model_path(1), data_dir=site.data_dir)
        site.push_local_model(1, {"n_samples": 100})
        lead.pull_sites(1)


def test_a_lead_that_adds_the_noise_itself_takes_no_aggregate_by_hand(world: World) -> None:
    """Its seal would say that noise was added, and the plain mean would be published."""
    lead, _ = begun_by_hand(world)
    lead.settings = replace(lead.settings, privacy=Privacy(mode="central", clip=1.0, epsilon=8.0, delta=1e-5))
    lead.global_model_path(1).write_bytes(b"the plain mean")
    with pytest.raises(ConfigError, match="nobody adds that by hand"):
        lead.push_global_model(1, {"n_samples": 100})
    with pytest.raises(ConfigError, match="an aggregate function of your own"):
        run_lead(lead, train, aggregate)
    assert not lead.has_global_model(1)


def test_only_the_lead_writes_the_global_lane(world: World) -> None:
    site = world.client("nu")
    with pytest.raises(ConfigError, match="only the lead"):
        site.push_global_model(0, {"n_samples": 10})
    with pytest.raises(ConfigError, match="only the lead"):
        site.write_end_marker(None, "because")


def test_a_copy_of_every_upload_stays_at_the_site(world: World) -> None:
    lead, site = world.client("rush", num_passes=1), world.client("nu", num_passes=1)
    thread = threading.Thread(target=lambda: run_local(site, train))
    thread.start()
    run_lead(lead, train, aggregate)
    thread.join()
    copy = site.settings.output_dir / "final_no_phi" / "trial" / "sites" / "nu" / "pass_001"
    assert (copy / "model.txt").read_bytes() == site.model_path(1).read_bytes()
    assert (copy / "metrics.json").read_bytes() == site.metrics_path(1).read_bytes()


def test_a_store_that_stays_away_is_a_status_and_the_pass_is_pushed_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead, site = world.client("rush"), world.client("nu")
    lead.push_global_model(
        0, train(global_path=None, out_path=lead.global_model_path(0), data_dir=lead.data_dir)
    )
    site.pull_global(0)
    metrics = train(
        global_path=site.global_model_path(0), out_path=site.model_path(1), data_dir=site.data_dir
    )

    def away(*args: object, **more: object) -> Entry:
        raise StoreUnavailable(f"no answer to {len(args)} and {len(more)}")

    with monkeypatch.context() as patched:
        patched.setattr(world.store, "push", away)
        assert site.push_local_model(1, metrics) is Status.FAILED
        patched.setattr(world.store, "pull", away)
        patched.setattr(world.store, "stat", away)
        assert site.pull_global(1) is Status.FAILED
        assert lead.pull_sites(1) == [Status.FAILED, Status.FAILED]
    assert site.has_local_model(1)
    assert site.push_local_model(1) is Status.UPLOADED


def test_a_lane_of_somebody_else_is_not_written_whatever_the_token_allows(world: World) -> None:
    site = world.client("nu")
    for path in ("global/DONE.json", "sites/rush/pass_001/metrics.json"):
        with pytest.raises(EgressRefused, match="not ours"):
            site.lanes.write(path, b"{}", mode="create")
    assert list(world.store.list("")) == []


def test_an_event_that_says_something_else_is_kept_and_reported(world: World) -> None:
    site = world.client("nu")
    site.emit(1, "failed", attempt=1, hook="train", exception="ValueError")
    site.emit(1, "failed", attempt=1, hook="train", exception="ValueError")
    log = site.settings.runs_dir / "run.log"
    assert not log.exists() or "CONFLICT" not in log.read_text("utf-8")
    site.emit(1, "failed", attempt=1, hook="train", exception="MemoryError")
    assert "CONFLICT: sites/nu/events/pass_001.failed.json" in log.read_text("utf-8")


def test_a_wiped_mirror_is_rebuilt_from_the_own_lane(world: World) -> None:
    lead, site = world.client("rush"), world.client("nu")
    thread = threading.Thread(target=lambda: run_local(site, train))
    thread.start()
    run_lead(lead, train, aggregate)
    thread.join()
    sealed = site.metrics_path(1).read_bytes()
    shutil.rmtree(site.mirror.root)
    again = world.client("nu")
    rebuild(again, again.lane, below=3)
    assert again.metrics_path(1).read_bytes() == sealed
    assert again.has_local_model(1)
    assert again.has_local_model(2)
