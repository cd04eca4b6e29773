"""Somebody deletes folders: what the store holds is enough to go on, and `runs/` is never needed."""

from __future__ import annotations

import shutil

import pytest

from stitch.layout import PassRef
from tests.e2e.breaking import Break
from tests.e2e.conftest import Build, Undisturbed
from tests.e2e.ending import check_ending
from tests.e2e.federation import Federation


@pytest.mark.parametrize(
    ("spot", "trained"),
    [
        pytest.param(Break("push", "sites/nu/pass_001/model", "after"), 2, id="model-is-up"),
        pytest.param(Break("push", "sites/nu/pass_001/metrics", "after"), 1, id="seal-is-up"),
        pytest.param(Break("push", "sites/nu/pass_002/metrics", "after"), 1, id="in-pass-2"),
    ],
)
def test_a_site_whose_mirror_was_wiped_goes_on_from_its_lane(
    fed: Federation, undisturbed: Undisturbed, spot: Break, trained: int
) -> None:
    """What is sealed in the store is not trained again; the lane is free three beats after the death."""
    lead = fed.start("rush")
    fed.start("nu", spot).is_killed()
    shutil.rmtree(fed.home("nu") / "stitch_store")
    fed.finish(lead)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.calls("nu").count("train 1") == trained
    assert fed.calls("nu").count("train 2") == 1


@pytest.mark.parametrize(
    "spot",
    [
        pytest.param(Break("push", "global/rounds/pass_001", "after"), id="verdict"),
        pytest.param(Break("push", "global/pass_001/model", "after"), id="global-1-half-up"),
        pytest.param(Break("push", "global/pass_001/metrics", "after"), id="global-1-up"),
        pytest.param(Break("push", "global/DONE"), id="before-the-end-marker"),
    ],
)
def test_a_lead_whose_mirror_was_wiped_goes_on_from_the_store(
    fed: Federation, undisturbed: Undisturbed, spot: Break
) -> None:
    site = fed.start("nu")
    fed.start("rush", spot).is_killed()
    shutil.rmtree(fed.home("rush") / "stitch_store")
    fed.finish(site)
    check_ending(fed, wanted=undisturbed(fed))


def test_runs_is_for_people_alone(fed: Federation, undisturbed: Undisturbed) -> None:
    """Deleted at both sites in the middle of pass 1, and again of pass 2."""
    for number in (1, 2):
        fed.order("nu", f"train-{number}-half", "kill")
        lead = fed.start("rush")
        fed.start("nu").is_killed()
        lead.kill()
        for site in fed.sites:
            shutil.rmtree(fed.home(site) / "runs")
    fed.finish()
    check_ending(fed, wanted=undisturbed(fed))


def test_a_finished_run_can_be_fetched_again(federation: Build, undisturbed: Undisturbed) -> None:
    """Mirror and `runs/` wiped after the end: `run` brings the final global back, and trains nothing."""
    fed = federation(num_passes=1)
    fed.finish()
    for site in fed.sites:
        shutil.rmtree(fed.home(site) / "stitch_store")
        shutil.rmtree(fed.home(site) / "runs")
    before = fed.paths()
    fed.finish()
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.paths() == before
    assert fed.calls("nu") == ["train 1"]
    assert (fed.mirror("nu") / PassRef(1).seal).exists()
