"""Rounds that close over what has come, fresh or stale: nobody waits for the slowest."""

from __future__ import annotations

import shutil

import pytest

from stitch.client.operator import change_roster
from stitch.config.settings import Egress
from stitch.errors import ConfigError
from stitch.layout import PassRef
from stitch.rounds import Turn
from stitch.testing.federation import Federation
from stitch.testing.processes import Process
from tests.unit.loops.buffered import SLOW, WINDOW_S, WhileTraining, input_of, pass_time_of, policy, until
from tests.unit.loops.conftest import Begin
from tests.unit.loops.elastic import inputs, pass_time, published, record_of, start
from tests.unit.loops.proof import prove


@pytest.fixture
def federation(begin: Begin) -> Federation:
    federation = begin(num_passes=6)
    federation.changes["policy"] = policy()
    return federation


def test_it_closes_over_two_of_three_and_the_slow_sites_pass_counts_later_with_its_weight(
    federation: Federation,
) -> None:
    WhileTraining(federation, SLOW, number=1, do=lambda: until(federation, 2))
    start(federation, *federation.sites)
    federation.run()
    assert [inputs(record_of(federation, number)) for number in (1, 2)] == [["nu", "rush"]] * 2
    used = [one for number in range(1, 7) if (one := input_of(federation, number, SLOW)) is not None]
    assert (used[0].pass_id, used[0].staleness) == (1, 2)
    assert used[0].weight == pytest.approx(3**-0.5)
    assert record_of(federation, 3).inputs[-1] == used[0]
    assert len({one.metrics_sha256 for one in used}) == len(used), "each at most once"
    fresh = input_of(federation, 3, "nu")
    assert fresh is not None
    assert (fresh.staleness, fresh.weight) == (0, 1.0)
    assert prove(federation).complete


def test_the_model_moves_by_each_delta_from_its_own_base(federation: Federation) -> None:
    WhileTraining(federation, SLOW, number=1, do=lambda: until(federation, 2))
    start(federation, *federation.sites)
    federation.run()
    values = [0.0]
    for number in range(1, 7):
        moved = samples = 0.0
        for one in record_of(federation, number).inputs:
            base = values[one.pass_id - 1]
            assert one.weight is not None
            moved += one.n_samples * one.weight * ((base + federation.hooks.step(one.site)) - base)
            samples += one.n_samples
        values.append(values[-1] + moved / samples)
    assert federation.value() == pytest.approx(values[-1], rel=1e-12)


def test_a_pass_that_is_too_stale_is_excluded_by_name_and_recorded_and_its_site_goes_on(
    federation: Federation,
) -> None:
    WhileTraining(federation, SLOW, number=1, do=lambda: until(federation, 3))
    start(federation, *federation.sites)
    federation.run()
    [why] = [one.reason for one in record_of(federation, 4).excluded]
    assert why == "its pass 1 is 3 behind; at most 2 is allowed"
    late = [one for number in range(1, 7) for one in record_of(federation, number).late]
    assert [(one.site, one.pass_id) for one in late] == [(SLOW, 1)], "once"
    used = [one.pass_id for number in range(1, 7) if (one := input_of(federation, number, SLOW))]
    assert used
    assert min(used) >= 4
    assert prove(federation).complete


def test_of_two_unused_passes_the_newer_supersedes_the_older_which_is_recorded(
    federation: Federation,
) -> None:
    """The lead is away while a site, held back until then, brings two."""
    federation.changes["policy"] = policy(buffer_size=3)
    lead, nu = federation.start("rush"), federation.start("nu")
    slow = federation.start(SLOW)

    def rounds(*who: Process, turns: int = 8) -> list[Turn | None]:
        return [turn for _ in range(turns) for one in who for turn in one.turns()]

    WhileTraining(federation, SLOW, number=1, do=lambda: pass_time_of(federation, lead, nu))
    rounds(lead, nu, slow, turns=1)
    assert federation.seal(PassRef(1)) is not None
    assert federation.seal(PassRef(1, SLOW)) is not None
    lead.kill()
    rounds(slow)
    assert federation.seal(PassRef(2, SLOW)) is not None
    federation.start("rush")
    federation.run()
    used = input_of(federation, 2, SLOW)
    assert used is not None
    assert used.pass_id == 2
    assert [(one.site, one.pass_id) for one in record_of(federation, 2).late] == [(SLOW, 1)]
    assert prove(federation).complete


def test_below_the_buffer_a_round_closes_when_the_window_ends(federation: Federation) -> None:
    start(federation, "rush")
    assert federation.seal(PassRef(1)) is None
    assert published(federation).deadline is not None
    pass_time(federation, WINDOW_S - 120)
    assert federation.seal(PassRef(1)) is None
    pass_time(federation, 240)
    assert inputs(record_of(federation, 1)) == ["rush"]
    assert federation.seal(PassRef(2)) is None, "the next window has begun"


def test_a_buffer_larger_than_the_federation_closes_when_everybody_has_a_pass(
    federation: Federation,
) -> None:
    federation.changes["policy"] = policy(buffer_size=50)
    start(federation, *federation.sites)
    federation.run()
    for number in range(1, 7):
        assert inputs(record_of(federation, number)) == ["nu", "rush", "uchicago"]


def test_a_site_that_has_submitted_waits_for_a_newer_global_and_then_takes_the_newest(
    federation: Federation,
) -> None:
    start(federation, "rush")
    pass_time(federation, WINDOW_S - 300)
    assert [one.pass_id for one in federation.deliveries if one.hook == "train"] == [0, 1]
    WhileTraining(federation, SLOW, number=1, do=lambda: until(federation, 3))
    federation.start("nu")
    start(federation, SLOW)
    federation.run()
    own = [one.pass_id for one in federation.deliveries if one.process.startswith(SLOW)]
    assert own[0] == 1
    assert own[1] >= 4, "it skips numbers"


def test_a_pass_sealed_here_before_a_crash_is_published_as_long_as_a_round_can_use_it(
    federation: Federation,
) -> None:
    """Law 3."""

    def before(process: Process, what: str, *, key: str) -> None:
        if process.site == SLOW and what == "push" and "/pass_001/" in key:
            process.kill()

    federation.before = before
    start(federation, "rush")
    slow = federation.start(SLOW)
    slow.turns()
    assert not slow.alive
    assert PassRef(1, SLOW) in slow.mirror.passes(f"sites/{SLOW}")
    federation.start("nu")
    until(federation, 2)
    federation.before = lambda process, what, *, key: None
    federation.start(SLOW).turns()
    federation.run()
    used = input_of(federation, 3, SLOW)
    assert used is not None
    assert (used.pass_id, used.staleness) == (1, 2)


def test_a_pass_sealed_here_that_no_round_can_use_is_set_aside_unsent(federation: Federation) -> None:
    def before(process: Process, what: str, *, key: str) -> None:
        if process.site == SLOW and what == "push" and "/pass_001/" in key:
            process.kill()

    federation.before = before
    start(federation, "rush")
    federation.start(SLOW).turns()
    federation.start("nu")
    until(federation, 4)
    federation.before = lambda process, what, *, key: None
    again = federation.start(SLOW)
    federation.run()
    assert federation.seal(PassRef(1, SLOW)) is None
    assert PassRef(1, SLOW) not in again.mirror.passes(f"sites/{SLOW}")


def test_a_pass_that_is_reviewed_late_still_counts(federation: Federation) -> None:
    federation.changes["egress"] = Egress(outbox="review", min_n=10)
    slow = federation.start(SLOW)
    federation.changes.pop("egress")
    start(federation, "rush")
    assert slow.said.startswith("pass 1 is held")
    federation.start("nu")
    until(federation, 2)
    held = slow.mirror.sealed(PassRef(1, SLOW))
    assert held is not None
    slow.client.outbox.mark_shown(held)
    slow.client.outbox.approve(held)
    slow.turns()
    assert federation.seal(PassRef(1, SLOW)) is not None
    until(federation, 3)
    used = input_of(federation, 3, SLOW)
    assert used is not None
    assert used.staleness == 2


def test_a_paused_sites_pass_is_not_used_until_it_is_resumed_and_a_newcomer_joins_the_next_round(
    federation: Federation,
) -> None:
    federation.changes["policy"] = policy(buffer_size=3)
    start(federation, "rush", "nu")
    lead = federation.alive("rush")[0]
    change_roster(lead.client, "drop", site=SLOW)
    change_roster(lead.client, "pause", site="nu")
    until(federation, 1)
    assert inputs(record_of(federation, 1)) == ["rush"], "everybody who is expected has a pass"
    change_roster(lead.client, "resume", site="nu")
    change_roster(lead.client, "add", site=SLOW)
    start(federation, SLOW)
    federation.run()
    named = {one.site for number in range(2, 7) for one in record_of(federation, number).inputs}
    assert named == {"rush", "nu", SLOW}
    assert prove(federation).complete


def test_a_mirror_that_is_lost_costs_no_second_use_of_a_pass(federation: Federation) -> None:
    lead, _, slow = (federation.start(site) for site in federation.sites)
    WhileTraining(federation, SLOW, number=1, do=lambda: until(federation, 2))
    lead.turns()
    slow.turns()
    until(federation, 3)
    assert input_of(federation, 3, SLOW) is not None
    lead.kill()
    shutil.rmtree(lead.mirror.root)
    federation.start("rush")
    federation.run()
    used = [one.pass_id for number in range(1, 7) if (one := input_of(federation, number, SLOW))]
    assert len(set(used)) == len(used)
    assert prove(federation).complete


def test_the_verbs_of_whole_rounds_are_refused(federation: Federation) -> None:
    start(federation, "rush")
    client = federation.alive("rush")[0].client
    for verb in (lambda: client.pull_sites(1), lambda: client.push_global_model(1, {})):
        with pytest.raises(ConfigError, match="buffered"):
            verb()
