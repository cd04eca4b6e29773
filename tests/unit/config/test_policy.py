"""The `[policy]` and `[integrity]` tables: what they take, and what they must be among themselves."""

from __future__ import annotations

import pytest

from stitch.config.load import parse_stitch_file
from stitch.config.policy import Policy, policy_of
from stitch.config.weighting import Weighting
from stitch.errors import ConfigError

HEAD = 'run_id = "icu"\nlead = "rush"\nsites = ["rush", "nu"]\nnum_passes = 1\n'
QUORUM = '[policy]\nrequire = "quorum"\n'
BUFFERED = '[policy]\nrequire = "buffered"\n'


def policy(more: str, *, sites: int = 5) -> Policy:
    return policy_of(parse_stitch_file(HEAD + more).policy, sites=sites, file="stitch.toml")


def test_by_default_everybody_is_waited_for() -> None:
    assert policy("") == Policy()
    assert policy("").facts == {"require": "all_expected"}


def test_a_quorum_takes_durations_and_a_budget() -> None:
    given = policy(
        QUORUM + 'min_participants = 3\nopen_timeout = "90m"\ncollect_timeout = "2d"\nretry_budget = 0\n'
    )
    assert given == Policy(
        "quorum", min_participants=3, open_timeout=5400, collect_timeout=172_800, retry_budget=0
    )
    assert given.facts == {
        "require": "quorum",
        "min_participants": 3,
        "open_timeout": 5400,
        "collect_timeout": 172_800,
        "retry_budget": 0,
    }


def test_a_buffer_tells_all_of_its_keys_so_that_no_version_has_to_know_a_default() -> None:
    given = policy(BUFFERED + "buffer_size = 9\n")
    assert given == Policy("buffered", buffer_size=9), "more than there are sites: it closes over all of them"
    assert given.facts == {
        "require": "buffered",
        "buffer_size": 9,
        "window_seconds": 86_400,
        "max_staleness": 4,
        "weighting": "constant",
    }
    given = policy(
        BUFFERED + 'buffer_size = 1\nwindow_seconds = "6h"\nmax_staleness = 0\nweighting = "hinge( 10,4 )"'
    )
    assert given.facts == {
        "require": "buffered",
        "buffer_size": 1,
        "window_seconds": 21_600,
        "max_staleness": 0,
        "weighting": "hinge(10.0, 4.0)",
    }
    assert (given.oldest, policy("").oldest) == (0, 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("constant", [1, 1, 1, 1]),
        ("polynomial(0.5)", [1, 0.7071067811865476, 0.5773502691896258, 0.5]),
        ("polynomial(1)", [1, 1 / 2, 1 / 3, 1 / 4]),
        ("hinge(1, 1)", [1, 1, 1 / 2, 1 / 3]),
        ("hinge(0.5,0)", [1, 2 / 3, 1 / 2, 2 / 5]),
    ],
)
def test_a_weighting_is_the_function_that_its_paper_gives(text: str, expected: list[float]) -> None:
    """FedBuff (polynomial), FedAsync (hinge); the numbers are worked out by hand."""
    weighting = Weighting.parse(text)
    assert [weighting.at(staleness) for staleness in range(4)] == pytest.approx(expected, rel=1e-15)
    assert Weighting.parse(str(weighting)) == weighting


def test_other_policies_ask_for_no_weight() -> None:
    assert Policy().weight(0) is None
    assert Policy("buffered", weighting=Weighting("polynomial", 1.0)).weight(3) == 0.25


@pytest.mark.parametrize(
    ("more", "parts"),
    [
        (QUORUM, ("policy.min_participants is missing",)),
        (QUORUM + "min_participants = 6", ("policy.min_participants is 6", "5 sites")),
        (QUORUM + "min_participants = 0", ("policy.min_participants",)),
        (QUORUM + "min_participants = 2\nopen_timeout = 0", ("policy.open_timeout",)),
        (QUORUM + 'min_participants = 2\ncollect_timeout = "soon"', ("policy.collect_timeout",)),
        (QUORUM + "min_participants = 2\nretry_budget = -1", ("policy.retry_budget",)),
        ("[policy]\nmin_participants = 2", ("policy.min_participants", "all_expected")),
        ('[policy]\nopen_timeout = "1h"', ("policy.open_timeout", "all_expected")),
        (BUFFERED, ("policy.buffer_size is missing",)),
        (BUFFERED + "buffer_size = 0", ("policy.buffer_size",)),
        (BUFFERED + "buffer_size = true", ("policy.buffer_size",)),
        (BUFFERED + "buffer_size = 2\nwindow_seconds = 0", ("policy.window_seconds",)),
        (BUFFERED + "buffer_size = 2\nmax_staleness = -1", ("policy.max_staleness",)),
        (BUFFERED + 'buffer_size = 2\nweighting = "polynomial"', ("policy.weighting", "hinge(a, b)")),
        (BUFFERED + 'buffer_size = 2\nweighting = "polynomial(0)"', ("policy.weighting",)),
        (BUFFERED + 'buffer_size = 2\nweighting = "hinge(1)"', ("policy.weighting",)),
        (BUFFERED + 'buffer_size = 2\nweighting = "hinge(1, -1)"', ("policy.weighting",)),
        (BUFFERED + 'buffer_size = 2\nweighting = "polynomial(nan)"', ("policy.weighting",)),
        (BUFFERED + "buffer_size = 2\nmin_participants = 2", ("min_participants", "quorum")),
        (QUORUM + "min_participants = 2\nbuffer_size = 2", ("policy.buffer_size", "buffered")),
        ('[policy]\nweighting = "constant"', ("policy.weighting", "all_expected")),
        ('[policy]\non_mismatch = "shrug"', ("policy.on_mismatch", "abort", "exclude")),
        ('[integrity]\nreproduce = "yes"', ("integrity.reproduce", "warn")),
    ],
)
def test_what_makes_no_sense_is_named(more: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as refused:
        policy(more)
    for part in parts:
        assert part in f"{refused.value} {refused.value.hint}"
