"""The lead's validation set: each global is scored there, beside the rounds, where an auditor finds it."""

from __future__ import annotations

import pytest

from stitch import layout
from stitch.config.settings import Egress
from stitch.layout import PassRef
from stitch.loops.drive import loops_of
from stitch.testing.clocks import FakeClock
from stitch.testing.federation import Federation
from stitch.testing.processes import Process
from stitch.views.observe import Observer
from stitch.views.status import Source
from stitch.wire import EventDoc
from tests.unit.loops.conftest import Begin

SITES = ("rush", "nu")


@pytest.fixture
def federation(begin: Begin) -> Federation:
    federation = begin(sites=SITES, num_passes=2)
    federation.central = True
    return federation


def run(federation: Federation) -> None:
    for site in SITES:
        if not federation.alive(site):
            federation.start(site)
    federation.run()
    assert all(process.finished for process in federation.processes[-2:])


def scored(federation: Federation) -> list[int]:
    return [number for number in range(3) if federation.read(layout.central(number))]


def hook_runs(federation: Federation) -> list[int]:
    return [one.pass_id for one in federation.deliveries if one.hook == "evaluate_central"]


def test_every_global_is_scored_by_the_lead_alone_and_once(federation: Federation) -> None:
    run(federation)
    assert scored(federation) == hook_runs(federation) == [0, 1, 2]
    assert {one.process for one in federation.deliveries if one.hook == "evaluate_central"} == {"rush@rush#0"}
    event = EventDoc.parse(federation.read(layout.central(2)) or b"", source="event")
    sealed = federation.seal(PassRef(2))
    assert sealed is not None
    assert (event.site, event.model_sha256, event.n_samples) == ("rush", sealed.model_sha256, 50)
    assert event.metrics == {"score": federation.hooks.value(2) - 1}
    again = federation.start("rush")
    federation.run()
    assert again.finished
    assert hook_runs(federation) == [0, 1, 2]


def test_rounds_go_on_while_it_works(federation: Federation) -> None:
    """The whole run takes place while the hook still looks at the first global; the rest follows."""
    ended: list[bool] = []

    def before(process: Process, what: str, *, key: str) -> None:
        if what == "evaluate_central" and key == "pass_000":
            for _ in range(100):
                for one in federation.alive():
                    one.turns()
                federation.advance(30)
            ended.append(federation.read(layout.done()) is not None)

    federation.before = before
    run(federation)
    assert ended == [True]
    assert scored(federation) == [0, 1, 2]


def test_a_killed_evaluation_is_repeated(federation: Federation) -> None:
    killed: list[str] = []

    def before(process: Process, what: str, *, key: str) -> None:
        if what == "evaluate_central" and key == "pass_001" and not killed:
            killed.append(key)
            process.kill()

    federation.before = before
    for site in SITES:
        federation.start(site)
    for _ in range(60):
        for process in federation.alive():
            process.turns()
    assert killed
    federation.start("rush")
    federation.run()
    assert scored(federation) == [0, 1, 2]
    assert hook_runs(federation) == [0, 1, 1, 2]


def test_a_failing_hook_stops_nothing_and_the_next_process_tries_it_again(federation: Federation) -> None:
    def before(process: Process, what: str, *, key: str) -> None:
        if what == "evaluate_central" and key != "pass_001":
            raise ValueError

    federation.before = before
    run(federation)
    assert scored(federation) == [1]
    log = (federation.processes[0].client.settings.runs_dir / "run.log").read_text(encoding="utf-8")
    assert "global 2 has no central score: the evaluate_central hook raised ValueError" in log
    federation.before = lambda process, what, *, key: None
    federation.start("rush")
    federation.run()
    assert scored(federation) == [0, 1, 2]


def test_status_shows_it_beside_the_sites_scores(federation: Federation) -> None:
    federation.scores = True
    run(federation)
    lanes, source = federation.lanes(), Source("store", "memory:")
    observer = Observer(
        lanes, sites=SITES, lead="rush", heartbeat_minutes=2.0, clock=FakeClock(), source=source
    )
    item = observer.observe().passes[1]
    assert item.central is not None
    assert (item.central.site, item.central.metrics) == ("rush", {"score": federation.hooks.value(1) - 1})
    assert {one.site for one in item.evaluated} == set(SITES)


def test_a_site_or_a_lead_that_reviews_what_leaves_has_no_such_loop(federation: Federation) -> None:
    lead, nu = federation.start("rush"), federation.start("nu")
    assert [loop.name for loop in loops_of(lead.client)] == ["lead", "local", "central"]
    assert [loop.name for loop in loops_of(nu.client)] == ["local"]
    federation.changes["egress"] = Egress(outbox="review")
    assert [loop.name for loop in loops_of(federation.start("rush", "other").client)] == ["lead", "local"]
