"""A store that says no: each reason told apart, at once where nothing worked yet, patiently once it did."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.storage.blob import AccessPolicy, ContainerClient, generate_container_sas

from stitch.testing.azurite import ACCOUNT, Azurite
from tests.cli.federation import Federation, Site, build, unchanged

API_VERSION = "2026-06-06"
ENDED = "the SAS token's access policy 'site' ended or was withdrawn"
NEW_URL = "Ask the lead for a new store URL and put it into .env."


@pytest.fixture
def container(azurite: Azurite) -> str:
    return azurite.new_container()


@pytest.fixture
def federation(tmp_path: Path, azurite: Azurite, container: str) -> Federation:
    return build(tmp_path, store=azurite.container_url(container))


def use(site: Site, azurite: Azurite, container: str, token: str) -> None:
    """Write the site's .env as a person would."""
    site.write(".env", f'STITCH_STORE="{azurite.endpoint}/{container}?{token}"\n')


class Revocable:
    """A token that ends when the test says so, not while a slow machine still starts a process."""

    def __init__(self, azurite: Azurite, container: str) -> None:
        self._account = azurite.connection_string
        self._container = container
        self._set({"site": AccessPolicy("rcwl", expiry=datetime.now(UTC) + timedelta(days=1), start=None)})
        self.token = generate_container_sas(
            ACCOUNT, container, account_key=azurite.account_key, policy_id="site"
        )

    def revoke(self) -> None:
        """What the lead does when a laptop is lost; Azure answers as to an expired token."""
        self._set({})

    def _set(self, policies: dict[str, AccessPolicy]) -> None:
        with ContainerClient.from_connection_string(
            self._account, self._container, api_version=API_VERSION
        ) as client:
            client.set_container_access_policy(policies)


def refused(site: Site) -> tuple[int, str, str]:
    """What `run` says at once, without a change in the mirror."""
    with unchanged(site.root, but=("run.log", "last_error.txt")):
        said = site.call("run")
    return said.code, said.cause, said.todo


def test_an_expired_token_says_since_when_and_a_new_one_continues(
    federation: Federation, azurite: Azurite, container: str
) -> None:
    federation.begin()
    use(federation.nu, azurite, container, azurite.sas(container, expires_in=timedelta(hours=-1)))
    code, cause, todo = refused(federation.nu)
    assert code == 22
    assert "the SAS token expired at 20" in cause
    assert todo == NEW_URL
    use(federation.nu, azurite, container, azurite.sas(container))
    assert federation.nu.call("step").code == 0


def test_a_wrong_token_is_told_from_an_expired_one(
    federation: Federation, azurite: Azurite, container: str
) -> None:
    federation.begin()
    use(federation.nu, azurite, container, azurite.sas(azurite.new_container()))
    code, cause, todo = refused(federation.nu)
    assert code == 22
    assert "the SAS token's signature is wrong, or it was made for another container" in cause
    assert todo.startswith("Copy the whole store URL again")


@pytest.mark.parametrize(
    ("permissions", "lacking"),
    [("cwl", "reading files needs r"), ("rl", "creating files needs c"), ("rcw", "listing needs l")],
)
def test_a_token_that_may_too_little_says_what_it_lacks(
    federation: Federation, azurite: Azurite, container: str, permissions: str, lacking: str
) -> None:
    federation.begin()
    use(federation.nu, azurite, container, azurite.sas(container, permissions))
    said = federation.nu.call("run")
    assert said.code == 22
    assert lacking in said.cause
    assert said.todo == "Ask the lead for a store URL with that permission."
    use(federation.nu, azurite, container, azurite.sas(container))
    assert federation.nu.call("step").code == 0


@pytest.mark.parametrize("who", ["lead", "nu"])
def test_a_container_that_is_not_there_is_named(federation: Federation, azurite: Azurite, who: str) -> None:
    site = getattr(federation, who)
    use(site, azurite, "nowhere", azurite.sas("nowhere"))
    code, cause, todo = refused(site)
    assert code == 23
    assert cause.startswith("the container nowhere does not exist in ")
    assert todo == "Check the container's name in the store URL; the lead creates the container once."


def test_a_store_folder_that_is_not_there_is_named_and_not_made(tmp_path: Path) -> None:
    federation = build(tmp_path, store="../sotre")
    code, cause, todo = refused(federation.lead)
    assert code == 23
    assert cause == f"the store folder {tmp_path / 'sotre'} does not exist"
    assert todo == "Check the path, and that the share is mounted; the lead creates the folder once."
    assert not (tmp_path / "sotre").exists()


def test_a_token_that_ends_while_run_waits_is_read_anew_from_env(
    federation: Federation, azurite: Azurite, container: str
) -> None:
    federation.begin()
    first = Revocable(azurite, container)
    use(federation.nu, azurite, container, first.token)
    with federation.nu.running() as site:
        site.await_line("waiting for global 1")
        first.revoke()
        line = site.await_line(ENDED)
        assert line.endswith(f"({NEW_URL}) Trying again.")
        use(federation.nu, azurite, container, azurite.sas(container))
        assert federation.lead.call("run").code == 0
        said = site.said()
    assert said.code == 0
    assert "sig=" not in said.out


def test_a_leads_training_goes_on_while_its_token_is_replaced(
    federation: Federation, azurite: Azurite, container: str
) -> None:
    go = federation.lead.root / "go"
    slow = f"    while global_path and not pathlib.Path({str(go)!r}).exists():\n        pass\n    base ="
    federation.lead.hooks("    base =", slow)
    first = Revocable(azurite, container)
    use(federation.lead, azurite, container, first.token)
    with federation.lead.running() as lead:
        lead.await_line("rush  train  pass 1 from global 0")
        first.revoke()
        lead.await_line(ENDED)
        use(federation.lead, azurite, container, azurite.sas(container))
        assert federation.nu.call("step").code == 0
        lead.await_line("global  wait  round 1: waiting for rush")
        go.touch()
        said = lead.said()
    assert said.code == 0, said


def test_a_trouble_that_does_not_pass_ends_run_after_give_up_after(
    federation: Federation, azurite: Azurite, container: str
) -> None:
    federation.nu.toml("root_seed = 7", 'root_seed = 7\ngive_up_after = "1s"')
    federation.begin()
    first = Revocable(azurite, container)
    use(federation.nu, azurite, container, first.token)
    with federation.nu.running() as site:
        site.await_line("waiting for global 1")
        first.revoke()
        said = site.said()
    assert said.code == 22
    assert ENDED in said.cause
    assert said.todo == NEW_URL


@pytest.mark.parametrize("verb", ["run", "step"])
def test_a_token_in_its_last_two_weeks_is_a_warning(
    federation: Federation, azurite: Azurite, container: str, verb: str
) -> None:
    use(federation.nu, azurite, container, azurite.sas(container, expires_in=timedelta(days=9.5)))
    with federation.nu.running(verb) as site:
        line = site.await_line("  warn  ")
        site.process.terminate()
        site.said()
    assert "nu  warn  the store token expires on 20" in line
    assert line.endswith(" UTC, in 9 days: ask the lead for a new URL now")
