"""Two processes for one site, on one machine and on two, and a machine that wakes after its lane is gone."""

from __future__ import annotations

import signal

import pytest

from stitch.errors import LaneLost
from tests.e2e.breaking import Break
from tests.e2e.conftest import Undisturbed
from tests.e2e.ending import check_ending
from tests.e2e.federation import Federation

LOST = LaneLost.exit_code


def test_a_second_process_on_the_machine_waits_for_the_first(
    fed: Federation, undisturbed: Undisturbed
) -> None:
    gate = fed.gate("nu", "train-1-begin")
    lead = fed.start("rush")
    first = fed.start("nu")
    fed.wait_until(lambda: fed.calls("nu"), "the first trains")
    second = fed.start("nu")
    fed.hears("nu", "another process on this machine works for sites/nu")
    assert fed.calls("nu") == ["train 1"]
    first.kill()
    fed.wait_until(lambda: len(fed.calls("nu")) == 2, "the second trains")
    gate.touch()
    fed.finish(lead, second)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.calls("nu") == ["train 1", "train 1", "train 2"]


def test_a_second_machine_waits_for_the_first_and_follows_it(
    fed: Federation, undisturbed: Undisturbed
) -> None:
    """Three beats after the last one the lane is free; the site's files are in two mirrors then."""
    fed.make_project("nu", machine=1)
    fed.gate("nu", "train-1-begin")
    lead = fed.start("rush")
    first = fed.start("nu")
    fed.wait_until(lambda: fed.calls("nu"), "the first trains")
    second = fed.start("nu", machine=1)
    fed.hears("nu", "this-machine holds sites/nu, last beat", machine=1)
    assert fed.calls("nu", machine=1) == []
    first.kill()
    fed.finish(lead, second)
    assert fed.calls("nu", machine=1) == ["train 1", "train 2"]
    assert fed.start("nu").code() == 0  # the first machine finds the run finished, and fetches the result
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.calls("nu") == ["train 1"]


def test_whoever_takes_over_gets_the_lane_and_the_other_leaves(
    fed: Federation, undisturbed: Undisturbed
) -> None:
    """`--take-over` on another machine: the first ends its hook and exits with 43."""
    fed.make_project("nu", machine=1)
    fed.gate("nu", "train-1-begin")
    lead = fed.start("rush")
    first = fed.start("nu")
    fed.wait_until(lambda: fed.calls("nu"), "the first trains")
    second = fed.start("nu", machine=1, options=["--take-over"])
    first.ends(LOST)
    assert "took over sites/nu" in first.said
    fed.finish(lead, second)
    assert fed.start("nu").code() == 0
    check_ending(fed, wanted=undisturbed(fed))


@pytest.mark.parametrize("what", ["model", "metrics"])
def test_a_site_that_wakes_after_its_lane_was_taken_leaves(
    fed: Federation, undisturbed: Undisturbed, what: str
) -> None:
    """Asleep right before its model, or its seal, goes up; another machine does its pass meanwhile."""
    fed.make_project("nu", machine=1)
    gate = fed.gate("nu", "train-2-begin", machine=1)
    lead = fed.start("rush")
    sleeper = fed.start("nu", Break("push", f"sites/nu/pass_001/{what}", do="freeze"))
    sleeper.is_frozen()
    other = fed.start("nu", machine=1)
    fed.wait_for_seal(1, "nu")
    sealed = fed.read("sites/nu/pass_001/metrics.json")
    fed.wait_until(lambda: "train 2" in fed.calls("nu", machine=1), "the other machine is in pass 2")
    sleeper.process.send_signal(signal.SIGCONT)
    sleeper.ends(LOST)
    assert fed.read("sites/nu/pass_001/metrics.json") == sealed
    gate.touch()
    fed.finish(lead, other)
    assert fed.start("nu").code() == 0
    check_ending(fed, wanted=undisturbed(fed), untidy="nu")


@pytest.mark.parametrize("what", ["pass_001/metrics", "rounds/pass_001"])
def test_a_lead_that_wakes_after_its_lane_was_taken_leaves(
    fed: Federation, undisturbed: Undisturbed, what: str
) -> None:
    """Two leads for a while: one verdict, one global 1, and the second of each is never written."""
    fed.make_project("rush", machine=1)
    gate = fed.gate("rush", "aggregate-2-begin", machine=1)
    site = fed.start("nu")
    sleeper = fed.start("rush", Break("push", f"global/{what}", do="freeze"))
    sleeper.is_frozen()
    other = fed.start("rush", machine=1)
    fed.wait_for_seal(1)
    sealed = fed.read("global/pass_001/metrics.json")
    fed.wait_until(lambda: "aggregate 2" in fed.calls("rush", machine=1), "the other machine is in round 2")
    sleeper.process.send_signal(signal.SIGCONT)
    sleeper.ends(LOST)
    assert fed.read("global/pass_001/metrics.json") == sealed
    gate.touch()
    fed.finish(site, other)
    assert fed.start("rush").code() == 0
    check_ending(fed, wanted=undisturbed(fed))


def test_a_machine_that_slept_alone_goes_on(fed: Federation, undisturbed: Undisturbed) -> None:
    """Nobody took the lane meanwhile: it claims the next term and goes on with the same pass."""
    lead = fed.start("rush")
    sleeper = fed.start("nu", Break("push", "sites/nu/pass_001/model", do="freeze"))
    sleeper.is_frozen()
    fed.wait_for_site_status("nu", "stalled")
    sleeper.process.send_signal(signal.SIGCONT)
    fed.finish(lead, sleeper)
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.has("sites/nu/lease/term-0002.json")
    assert fed.calls("nu") == ["train 1", "train 2"]
