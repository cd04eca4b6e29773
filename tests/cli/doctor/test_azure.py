"""Doctor against a real blob service: each kind of bad token is told apart from the others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from stitch.cli.checks import Check
from stitch.cli.checkup import examine
from stitch.clock import SystemClock
from stitch.testing.azurite import Azurite

Project = Callable[..., Path]


def long_lived(azurite: Azurite, container: str) -> str:
    token = azurite.sas(container, expires_in=timedelta(days=90))
    return f"{azurite.endpoint}/{container}?{token}"


def checks(project: Project, url: str) -> dict[str, Check]:
    root = project(env=f'STITCH_STORE="{url}"\n')
    found = examine(root, {}, clock=SystemClock())
    assert not any("sig=" in check.finding + check.todo for check in found)
    return {check.name: check for check in found}


@pytest.fixture
def container(azurite: Azurite) -> str:
    return azurite.new_container()


def test_a_good_token(project: Project, azurite: Azurite, container: str) -> None:
    found = checks(project, long_lived(azurite, container))
    assert {check.state for check in found.values()} == {"ok"}
    assert found["token"].finding.startswith(f"{container}: one container, permissions rcwl")
    assert "written" in found["store sites/nu"].finding
    again = checks(project, long_lived(azurite, container))
    assert "written" in again["store sites/nu"].finding


@pytest.mark.parametrize(
    ("permissions", "lane", "words"),
    [
        ("rcl", "store sites/nu", "overwrite"),
        ("rwc", "store global", "list"),
        ("wcl", "store global", "read"),
    ],
)
def test_a_token_that_lacks_a_permission(
    project: Project, azurite: Azurite, container: str, permissions: str, lane: str, words: str
) -> None:
    checks(project, azurite.container_url(container))  # leaves a heartbeat to overwrite
    found = checks(project, azurite.container_url(container, permissions))
    assert found["token"].state == "fail"
    assert words in found["token"].finding
    assert (found[lane].state, found[lane].exit_code) == ("fail", 22)


def test_a_token_that_expired(project: Project, azurite: Azurite, container: str) -> None:
    token = azurite.sas(container, "rcwl", expires_in=timedelta(hours=-1))
    found = checks(project, f"{azurite.endpoint}/{container}?{token}")
    assert "expired on" in found["token"].finding
    assert (found["store global"].state, found["store global"].exit_code) == ("fail", 22)
    assert "expired" in found["store global"].finding


def test_a_token_with_another_signature(project: Project, azurite: Azurite, container: str) -> None:
    url, field, _ = long_lived(azurite, container).rpartition("&sig=")
    forged = url + field + "a%2Bb%2Fc%2Bd%2Fefghijklmnopqrstuvwxyz0123456789ABC%3D"
    found = checks(project, forged)
    assert found["token"].state == "ok"
    assert (found["store global"].state, found["store global"].exit_code) == ("fail", 22)


def test_a_container_that_is_not_there(project: Project, azurite: Azurite) -> None:
    found = checks(project, azurite.container_url("nothing-here"))
    assert (found["store global"].state, found["store global"].exit_code) == ("fail", 23)
