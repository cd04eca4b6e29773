"""What a site or the lead meets that is not its own death: bad bytes, a dead line, a hook that raises."""

from __future__ import annotations

import json

import pytest

from stitch import layout
from stitch.layout import PassRef
from tests.e2e.breaking import Break
from tests.e2e.conftest import Build, Undisturbed, one_store
from tests.e2e.ending import check_ending
from tests.e2e.federation import Federation

SEAL = PassRef(1, "nu").seal


def global_0(fed: Federation) -> str:
    return next(path for path in fed.paths("global/pass_000/model"))


def test_a_tampered_global_is_never_trained_from(federation: Build, undisturbed: Undisturbed) -> None:
    """Scenario 9: one bit of the stored model is another; after `give_up_after` the site says so and ends."""
    fed = federation(more='give_up_after = "1s"')
    gate = fed.gate("rush", "train-1-begin")
    lead = fed.start("rush")
    fed.wait_for_seal(0)
    honest = fed.read(global_0(fed))
    fed.write(global_0(fed), bytes([honest[0] ^ 1]) + honest[1:])
    site = fed.start("nu")
    site.ends(33)
    assert "does not match its seal" in site.said
    assert fed.calls("nu") == []
    assert not (fed.mirror("nu") / PassRef(0).folder).exists()
    assert not [path for path in fed.paths("sites/nu/") if "pass_001" in path]
    fed.write(global_0(fed), honest)
    gate.touch()
    fed.finish(lead)
    check_ending(fed, wanted=undisturbed(fed))


def test_a_global_that_is_not_whole_is_waited_for(fed: Federation, undisturbed: Undisturbed) -> None:
    """Half of the bytes its seal names: a folder that still copies. The same process goes on by itself."""
    gate = fed.gate("rush", "train-1-begin")
    lead = fed.start("rush")
    fed.wait_for_seal(0)
    honest = fed.read(global_0(fed))
    fed.write(global_0(fed), honest[: len(honest) // 2])
    site = fed.start("nu")
    fed.hears("nu", "global 0 is not whole in the store yet")
    assert fed.calls("nu") == []
    fed.write(global_0(fed), honest)
    gate.touch()
    fed.finish(lead, site)
    check_ending(fed, wanted=undisturbed(fed))


@one_store
def test_a_hook_that_raises_ends_the_actor_and_is_run_again(
    fed: Federation, undisturbed: Undisturbed
) -> None:
    """Scenario 17: a coded `failed` event, nothing released, nothing of the hook's message in the store."""
    fed.order("nu", "train-1-half", "raise patient 4711 has no age")
    lead = fed.start("rush")
    fed.start("nu").ends(11)
    assert fed.paths("sites/nu/pass_") == []
    failed = fed.json("sites/nu/events/pass_001.failed.json")
    assert (failed["hook"], failed["exception"], failed["attempt"]) == ("train", "RuntimeError", 1)
    assert str(failed["where"]).startswith("hooks.py:")
    assert not [path for path in fed.paths() if b"4711" in fed.read(path)]
    error = json.loads((fed.home("nu") / "runs/crash-1/last_error.json").read_text(encoding="utf-8"))
    assert (error["pass"], error["hook"]) == (1, "train")
    assert "4711" in error["traceback"]
    fed.wait_for_site_status("nu", "failed")
    fed.finish(lead)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.seal(1, "nu")["attempt"] == 2
    assert fed.has("sites/nu/events/pass_001.completed.2.json")


@one_store
def test_an_aggregate_hook_that_raises_is_run_again_over_the_same_inputs(
    fed: Federation, undisturbed: Undisturbed
) -> None:
    fed.order("rush", "aggregate-1-written", "raise not today")
    site = fed.start("nu")
    fed.start("rush").ends(11)
    verdict = fed.read(layout.verdict(1, 0))
    fed.finish(site)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.read(layout.verdict(1, 0)) == verdict


@pytest.mark.parametrize("what", ["model", "metrics"])
def test_a_push_that_fails_until_patience_ends_is_made_good_by_the_next_run(
    federation: Build, undisturbed: Undisturbed, what: str
) -> None:
    """Scenario 18: six tries fail; the pass stays sealed here, and is sent, not trained again."""
    fed = federation(more="give_up_after = 0")
    lead = fed.start("rush")
    fed.start("nu", Break("push", f"sites/nu/pass_001/{what}", do="refuse")).ends(21)
    assert not fed.has(SEAL)
    assert (fed.mirror("nu") / SEAL).exists()
    fed.finish(lead)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.calls("nu") == ["train 1", "train 2"]


def test_a_line_that_comes_back_needs_nobody(fed: Federation, undisturbed: Undisturbed) -> None:
    """Within `give_up_after` the same process goes on: here after six failed tries."""
    lead = fed.start("rush")
    site = fed.start("nu", Break("push", "sites/nu/pass_001/model", do="refuse", times=6))
    fed.hears("nu", "Trying again")
    fed.finish(lead, site)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.calls("nu") == ["train 1", "train 2"]


@one_store
@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"{", b"", id="no-json"),
        pytest.param(b"stitch.metrics/1", b"stitch.metrics/9", id="of-the-future"),
        pytest.param(b'"n_samples":', b'"samples":', id="lacks-a-field"),
    ],
)
def test_a_seal_that_cannot_be_believed_changes_nothing(
    fed: Federation, undisturbed: Undisturbed, old: bytes, new: bytes
) -> None:
    """Scenario 23: it is rejected by name, there is no verdict over it, and the lead waits."""
    gate = fed.gate("rush", "train-1-begin")
    lead = fed.start("rush")
    fed.start("nu", Break("push", "nu/events/pass_001.completed", "after")).is_killed()
    honest = fed.read(SEAL)
    assert old in honest
    fed.write(SEAL, honest.replace(old, new, 1))
    gate.touch()
    fed.hears("rush", "the pass of nu is rejected")
    assert fed.paths("global/rounds/") == []
    assert not fed.has(PassRef(1).seal)
    assert lead.process.is_running()
    fed.write(SEAL, honest)
    fed.finish(lead)
    check_ending(fed, wanted=undisturbed(fed))
