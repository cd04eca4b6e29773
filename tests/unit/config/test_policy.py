"""The `[policy]` and `[integrity]` tables: what they take, and what they must be among themselves."""

from __future__ import annotations

import pytest

from stitch.config.load import parse_stitch_file
from stitch.config.policy import policy_of
from stitch.config.settings import Policy
from stitch.errors import ConfigError

HEAD = 'run_id = "icu"\nlead = "rush"\nsites = ["rush", "nu"]\nnum_passes = 1\n'
QUORUM = '[policy]\nrequire = "quorum"\n'


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
        ('[policy]\non_mismatch = "shrug"', ("policy.on_mismatch", "abort", "exclude")),
        ('[integrity]\nreproduce = "yes"', ("integrity.reproduce", "warn")),
    ],
)
def test_what_makes_no_sense_is_named(more: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as refused:
        policy(more)
    for part in parts:
        assert part in f"{refused.value} {refused.value.hint}"
