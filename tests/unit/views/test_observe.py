"""The run as a whole: phase, whom the lead waits for, hooks, passes, conflicts, and reading little."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from stitch.layout import PassRef, site_lane
from stitch.store.base import Entry, Progress, Traits
from stitch.store.memory import MemoryStore
from stitch.views.status import RunStatus, Source
from tests.unit.views.tree import SITES, START, FakeClock, Tree, site_of


@pytest.fixture
def tree() -> Tree:
    made = Tree()
    made.begin()
    return made


def passes(status: RunStatus) -> dict[int, tuple[str, ...]]:
    return {item.pass_id: tuple(own.site for own in item.sites) for item in status.passes}


def test_an_empty_store_has_not_begun() -> None:
    status = Tree().observe()
    assert (status.phase, status.current_pass, status.waiting) == ("not begun", 1, None)
    assert [site.state.value for site in status.sites] == ["never seen"] * 3


def test_before_the_first_global_the_run_initializes(tree: Tree) -> None:
    status = tree.observe()
    assert (status.phase, status.num_passes, status.newest_global) == ("initializing", 5, None)
    assert status.waiting is None


def test_the_lead_waits_since_the_store_time_of_the_newest_global(tree: Tree) -> None:
    tree.global_(0)
    tree.clock.advance(60)
    for site in SITES:
        tree.seal(PassRef(1, site))
    tree.global_(1, inputs=SITES)
    tree.seal(PassRef(2, "rush"))
    tree.clock.advance(22)
    status = tree.observe()
    assert status.current_pass == 2
    assert status.waiting is not None
    assert status.waiting.sites == ("nu", "uchicago")
    assert status.waiting.since == START + timedelta(seconds=60)
    assert status.waiting.seconds == 22


def test_only_the_expected_are_waited_for(tree: Tree) -> None:
    tree.global_(0)
    tree.orchestration(
        current_pass=1, status={}, directive={"expected": ["rush", "nu"], "base": 0}, opened_at=START
    )
    status = tree.observe()
    assert status.waiting is not None
    assert status.waiting.sites == ("rush", "nu")
    assert not site_of(status, "uchicago").expected


def test_orchestration_is_a_hint_and_never_the_truth(tree: Tree) -> None:
    """A lead that died after sealing global 1 has not told anybody."""
    tree.global_(0)
    tree.orchestration(current_pass=1, status={}, phase="aggregating")
    tree.global_(1)
    status = tree.observe()
    assert (status.phase, status.current_pass) == ("training", 2)


def test_a_global_without_its_model_is_not_the_newest(tree: Tree) -> None:
    tree.global_(0)
    tree.global_(1, model=False)
    assert tree.observe().newest_global == 0


def test_a_closed_verdict_of_the_open_round_means_aggregating(tree: Tree) -> None:
    tree.global_(0)
    tree.verdict(1, 0)
    assert tree.observe().phase == "aggregating"


def test_an_attempt_that_was_given_up_means_training_again(tree: Tree) -> None:
    tree.global_(0)
    tree.verdict(1, 0, redo=())
    assert tree.observe().phase == "training"
    tree.verdict(1, 1)
    assert tree.observe().phase == "aggregating"
    tree.put("global/rounds/pass_001.a1.aborted.json", b"{}")
    assert tree.observe().phase == "training"


def test_a_deadline_is_shown_of_the_attempt_it_was_published_for(tree: Tree) -> None:
    tree.begin()
    tree.global_(0)
    until = tree.clock.now()
    tree.orchestration(current_pass=1, status={}, deadline=until)
    waiting = tree.observe().waiting
    assert waiting is not None
    assert (waiting.deadline, waiting.attempt) == (until, 0)
    tree.verdict(1, 0, redo=())
    waiting = tree.observe().waiting
    assert waiting is not None
    assert (waiting.deadline, waiting.attempt) == (None, 1)


def test_a_site_that_was_asked_for_a_new_pass_has_not_completed_with_its_old_one(tree: Tree) -> None:
    tree.begin()
    tree.global_(0)
    for site in ("rush", "nu", "uchicago"):
        tree.seal(PassRef(1, site))
    assert tree.observe().waiting is None
    tree.verdict(1, 0, redo=("nu",))
    waiting = tree.observe().waiting
    assert waiting is not None
    assert waiting.sites == ("nu",)


def test_the_end_marker_names_the_final_model_and_globals_beyond_do_not_count(tree: Tree) -> None:
    tree.global_(0)
    final = tree.global_(1, final=True)
    tree.global_(2)
    tree.done(1, reason="early_stopped")
    status = tree.observe()
    assert status.phase == "complete"
    assert status.finished is not None
    assert (status.finished.final_pass, status.finished.reason) == (1, "early_stopped")
    assert status.finished.model_sha256 == final
    assert (status.current_pass, status.newest_global) == (1, 1)


def test_a_run_that_ended_without_a_global_says_so(tree: Tree) -> None:
    tree.done(None, reason="no samples")
    finished = tree.observe().finished
    assert finished is not None
    assert (finished.final_pass, finished.model_sha256) == (None, None)


def test_hooks_are_compared_with_the_leads_newest_join(tree: Tree) -> None:
    tree.join("rush", hooks="new", number=2)
    tree.join("nu", hooks="new")
    tree.join("uchicago", hooks="old")
    status = tree.observe()
    assert [site.hooks for site in status.sites] == ["same", "same", "different"]


def test_hooks_are_compared_with_the_global_where_the_lead_cannot_be_read(tree: Tree) -> None:
    tree.global_(0)
    tree.join("nu", hooks="old")
    del tree.stores[site_lane("rush")]
    assert site_of(tree.observe(), "nu").hooks == "different"


def test_settings_are_compared_with_the_manifest(tree: Tree) -> None:
    tree.join("nu", config="other")
    tree.join("rush")
    status = tree.observe()
    assert [site.settings for site in status.sites] == ["same", "different", "unknown"]


def test_the_newest_roster_says_who_takes_part(tree: Tree) -> None:
    tree.begin(sites=("rush", "nu"))
    assert [site.site for site in tree.observe().sites] == ["rush", "nu"]


def test_passes_say_what_each_round_used_and_how_stale_it_was(tree: Tree) -> None:
    tree.global_(0)
    tree.seal(PassRef(1, "rush"))
    tree.seal(PassRef(1, "nu"))
    tree.global_(1, inputs=("rush",), round={"excluded": [{"site": "nu", "reason": "n_samples is 0"}]})
    tree.seal(PassRef(1, "uchicago"), base_pass=0)
    status = tree.observe()
    rush, nu, uchicago = status.passes[1].sites
    assert (rush.fate, rush.used_by, rush.staleness) == ("used", 1, 0)
    assert (nu.fate, nu.excluded) == ("excluded", "n_samples is 0")
    assert (uchicago.fate, uchicago.staleness) == ("open", 1)
    assert status.passes[1].global_ is not None
    assert status.passes[1].global_.inputs == ("rush",)


def test_evaluations_of_a_global_stand_under_its_pass(tree: Tree) -> None:
    tree.global_(0)
    tree.event("nu", 0, "evaluated", n_samples=40, metrics={"auroc": 0.71})
    score = tree.observe().passes[0].evaluated[0]
    assert (score.site, score.n_samples, score.metrics) == ("nu", 40, {"auroc": 0.71})


def test_conflict_copies_are_named(tree: Tree) -> None:
    tree.global_(0)
    tree.put("global/pass_000/metrics (conflicted copy 2026-11-29).json", b"{}")
    conflicts = tree.observe().conflicts
    assert [(c.key, c.copy) for c in conflicts] == [
        ("global/pass_000/metrics.json", "global/pass_000/metrics (conflicted copy 2026-11-29).json")
    ]


def test_files_that_the_layout_does_not_name_are_ignored(tree: Tree) -> None:
    tree.global_(0)
    tree.put("global/notes.txt", b"hello")
    tree.put("sites/nu/pass_1/metrics.json", b"x")
    assert tree.observe().problems == ()
    assert passes(tree.observe()) == {0: ()}


def test_hostile_pass_numbers_cost_nothing(tree: Tree) -> None:
    tree.global_(0)
    tree.seal(PassRef(987654321012345678, "nu"))
    assert set(passes(tree.observe())) == {0, 987654321012345678}


def test_on_a_mirror_the_own_lane_is_read_and_the_lead_is_believed_on_others(tree: Tree) -> None:
    tree.global_(0)
    tree.orchestration(current_pass=1, status={"rush": "training", "uchicago": "failed"})
    tree.seal(PassRef(1, "nu"))
    tree.clock.advance(9000)
    status = tree.observe(source=Source("mirror", "stitch_store", "no store URL is set"), own="nu")
    assert [(s.state.value, s.said_by) for s in status.sites] == [
        ("training", "lead"),
        ("completed", "lane"),
        ("failed", "lead"),
    ]
    assert status.store_time is None
    assert passes(status) == {0: (), 1: ("nu",)}


def test_a_mirrors_plain_model_names_count(tree: Tree) -> None:
    tree.global_(0, model=False)
    tree.put("global/pass_000/model.npz", b"global/pass_000")
    assert tree.observe(source=Source("mirror", "here")).newest_global == 0


class Timeless(MemoryStore):
    """A store without a clock of its own, as a synced folder."""

    @property
    def traits(self) -> Traits:
        return replace(super().traits, server_time=False)


def test_without_a_stores_clock_a_beat_ages_only_while_it_is_watched() -> None:
    """No two hosts' clocks are compared (law 6)."""
    tree = Tree()
    tree.store = Timeless(clock=tree.clock)
    tree.stores = dict.fromkeys(tree.stores, tree.store)
    tree.begin()
    tree.global_(0)
    tree.event("nu", 1, "started")
    tree.term(site_lane("nu"))
    tree.beat(site_lane("nu"), state="training")
    tree.clock.advance(90_000)
    observer = tree.observer()
    first = site_of(observer.observe(), "nu")
    assert (first.beat.age_s, first.beat.age_by, first.state.value) == (None, None, "training")
    tree.clock.advance(361)
    second = site_of(observer.observe(), "nu")
    assert (second.beat.age_s, second.beat.age_by, second.state.value) == (361, "watching", "stalled")
    tree.beat(site_lane("nu"), state="training", count=2)
    assert site_of(observer.observe(), "nu").state.value == "training"


class Counting(MemoryStore):
    """Counts what is asked of it."""

    def __init__(self, *, clock: FakeClock) -> None:
        super().__init__(clock=clock)
        self.pulled: list[str] = []
        self.listed: list[str] = []

    def list(self, prefix: str) -> Iterator[Entry]:
        self.listed.append(prefix)
        return super().list(prefix)

    def pull(self, key: str, to: Path, *, unless: str = "", progress: Progress | None = None) -> Entry:
        self.pulled.append(key)
        return super().pull(key, to, unless=unless, progress=progress)


def test_one_listing_a_lane_no_model_and_nothing_twice() -> None:
    tree = Tree()
    tree.store = store = Counting(clock=tree.clock)
    tree.stores = dict.fromkeys(tree.stores, store)
    tree.begin()
    for number in range(4):
        tree.global_(number)
        tree.seal(PassRef(number + 1, "nu"))
    tree.beat(site_lane("nu"))
    observer = tree.observer()
    observer.observe()
    assert len(store.listed) == 4
    assert len(store.pulled) == len(set(store.pulled))
    assert [key for key in store.pulled if "model" in key] == []
    store.pulled.clear()
    tree.clock.advance(1)
    tree.beat(site_lane("nu"), count=2)
    observer.observe()
    assert store.pulled == ["icu-mortality/sites/nu/events/heartbeat.json"]
