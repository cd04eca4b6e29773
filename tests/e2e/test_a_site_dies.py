"""A site is killed at every point of its pass; started again, the run comes to the same model."""

from __future__ import annotations

import pytest

from stitch.layout import PassRef
from tests.e2e.breaking import Break
from tests.e2e.conftest import Undisturbed, one_store
from tests.e2e.ending import check_ending
from tests.e2e.federation import Federation, lives

PASS_1 = "sites/nu/pass_001"


def test_nothing_happens(fed: Federation, undisturbed: Undisturbed) -> None:
    """The ground for all others: on either store the same bytes."""
    fed.finish()
    check_ending(fed, wanted=undisturbed(fed))


@one_store
@pytest.mark.parametrize("point", ["begin", "half", "written"])
def test_a_site_that_dies_while_it_trains_trains_that_pass_again(
    fed: Federation, undisturbed: Undisturbed, point: str
) -> None:
    """Scenarios 1 and 2: before, in the middle of, and after the model is written; never sealed."""
    fed.order("nu", f"train-1-{point}", "kill")
    lead = fed.start("rush")
    fed.start("nu").is_killed()
    hook = int((fed.home("nu") / "data" / "hook.pid").read_text(encoding="utf-8"))
    fed.wait_until(lambda: not lives(hook), "the hook dies with its actor")
    assert fed.paths("sites/nu/pass_") == []
    fed.finish(lead)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.calls("nu") == ["train 1", "train 1", "train 2"]
    assert fed.seal(1, "nu")["attempt"] == 2
    steps = fed.mirror("nu") / "sites" / "nu" / "pass_002" / "state" / "steps.txt"
    assert steps.read_text(encoding="utf-8") == "2"  # the killed training's state was never committed


@one_store
def test_a_model_that_was_not_sealed_is_trained_again(fed: Federation, undisturbed: Undisturbed) -> None:
    """Whole, with its seal beside it, but not yet renamed into the mirror: not sealed."""
    lead = fed.start("rush")
    fed.start("nu", Break("land", f"{PASS_1}$")).is_killed()
    fed.finish(lead)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.calls("nu") == ["train 1", "train 1", "train 2"]


@pytest.mark.parametrize(
    ("spot", "there"),
    [
        pytest.param(Break("land", f"{PASS_1}$", "after"), [], id="3-sealed-here"),
        pytest.param(Break("push", f"{PASS_1}/model"), [], id="3-before-the-push"),
        pytest.param(Break("push", f"{PASS_1}/model", "after"), ["model"], id="4-model-is-up"),
        pytest.param(Break("push", f"{PASS_1}/metrics", "after"), ["metrics", "model"], id="5-seal-is-up"),
        pytest.param(
            Break("push", "nu/events/pass_001.completed", "after"), ["metrics", "model"], id="6-reported"
        ),
    ],
)
def test_a_sealed_pass_is_pushed_as_it_is_and_never_trained_again(
    fed: Federation, undisturbed: Undisturbed, spot: Break, there: list[str]
) -> None:
    lead = fed.start("rush")
    fed.start("nu", spot).is_killed()
    assert [key.removeprefix(f"{PASS_1}/").partition(".")[0] for key in fed.paths(f"{PASS_1}/")] == there
    sealed = (fed.mirror("nu") / PassRef(1, "nu").seal).read_bytes()
    fed.finish(lead)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.calls("nu") == ["train 1", "train 2"]
    assert fed.read(PassRef(1, "nu").seal) == sealed


def test_a_download_that_was_cut_is_made_again(fed: Federation, undisturbed: Undisturbed) -> None:
    """Killed with the global's model on disk and not yet in the mirror."""
    lead = fed.start("rush")
    fed.start("nu", Break("pull", "global/pass_000/model", "after")).is_killed()
    assert not (fed.mirror("nu") / PassRef(0).seal).exists()
    fed.finish(lead)
    check_ending(fed, wanted=undisturbed(fed))


def test_a_site_that_is_killed_while_it_polls_goes_on_where_it_was(
    fed: Federation, undisturbed: Undisturbed
) -> None:
    """Scenario 6: pass 1 is reported, global 1 is not there yet."""
    gate = fed.gate("rush", "train-1-begin")
    lead = fed.start("rush")
    site = fed.start("nu")
    fed.hears("nu", "waiting for global 1")
    site.kill()
    before = fed.paths("sites/nu/pass_")
    site = fed.start("nu")
    fed.wait_until(lambda: fed.run_log("nu").count("waiting for global 1") == 2, "the site polls again")
    assert fed.paths("sites/nu/pass_") == before
    gate.touch()
    fed.finish(lead, site)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.calls("nu") == ["train 1", "train 2"]
