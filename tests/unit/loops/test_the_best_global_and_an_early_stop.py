"""The best global is marked, and a run that gets no better ends: the same for whoever leads it next."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from stitch import layout
from stitch.config.evaluation import Evaluation
from stitch.errors import ProtocolError
from stitch.layout import PassRef
from stitch.testing.clocks import FakeClock
from stitch.testing.federation import Federation
from stitch.testing.processes import Process
from stitch.views.observe import Observer
from stitch.views.status import BestPass, RunStatus, Source
from stitch.wire import Done, sha256
from tests.unit.loops.conftest import Begin
from tests.unit.loops.elastic import published, record_of
from tests.unit.loops.proof import alter, prove

SITES = ("rush", "nu")
GROWS = Evaluation(best_metric="score", mode="min", patience=2, by="evaluation")
"""Models grow with each pass, and so do their scores: the first one stays the best."""

Make = Callable[..., Federation]


@pytest.fixture
def make(begin: Begin) -> Make:
    def build(evaluation: Evaluation, *, scores: bool = True, num_passes: int = 5) -> Federation:
        federation = begin(sites=SITES, num_passes=num_passes)
        federation.scores, federation.changes["evaluation"] = scores, evaluation
        return federation

    return build


def run(federation: Federation) -> Federation:
    for site in SITES:
        federation.start(site)
    federation.run()
    assert all(process.finished for process in federation.processes)
    return federation


def done(federation: Federation) -> tuple[int | None, str]:
    marker = Done.parse(federation.read(layout.done()) or b"", source="DONE")
    return marker.final_pass, marker.reason


def observe(federation: Federation) -> RunStatus:
    source = Source("store", "memory:")
    lanes, clock = federation.lanes(), FakeClock()
    return Observer(
        lanes, sites=SITES, lead="rush", heartbeat_minutes=2.0, clock=clock, source=source
    ).observe()


def test_a_run_whose_globals_get_no_better_is_stopped_with_the_next_one(make: Make) -> None:
    federation = run(make(GROWS))
    assert done(federation) == (3, "early_stopped")
    last = record_of(federation, 3)
    assert (last.should_stop, last.final) == (True, True)
    assert not record_of(federation, 2).should_stop
    prove(federation)
    log = (federation.processes[0].client.settings.runs_dir / "run.log").read_text(encoding="utf-8")
    assert "since global 0: the run ends here" in log


def test_orchestration_and_status_name_the_best(make: Make) -> None:
    federation = run(make(GROWS))
    view = published(federation)
    assert view.best is not None
    assert (view.phase, view.best.pass_id, view.best.metric) == ("complete", 0, "score")
    record = record_of(federation, 1).evaluated
    assert record is not None
    assert view.best.value == record.means["score"]
    best = observe(federation).best
    assert best == BestPass(0, "score", "min", "evaluation", view.best.value, since=3, patience=2)


def test_a_final_global_that_is_the_best_is_seen_by_status(make: Make) -> None:
    """Its scores stand in no seal."""
    federation = run(make(Evaluation(best_metric="score", mode="max"), num_passes=2))
    assert done(federation) == (2, "completed")
    view = published(federation)
    assert view.best is not None
    assert view.best.pass_id == 1
    best = observe(federation).best
    assert best is not None
    value = federation.hooks.value(2)
    assert (best.pass_id, best.since) == (2, 0)
    assert best.value == pytest.approx((50 * (value - 1) + 100 * (value - 2)) / 150)


def test_without_scores_the_training_decides(make: Make) -> None:
    """The third global without a better one than the first is known when it is sealed itself."""
    evaluation = Evaluation(best_metric="value", mode="min", patience=2, by="train")
    federation = run(make(evaluation, scores=False))
    assert done(federation) == (3, "early_stopped")
    prove(federation)
    best = observe(federation).best
    assert best is not None
    assert (best.pass_id, best.by, best.since) == (1, "train", 2)


def test_improvement_starts_patience_anew(make: Make) -> None:
    federation = run(make(Evaluation(best_metric="score", mode="max", patience=1)))
    assert done(federation) == (5, "completed")
    prove(federation)


def test_a_metric_that_no_site_reports_stops_nothing_and_is_said(make: Make) -> None:
    federation = run(make(Evaluation(best_metric="auroc", mode="max", patience=1), num_passes=2))
    assert done(federation) == (2, "completed")
    assert published(federation).best is None
    assert observe(federation).best is None
    log = (federation.processes[0].client.settings.runs_dir / "run.log").read_text(encoding="utf-8")
    assert "nobody reported auroc of global 1: it is not compared with others" in log


@pytest.mark.parametrize("wiped", [False, True])
def test_a_lead_that_is_started_again_decides_alike(make: Make, wiped: bool) -> None:
    """Killed while it makes the last global, with or without its mirror."""
    federation = make(GROWS)
    killed: list[str] = []

    def before(process: Process, what: str, *, key: str) -> None:
        if process.site == "rush" and (what, key) == ("aggregate", "pass_003") and not killed:
            killed.append(key)
            process.kill()

    federation.before = before
    lead, _ = (federation.start(site) for site in SITES)
    for _ in range(80):
        for process in federation.alive():
            process.turns()
        federation.advance(30)
    assert killed
    if wiped:
        shutil.rmtree(lead.client.mirror.root)
    federation.start("rush")
    federation.run()
    assert done(federation) == (3, "early_stopped")
    prove(federation)


def test_verify_notices_a_run_that_goes_on_without_patience(make: Make) -> None:
    federation = run(make(GROWS))
    alter(federation, PassRef(3).seal, lambda raw: raw["round"].update(should_stop=False, final=False))
    digest = sha256(federation.read(PassRef(3).seal) or b"")
    change = {"final_metrics_sha256": digest, "reason": "the lead's wish"}
    alter(federation, layout.done(), lambda raw: raw.update(change))
    with pytest.raises(ProtocolError, match=r"pass_003/metrics\.json: goes on, and patience is used up"):
        prove(federation)
