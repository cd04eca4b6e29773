"""Every state that `status` gives a site, from the documents that make it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stitch.errors import StoreUnavailable
from stitch.layout import PassRef, site_lane
from stitch.store.base import Entry
from stitch.store.memory import MemoryStore
from stitch.views.status import SiteState
from tests.unit.views.tree import SITES, Tree, site_of


@pytest.fixture
def tree() -> Tree:
    """A run whose global 0 is sealed and whose three sites have joined and beat."""
    made = Tree()
    made.begin()
    made.global_(0)
    for site in SITES:
        made.join(site)
        made.term(site_lane(site))
        made.beat(site_lane(site))
    return made


def state(tree: Tree, site: str = "nu") -> SiteState:
    return SiteState(site_of(tree.observe(), site).state)


def test_a_site_that_joined_and_did_nothing_yet_is_joined(tree: Tree) -> None:
    assert state(tree) is SiteState.JOINED


def test_a_site_whose_lane_is_empty_was_never_seen() -> None:
    tree = Tree()
    tree.begin()
    tree.global_(0)
    assert state(tree) is SiteState.NEVER_SEEN


def test_a_started_event_of_the_wanted_pass_means_training(tree: Tree) -> None:
    tree.event("nu", 1, "started")
    assert state(tree) is SiteState.TRAINING


def test_a_started_event_of_an_earlier_pass_does_not(tree: Tree) -> None:
    tree.event("nu", 1, "started")
    tree.seal(PassRef(1, "nu"))
    tree.global_(1, inputs=SITES)
    assert state(tree) is SiteState.JOINED


def test_a_sealed_pass_with_its_model_is_completed(tree: Tree) -> None:
    tree.event("nu", 1, "started")
    tree.seal(PassRef(1, "nu"))
    status = tree.observe()
    assert site_of(status, "nu").state is SiteState.COMPLETED
    assert site_of(status, "nu").pass_id == 1
    assert status.waiting is not None
    assert status.waiting.sites == ("rush", "uchicago")


def test_a_seal_without_its_whole_model_is_not_ready(tree: Tree) -> None:
    """A synced folder delivers in any order (law 2)."""
    tree.event("nu", 1, "started")
    tree.seal(PassRef(1, "nu"), model=False)
    nu = site_of(tree.observe(), "nu")
    assert nu.state is SiteState.TRAINING
    assert nu.pass_id is None
    assert "not arrived" in nu.reason


def test_a_failed_event_is_failed_and_says_where(tree: Tree) -> None:
    tree.event("nu", 1, "started")
    tree.event("nu", 1, "failed", hook="train", exception="ValueError", where="train.py:31")
    nu = site_of(tree.observe(), "nu")
    assert nu.state is SiteState.FAILED
    assert nu.reason == "train: ValueError at train.py:31"
    assert nu.failure.where == "train.py:31"


def test_a_later_attempt_after_a_failure_is_training_again(tree: Tree) -> None:
    tree.event("nu", 1, "started")
    tree.event("nu", 1, "failed", hook="train")
    tree.event("nu", 1, "started", attempt=2)
    assert state(tree) is SiteState.TRAINING
    tree.event("nu", 1, "failed", hook="train", attempt=2)
    assert state(tree) is SiteState.FAILED


def test_three_intervals_without_a_beat_are_stalled_by_the_stores_clock(tree: Tree) -> None:
    tree.event("nu", 1, "started")
    tree.clock.advance(6 * 60)
    assert state(tree) is SiteState.TRAINING
    tree.clock.advance(1)
    assert state(tree) is SiteState.STALLED
    tree.beat(site_lane("nu"), state="training", count=2)
    assert state(tree) is SiteState.TRAINING


def test_a_completed_site_is_not_stalled_however_long_the_others_take(tree: Tree) -> None:
    tree.seal(PassRef(1, "nu"))
    tree.clock.advance(3600)
    assert state(tree) is SiteState.COMPLETED


def test_a_beat_of_an_older_process_does_not_count(tree: Tree) -> None:
    """Only the newest term's nonce is alive (law 10)."""
    tree.clock.advance(3600)
    tree.beat(site_lane("nu"), nonce="ghost", count=9)
    assert state(tree) is SiteState.STALLED


def test_a_beat_in_a_lane_that_nobody_claimed_does_not_count() -> None:
    """`doctor` writes such a beat when it tries the token (law 10)."""
    tree = Tree()
    tree.begin()
    tree.global_(0)
    tree.beat(site_lane("nu"), nonce="doctor", count=0)
    nu = site_of(tree.observe(), "nu")
    assert (nu.state, nu.beat) == (SiteState.NEVER_SEEN, None)
    tree.join("nu")
    assert site_of(tree.observe(), "nu").beat is None


def test_a_new_term_is_its_own_first_beat(tree: Tree) -> None:
    tree.clock.advance(3600)
    tree.term(site_lane("nu"), number=2, nonce="n2")
    nu = site_of(tree.observe(), "nu")
    assert nu.state is SiteState.JOINED
    assert nu.beat.age_s == 0


def test_a_released_lane_says_that_it_does_not_run(tree: Tree) -> None:
    tree.event("nu", 1, "started")
    tree.beat(site_lane("nu"), state="released", count=2)
    nu = site_of(tree.observe(), "nu")
    assert (nu.state, nu.reason) == (SiteState.JOINED, "not running")
    tree.clock.advance(3600)
    assert site_of(tree.observe(), "nu").reason == "stopped by its operator"


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("sites/nu/pass_001/metrics.json", b"{ not json"),
        ("sites/nu/pass_001/metrics.json", b'{"kind": "stitch.metrics/2"}'),
        ("sites/nu/pass_001/metrics.json", b"[" * 5000),
        ("sites/nu/events/heartbeat.json", b"\xff\xfe\x00"),
        ("sites/nu/join/0001.json", b'{"kind": "stitch.term/1"}'),
        ("sites/nu/lease/term-0002.json", b""),
    ],
)
def test_a_malformed_document_makes_that_lane_unreadable_and_no_other(
    tree: Tree, path: str, data: bytes
) -> None:
    tree.put(path, data)
    status = tree.observe()
    nu = site_of(status, "nu")
    assert nu.state is SiteState.UNREADABLE
    assert path in nu.reason
    assert site_of(status, "uchicago").state is SiteState.JOINED
    assert len(status.problems) == 1


@pytest.mark.parametrize(
    ("copied", "to"),
    [
        ("sites/rush/join/0001.json", "sites/nu/join/0002.json"),
        ("sites/rush/pass_001/metrics.json", "sites/nu/pass_001/metrics.json"),
        ("sites/nu/events/pass_001.started.json", "sites/nu/events/pass_001.evaluated.json"),
    ],
)
def test_a_document_that_was_copied_from_elsewhere_is_not_believed(tree: Tree, copied: str, to: str) -> None:
    tree.seal(PassRef(1, "rush"))
    tree.event("nu", 1, "started")
    tree.copy(copied, to)
    nu = site_of(tree.observe(), "nu")
    assert nu.state is SiteState.UNREADABLE
    assert to in nu.reason


def test_a_document_of_another_run_is_not_believed(tree: Tree) -> None:
    tree.event("nu", 1, "failed", run_id="last-year")
    assert state(tree) is SiteState.UNREADABLE


def test_a_lane_whose_store_does_not_answer_is_unreadable_not_missing(tree: Tree) -> None:
    """Unknown is not absent (law 7)."""

    class Silent(MemoryStore):
        def list(self, prefix: str) -> Iterator[Entry]:
            raise StoreUnavailable("no answer within 20 s")

    tree.stores[site_lane("nu")] = Silent()
    status = tree.observe()
    assert site_of(status, "nu").state is SiteState.UNREADABLE
    assert "no answer" in site_of(status, "nu").reason
    assert status.waiting is not None
    assert "nu" in status.waiting.sites


def test_a_lane_without_a_store_is_told_by_the_lead(tree: Tree) -> None:
    """A site's token cannot read the others."""
    tree.orchestration(current_pass=1, status={"rush": "completed", "nu": "stalled"})
    published = tree.clock.now()
    tree.clock.advance(30)
    del tree.stores[site_lane("nu")], tree.stores[site_lane("uchicago")]
    status = tree.observe()
    nu = site_of(status, "nu")
    assert (nu.state, nu.said_by, nu.as_of) == (SiteState.STALLED, "lead", published)
    assert nu.beat is None
    assert site_of(status, "rush").said_by == "lane"
    assert site_of(status, "uchicago").state is SiteState.UNREADABLE


def test_a_word_of_the_lead_that_is_no_state_is_shown_not_believed(tree: Tree) -> None:
    tree.orchestration(current_pass=1, status={"nu": "\x1b[31mgone"})
    del tree.stores[site_lane("nu")]
    nu = site_of(tree.observe(), "nu")
    assert nu.state is SiteState.UNREADABLE
    assert "\x1b" not in nu.reason


def test_after_the_end_nobody_is_stalled(tree: Tree) -> None:
    for site in SITES:
        tree.seal(PassRef(1, site))
    tree.global_(1, inputs=SITES, final=True)
    tree.done(1)
    tree.clock.advance(90_000)
    assert {site.state for site in tree.observe().sites} == {SiteState.COMPLETED}


def test_after_the_end_the_globals_tell_of_sites_that_cannot_be_read(tree: Tree) -> None:
    """The lead publishes no states any more; what the final global was made of is known."""
    tree.global_(1, inputs=("rush", "nu"), final=True)
    tree.done(1)
    tree.orchestration(current_pass=2, status={}, phase="complete")
    del tree.stores[site_lane("nu")], tree.stores[site_lane("uchicago")]
    status = tree.observe()
    assert (site_of(status, "nu").state, site_of(status, "nu").pass_id) == (SiteState.COMPLETED, 1)
    assert site_of(status, "uchicago").state is SiteState.UNREADABLE
