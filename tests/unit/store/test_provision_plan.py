"""Who gets what, before anything is asked of Azure: names, permissions, policies that must fit into five."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stitch import layout
from stitch.errors import StoreError
from stitch.store.azure_provision import (
    MOST_POLICIES,
    Container,
    Want,
    container_name,
    held_for,
    make_plan,
    settle,
    withdrawn,
)

AZURE_RULE = re.compile(r"[a-z0-9](?:-?[a-z0-9])*\Z")
RUNS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
SITES = st.from_regex(r"[a-z](-?[a-z0-9]){0,19}", fullmatch=True)
SIX = ("rush", "nu", "uc", "mayo", "emory", "duke")


@given(RUNS, st.lists(SITES, min_size=1, max_size=5, unique=True))
def test_every_lane_has_a_name_of_its_own_that_azure_takes(run_id: str, sites: list[str]) -> None:
    lanes = [layout.GLOBAL, *(layout.site_lane(site) for site in sites if site != "global")]
    names = [container_name(run_id, lane) for lane in lanes]
    assert len(set(names)) == len(names)
    assert [name for name in names if not AZURE_RULE.match(name) or not 3 <= len(name) <= 63] == []


def test_a_name_says_what_it_is_for_and_is_cut_by_a_hash_when_it_must_be() -> None:
    assert container_name("icu-1", "sites/nu") == "icu-1-nu"
    assert container_name("icu-1", "global") == "icu-1-global"
    other = container_name("ICU_1", "sites/nu")
    assert re.fullmatch(r"icu-1-nu-[0-9a-f]{8}", other)  # not that of icu-1
    long = container_name("a" * 64, layout.site_lane("b" * 40))
    assert len(long) == 63
    assert f"-{'b' * 40}-" in long
    assert long != container_name("a" * 63, layout.site_lane("b" * 40))


def test_a_site_gets_three_tokens_and_no_more_than_it_needs() -> None:
    plan = make_plan("icu", "rush", sites=("rush", "nu"), kits=("nu",))
    assert [
        (token.variable, token.container, token.permissions, token.blob) for token in plan.kits["nu"]
    ] == [
        ("STITCH_STORE_GLOBAL", "icu-global", "rl", ""),
        ("STITCH_STORE_SITE", "icu-nu", "rcl", ""),
        ("STITCH_STORE_HEARTBEAT", "icu-nu", "rcw", "icu/sites/nu/events/heartbeat.json"),
    ]


def test_the_lead_s_kit_is_always_made_and_reads_every_lane() -> None:
    plan = make_plan("icu", "rush", sites=("nu", "rush", "uc-a"), kits=("nu",))
    assert list(plan.kits) == ["rush", "nu"]
    assert [(token.variable, token.container, token.permissions) for token in plan.kits["rush"]] == [
        ("STITCH_STORE_GLOBAL", "icu-global", "rcwl"),
        ("STITCH_STORE_SITE", "icu-rush", "rcl"),
        ("STITCH_STORE_HEARTBEAT", "icu-rush", "rcw"),
        ("STITCH_STORE_NU", "icu-nu", "rl"),
        ("STITCH_STORE_UC_A", "icu-uc-a", "rl"),
    ]


def test_no_permission_deletes() -> None:
    plan = make_plan("icu", "rush", sites=SIX, kits=SIX)
    letters = {letter for tokens in plan.kits.values() for token in tokens for letter in token.permissions}
    assert letters == set("rcwl")


def _global(*sites: str) -> Container:
    return make_plan("icu", "rush", sites=SIX, kits=sites).containers[0]


def test_policies_that_are_there_are_kept_so_that_tokens_in_use_go_on() -> None:
    first = settle(_global("nu"), {}, mark="1")
    assert first == {"lead": "lead_1", "read_nu": "read_nu_1"}
    held = dict.fromkeys(first.values(), "rl")
    assert settle(_global("nu", "uc"), held, mark="2") == {**first, "read_uc": "read_uc_2"}


def test_a_policy_that_was_withdrawn_never_comes_back_under_its_old_name() -> None:
    assert settle(_global("nu"), {"lead_1": "rcwl"}, mark="2")["read_nu"] == "read_nu_2"


def test_more_sites_than_azure_keeps_policies_for_share_the_last_one() -> None:
    chosen = settle(_global(*SIX), {}, mark="1")
    assert len(set(chosen.values())) == MOST_POLICIES
    assert [chosen[f"read_{site}"] for site in SIX[1:]] == [
        *("read_nu_1", "read_uc_1", "read_mayo_1"),
        *("shared_1", "shared_1"),
    ]
    held = dict.fromkeys(chosen.values(), "rl")
    assert settle(_global(*SIX), held, mark="2") == chosen


def test_policies_of_somebody_else_are_counted_and_never_dropped() -> None:
    lane = Container("sites/nu", "icu-nu", {}, (Want("lead", "rl"), Want("site", "rcl"), Want("beat", "rcw")))
    theirs = dict.fromkeys(["backup", "audit_2024"], "r")
    assert len(set(settle(lane, theirs, mark="1").values())) == 3
    with pytest.raises(StoreError, match="has 5 stored access policies") as caught:
        settle(lane, {**theirs, "scan": "r"}, mark="1")
    assert "az storage container policy" in caught.value.hint


def test_a_site_s_policies_are_told_from_those_of_a_site_with_a_longer_name() -> None:
    held = ["read_nu-2_1", "read_nu_2", "mine_site_1"]
    assert held_for("read_nu", held) == "read_nu_2"
    assert held_for("site", held) == ""


def test_revoking_a_site_takes_what_it_had_and_what_it_may_have_shared() -> None:
    plan = make_plan("icu", "rush", sites=SIX[:3], kits=SIX[:3])
    assert withdrawn(plan, "nu") == {"icu-nu": ("site", "beat"), "icu-global": ("read_nu", "shared")}
    assert withdrawn(plan, "rush") == {
        "icu-rush": ("site", "beat"),
        "icu-global": ("lead",),
        "icu-nu": ("lead",),
        "icu-uc": ("lead",),
    }
