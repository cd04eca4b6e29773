"""Noise at the lead, which died between its model and its seal: the same passes are not told twice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stitch.client.operator import ask_redo
from stitch.errors import PrivacyError
from stitch.store.memory import MemoryStore
from stitch.testing.clocks import FakeClock
from stitch.testing.faulty import Call, Crashed, Fault, FaultyStore, once
from tests.unit.loops.private import LOCAL, SITES, PrivateRun

CENTRAL = replace(LOCAL, mode="central", clip=0.01, noise_multiplier=3.0)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[PrivateRun]:
    """Its lead has died: the model of global 1 is in the store, and its seal is not."""
    died = once("crash_after", verb="push", containing="/global/pass_001/model")
    run = PrivateRun(tmp_path, store=FaultyStore(MemoryStore(), died), privacy=CENTRAL, num_passes=1)
    with pytest.raises(Crashed):
        run.finish(run.loops())
    yield run
    run.close()


def test_a_lead_that_still_has_its_candidate_publishes_that(run: PrivateRun) -> None:
    sent = run.paths("global/pass_001/")
    run.finish(run.loops())
    assert run.paths("global/pass_001/") == ["global/pass_001/metrics.json", *sent]


def test_a_clock_that_was_put_back_meanwhile_lets_nobody_draw_again(tmp_path: Path) -> None:
    """The sum bears an earlier hour than the verdict that it came of."""
    clock = FakeClock()

    def plan(call: Call) -> Fault | None:
        if call.verb != "push" or "/global/pass_001/model" not in call.key:
            return None
        clock.jump(-3600)
        return "crash_after"

    store = FaultyStore(MemoryStore(clock=clock), plan)
    run = PrivateRun(tmp_path, store=store, privacy=CENTRAL, num_passes=1)
    with pytest.raises(Crashed):
        run.finish(run.loops())
    run.close()
    shutil.rmtree(tmp_path / "rush" / "stitch_store")
    with pytest.raises(PrivacyError, match="a second time"):
        run.finish(run.loops())
    assert len(run.paths("global/pass_001/")) == 1
    run.close()


def test_a_lead_that_lost_it_draws_no_noise_over_passes_that_were_told(run: PrivateRun) -> None:
    sent = run.paths("global/pass_001/")
    assert len(sent) == 1
    run.close()
    shutil.rmtree(run.folder / "rush" / "stitch_store")
    loops = run.loops()
    with pytest.raises(PrivacyError, match="the same passes of nu, rush, uchicago a second time") as it:
        run.finish(loops)
    assert it.value.exit_code == 37
    assert run.paths("global/pass_001/") == sent
    for site in SITES:
        ask_redo(run.clients["rush"], site)
    run.finish(run.loops())
    assert len(run.paths("global/pass_001/")) == 3, "over new passes it may"
    for site in SITES:
        first, again = run.releases(site)
        assert first.release_sha256 == again.release_sha256, "the same training, and no noise of its own"
        assert (first.attempt, again.attempt > 0) == (0, True), "yet told twice, and charged twice"
