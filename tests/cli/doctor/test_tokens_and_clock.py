"""What tokens and clocks are found to be, without a token being shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stitch.cli.checks_store import clocks, tokens
from stitch.clock import SystemClock
from stitch.config import load_settings
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore

NOW = datetime(2026, 6, 1, tzinfo=UTC)

Project = Callable[..., Path]


class FixedClock:
    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


def test_a_wrong_clock_is_a_warning(project: Project) -> None:
    settings = load_settings(project(), {})
    store = MemoryStore(clock=SystemClock())
    (check,) = clocks(Lanes(settings.run_id, {"global": store}, {}), FixedClock())
    assert check.state == "warn"
    assert re.search(r"\d+ s (ahead of|behind) the store", check.finding)


@pytest.mark.parametrize(
    ("fields", "state", "words"),
    [
        ("sp=rcwl&se=2026-12-31", "ok", "icu: one container, permissions rcwl, until 2026-12-31"),
        ("sp=rcwl&se=2026-06-10T00:00:00Z", "warn", "in 9 days"),
        ("sp=rcwl&se=2026-05-31", "fail", "expired on 2026-05-31"),
        ("sp=rcwl&st=2026-07-01&se=2026-12-31", "fail", "not valid before 2026-07-01"),
        ("sp=r&se=2026-12-31", "fail", "may not create, list, overwrite"),
        ("sp=rcl&se=2026-12-31", "fail", "may not overwrite"),
        ("si=policy", "ok", "stored policy 'policy', expiry set by the policy"),
    ],
)
def test_tokens_are_read_without_being_shown(project: Project, fields: str, state: str, words: str) -> None:
    url = f"https://acct.blob.core.windows.net/icu?{fields}&sv=2024-11-04&sr=c&sig=SECRETVALUE"
    settings = load_settings(project(env=f"STITCH_STORE={url}\n"), {})
    (check,) = tokens(settings, NOW)
    assert (check.name, check.state) == ("token", state)
    assert words in check.finding
    assert "SECRETVALUE" not in repr(check)
    assert check.exit_code == (22 if state == "fail" else 0)


def test_each_token_is_asked_for_what_its_lane_needs(project: Project) -> None:
    def url(name: str, sp: str, sr: str = "c") -> str:
        return f"https://acct.blob.core.windows.net/{name}?sp={sp}&se=2026-12-31&sr={sr}&sig=x\n"

    env = "STITCH_STORE_GLOBAL=" + url("glob", "rl") + "STITCH_STORE_SITE=" + url("lane-nu", "rcl")
    settings = load_settings(project(env=env + "STITCH_STORE_HEARTBEAT=" + url("lane-nu", "rw", "b")), {})
    checks = {check.name: check for check in tokens(settings, NOW)}
    assert {name: check.state for name, check in checks.items()} == {
        "token global": "ok",
        "token nu": "ok",
        "token heartbeat": "ok",
    }
    lead = load_settings(project(site="rush", env=env + "STITCH_STORE_NU=" + url("other", "r")), {})
    checks = {check.name: check for check in tokens(lead, NOW)}
    assert "may not create" in checks["token global"].finding
    assert "may not list" in checks["token nu"].finding
