"""The evaluate hook runs at every site on each new global, once, and never holds up the training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stitch import layout
from stitch.client.operator import change_roster
from stitch.config.evaluation import Evaluation
from stitch.errors import EgressRefused, HookFailed
from stitch.layout import Event, PassRef
from stitch.sync.status import Status
from stitch.testing.federation import Federation
from stitch.testing.processes import Process
from stitch.wire import EventDoc
from tests.unit.loops.conftest import Begin
from tests.unit.loops.elastic import settle

SITES = ("rush", "nu")
Make = Callable[..., Federation]


@pytest.fixture
def make(begin: Begin) -> Make:
    """A federation of two sites that evaluate."""

    def build(**given: Any) -> Federation:
        federation = begin(sites=SITES, **given)
        federation.scores = True
        return federation

    return build


def started(federation: Federation) -> Federation:
    for site in SITES:
        federation.start(site)
    return federation


def of(site: str, number: int) -> str:
    return layout.event(site, number, name=Event.EVALUATED)


def scored(federation: Federation, site: str) -> list[int]:
    """The globals whose score the site has told."""
    return [number for number in range(federation.num_passes + 1) if federation.read(of(site, number))]


def runs(federation: Federation, site: str) -> list[int]:
    """The globals that the site's hook was given, in order."""
    of_site = (one for one in federation.deliveries if one.process.startswith(f"{site}@"))
    return [one.pass_id for one in of_site if one.hook == "evaluate"]


def breaking(wanted: Callable[[Process, str], bool]) -> Callable[..., None]:
    """A hook that raises where it is wanted."""

    def before(process: Process, what: str, *, key: str) -> None:
        if what == "evaluate" and wanted(process, key):
            raise ValueError(key)

    return before


def test_every_site_scores_each_global_before_it_trains_on(make: Make) -> None:
    federation = started(make(num_passes=2))
    federation.run()
    written = [key.partition("/")[2] for key in federation.record.written]
    for site in SITES:
        assert scored(federation, site) == runs(federation, site) == [0, 1, 2]
        for number in (0, 1):
            start = layout.event(site, number + 1, name=Event.STARTED)
            assert written.index(of(site, number)) < written.index(start)
    event = EventDoc.parse(federation.read(of("nu", 1)) or b"", source="event")
    sealed = federation.seal(PassRef(1))
    assert sealed is not None
    assert (event.model_sha256, event.n_samples) == (sealed.model_sha256, 100)
    assert event.metrics == {"score": federation.hooks.value(1) - 2.0}


def test_a_killed_evaluation_is_repeated_and_a_told_one_is_not(make: Make) -> None:
    federation = make(num_passes=1)
    killed: list[str] = []

    def before(process: Process, what: str, *, key: str) -> None:
        if process.site == "nu" and what == "evaluate" and key == "pass_000" and not killed:
            killed.append(key)
            process.kill()

    federation.before = before
    started(federation)
    settle(federation)
    assert scored(federation, "nu") == []
    federation.start("nu")
    federation.run()
    assert scored(federation, "nu") == [0, 1]
    assert runs(federation, "nu") == [0, 0, 1]
    again = federation.start("nu")
    federation.run()
    assert again.finished
    assert runs(federation, "nu") == [0, 0, 1]


def test_a_global_is_scored_as_well_when_the_pass_made_from_it_is_sealed_already(make: Make) -> None:
    """The hook was configured after the pass had been published."""
    federation = make(num_passes=2)
    federation.scores = False
    nu = federation.start("nu")
    lead = federation.start("rush")
    for _ in range(3):
        lead.turn("lead")
    while nu.turn("local") is not None and federation.seal(PassRef(1, "nu")) is None:
        pass
    nu.interrupt()
    federation.scores = True
    again = federation.start("nu")
    for _ in range(5):
        again.turn("local")
    assert again.said == "waiting for global 1"
    assert scored(federation, "nu") == [0]
    assert runs(federation, "nu") == [0]


def test_a_failing_evaluation_stops_no_training_and_is_not_tried_again_and_again(make: Make) -> None:
    federation = make(num_passes=2)
    federation.before = breaking(lambda process, key: process.site == "nu" and key != "pass_002")
    nu = started(federation).processes[1]
    federation.run()
    assert all(process.finished for process in federation.processes)
    assert scored(federation, "nu") == [2]
    assert scored(federation, "rush") == [0, 1, 2]
    assert runs(federation, "nu") == [0, 1, 2]
    log = (nu.client.settings.runs_dir / "run.log").read_text(encoding="utf-8")
    assert "the evaluate hook raised ValueError" in log
    assert "global 1 has no score of nu: training goes on without it" in log
    assert not [path for path in federation.paths() if ".failed" in path]


def test_what_failed_is_tried_again_by_the_next_process_while_the_global_is_the_newest(make: Make) -> None:
    federation = make(num_passes=1)
    federation.before = breaking(lambda process, _: process.name == "nu@nu#0")
    nu = federation.start("nu")
    lead = federation.start("rush")
    for _ in range(3):
        lead.turn("lead")
    while nu.turn("local") is not None and federation.seal(PassRef(1, "nu")) is None:
        pass
    nu.interrupt()
    assert scored(federation, "nu") == []
    federation.start("nu")
    settle(federation)
    assert scored(federation, "nu") == [0, 1]


def test_a_failing_evaluation_of_the_final_global_is_an_error_and_a_new_run_repeats_it(make: Make) -> None:
    federation = make(num_passes=1)
    federation.before = breaking(lambda process, key: process.name == "nu@nu#1" and key == "pass_001")
    nu = started(federation).processes[1]
    federation.run()
    assert isinstance(nu.error, HookFailed)
    assert scored(federation, "nu") == [0]
    again = federation.start("nu")
    federation.run()
    assert again.finished
    assert scored(federation, "nu") == [0, 1]


def test_only_the_final_global_is_scored_where_the_settings_say_so(make: Make) -> None:
    federation = make(num_passes=2)
    federation.changes["evaluation"] = Evaluation(when="final")
    started(federation).run()
    assert [scored(federation, site) for site in SITES] == [[2], [2]]


def test_a_paused_site_scores_nothing(make: Make) -> None:
    federation = make(num_passes=1)
    lead = federation.start("rush")
    for _ in range(3):
        lead.turn("lead")
    change_roster(lead.client, "pause", site="nu")
    nu = federation.start("nu")
    for _ in range(5):
        nu.turn("local")
    assert nu.said == "the lead has paused this site"
    assert scored(federation, "nu") == []


def test_a_waiting_site_asks_no_more_because_it_has_scored(make: Make) -> None:
    """Once told, nothing of it is asked of the store again by that process."""
    asked: list[str] = []
    federation = make(num_passes=1)
    lead, nu = federation.start("rush"), federation.start("nu")
    for _ in range(3):
        lead.turn("lead")
    while nu.said != "waiting for global 1":
        nu.turn("local")
    federation.before = lambda process, what, *, key: asked.append(key)
    for _ in range(30):
        nu.turn("local")
    assert asked
    assert not [key for key in asked if "evaluated" in key]


def test_a_notebook_tells_its_score_within_the_rules_of_egress(make: Make) -> None:
    federation = make(num_passes=1)
    lead, nu = federation.start("rush"), federation.start("nu")
    for _ in range(3):
        lead.turn("lead")
    client = nu.client
    client.check_manifest()
    assert client.pull_global(0) is Status.DOWNLOADED
    with pytest.raises(EgressRefused, match="n_samples is 3"):
        client.push_evaluation(0, {"n_samples": 3, "auroc": 0.7})
    assert client.push_evaluation(0, {"n_samples": 40, "auroc": 0.7}) is Status.UPLOADED
    assert client.push_evaluation(0, {"n_samples": 40, "auroc": 0.9}) is Status.ALREADY_SYNCED
    event = EventDoc.parse(federation.read(of("nu", 0)) or b"", source="event")
    assert (event.n_samples, event.metrics) == (40, {"auroc": 0.7})
