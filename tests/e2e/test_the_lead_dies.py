"""The lead is killed at every point of a round; started again, the run comes to the same model."""

from __future__ import annotations

import re

import pytest

from stitch import layout
from stitch.layout import PassRef
from tests.e2e.breaking import Break
from tests.e2e.conftest import Build, Undisturbed, one_store
from tests.e2e.ending import check_ending
from tests.e2e.federation import Federation

GLOBAL_1 = "global/pass_001"
ONCE = ["aggregate 1", "aggregate 2"]


def aggregations(fed: Federation) -> list[str]:
    return [call for call in fed.calls("rush") if call.startswith("aggregate")]


@pytest.mark.parametrize(
    ("order", "spot"),
    [
        pytest.param("train-0-half", None, id="while-it-trains-pass-0"),
        pytest.param("train-1-half", None, id="while-it-trains-its-own-pass"),
        pytest.param("", Break("land", "global/pass_000$", "after"), id="global-0-sealed-here"),
        pytest.param("", Break("push", "global/pass_000/model", "after"), id="global-0-half-up"),
        pytest.param("", Break("push", "global/pass_000/metrics", "after"), id="global-0-up"),
    ],
)
def test_a_lead_that_dies_at_the_beginning_begins_again(
    fed: Federation, undisturbed: Undisturbed, order: str, spot: Break | None
) -> None:
    if order:
        fed.order("rush", order, "kill")
    site = fed.start("nu")
    fed.start("rush", *([spot] if spot else [])).is_killed()
    fed.finish(site)
    check_ending(fed, wanted=undisturbed(fed))
    trained = [call for call in fed.calls("rush") if call.startswith("train")]
    again = [order[:7].replace("-", " ")] if order else []
    assert sorted(trained) == sorted(["train 0", "train 1", "train 2", *again])


@one_store
@pytest.mark.parametrize("point", ["begin", "half", "written"])
def test_a_lead_that_dies_while_it_aggregates_aggregates_the_same_inputs(
    fed: Federation, undisturbed: Undisturbed, point: str
) -> None:
    """Scenario 25: the verdict was written before, and holds."""
    fed.order("rush", f"aggregate-1-{point}", "kill")
    site = fed.start("nu")
    fed.start("rush").is_killed()
    verdict = fed.read(layout.verdict(1, 0))
    assert not fed.paths(f"{GLOBAL_1}/")
    fed.finish(site)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.read(layout.verdict(1, 0)) == verdict
    assert aggregations(fed) == ["aggregate 1", *ONCE]


@pytest.mark.parametrize(
    ("spot", "there"),
    [
        pytest.param(Break("land", f"{GLOBAL_1}$", "after"), [], id="sealed-here"),
        pytest.param(Break("push", f"{GLOBAL_1}/model", "after"), ["model"], id="27-model-is-up"),
        pytest.param(
            Break("push", f"{GLOBAL_1}/outer", "after"), ["model", "outer_state"], id="27-its-state-is-up"
        ),
        pytest.param(
            Break("push", f"{GLOBAL_1}/metrics", "after"),
            ["metrics", "model", "outer_state"],
            id="28-seal-is-up",
        ),
    ],
)
def test_a_sealed_global_is_published_as_it_is_and_never_aggregated_again(
    fed: Federation, undisturbed: Undisturbed, spot: Break, there: list[str]
) -> None:
    """Scenarios 27, 28: what the aggregation remembers is restored too, or the last model would differ."""
    site = fed.start("nu")
    fed.start("rush", spot).is_killed()
    assert [key.removeprefix(f"{GLOBAL_1}/").partition(".")[0] for key in fed.paths(f"{GLOBAL_1}/")] == there
    assert fed.json(layout.orchestration())["current_pass"] == 1
    sealed = (fed.mirror("rush") / PassRef(1).seal).read_bytes()
    fed.finish(site)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.read(PassRef(1).seal) == sealed
    assert aggregations(fed) == ONCE


def test_a_verdict_without_an_aggregation_is_made_good(fed: Federation, undisturbed: Undisturbed) -> None:
    site = fed.start("nu")
    fed.start("rush", Break("push", "global/rounds/pass_001", "after")).is_killed()
    verdict = fed.read(layout.verdict(1, 0))
    fed.finish(site)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.read(layout.verdict(1, 0)) == verdict
    assert aggregations(fed) == ONCE


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_early_stop_is_read_back_from_the_seal(
    federation: Build, undisturbed: Undisturbed, when: str
) -> None:
    """Scenario 29: `should_stop` at pass 1 of 3, killed around the end marker."""
    fed = federation(num_passes=3, stop_at=1)
    site = fed.start("nu")
    fed.start("rush", Break("push", "global/DONE", "before" if when == "before" else "after")).is_killed()
    assert fed.has(layout.done()) == (when == "after")
    fed.finish(site)
    check_ending(fed, wanted=undisturbed(fed), last=1)
    done = fed.json(layout.done())
    assert (done["final_pass"], done["reason"]) == (1, "early_stopped")
    assert aggregations(fed) == ["aggregate 1"]
    assert "train 2" not in fed.calls("rush") + fed.calls("nu")


def test_a_site_needs_no_end_marker_to_know_the_final_global(
    fed: Federation, undisturbed: Undisturbed
) -> None:
    """It polls between the final seal and DONE: it ends well, and trains no pass 3, however often it runs."""
    site = fed.start("nu")
    fed.start("rush", Break("push", "global/DONE")).is_killed()
    site.ends(0)
    assert not fed.has(layout.done())
    fed.start("nu").ends(0)
    assert fed.calls("nu") == ["train 1", "train 2"]
    fed.finish()
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.calls("nu") == ["train 1", "train 2"]


def test_the_lead_waits_for_a_dead_site_and_says_so(federation: Build, undisturbed: Undisturbed) -> None:
    """Scenario 21: no deadline, no decision by absence; `stalled` after three beats, the others done."""
    fed = federation(sites=("rush", "nu", "uc"))
    fed.order("nu", "train-1-half", "kill")
    running = [fed.start("rush"), fed.start("uc")]
    fed.start("nu").is_killed()
    for site, word in (("uc", "completed"), ("nu", "stalled")):
        fed.wait_for_site_status(site, word)
    assert all(actor.process.is_running() for actor in running)
    assert fed.paths("global/rounds/") == []
    fed.finish(*running)
    check_ending(fed, wanted=undisturbed(fed))


def test_everybody_is_killed_after_every_single_thing_they_publish(
    federation: Build, undisturbed: Undisturbed
) -> None:
    """Each process publishes one thing and dies; heartbeats, leases and orchestration are no progress."""
    fed = federation(num_passes=1)
    spot = Break("push", r"^crash-1/(?!.*(?:lease/|heartbeat|orchestration|started))", "after")
    living = {site: fed.start(site, spot) for site in fed.sites}
    while living:
        fed.wait_until(
            lambda: any(one.process.poll() is not None for one in living.values()), "somebody ends"
        )
        for site, actor in list(living.items()):
            if actor.process.poll() is None:
                continue
            if actor.code() == 0:
                del living[site]
                continue
            actor.is_killed()
            living[site] = fed.start(site, spot)
    check_ending(fed, wanted=undisturbed(fed))
    published = [key for key in fed.paths() if not re.search("lease|heartbeat|orchestration|started", key)]
    assert len(fed.actors) >= len(published)
