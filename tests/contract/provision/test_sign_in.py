"""Provisioning without the account's key: tokens that Azure signs for a sign-in, for a week at most.

The emulator checks such tokens over plain HTTP but lends the key to make them over HTTPS with a sign-in of
its own alone; so the entrance lends it here, as the emulator would make it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from stitch.cli.provision_kits import Asked, renew
from stitch.errors import ConfigError, StoreDenied
from stitch.store import Store, StoreOptions, open_store
from stitch.store.azure_account import Account, open_account
from stitch.store.azure_grants import grant, withdraw
from stitch.store.azure_provision import Plan, make_plan
from stitch.store.azure_sas import read_sas
from stitch.testing.azurite import ACCOUNT, Azurite
from tests.contract.test_azure_sign_in import SECRET, Entra, SignedIn, _Entrance, signed_in

__all__ = ["signed_in"]  # a fixture

_SEED = b"azurite-user-delegation-signing-seed-v1"
_KEY = """<?xml version="1.0" encoding="utf-8"?><UserDelegationKey><SignedOid>{0}</SignedOid>
<SignedTid>{1}</SignedTid><SignedStart>{2}</SignedStart><SignedExpiry>{3}</SignedExpiry>
<SignedService>{4}</SignedService><SignedVersion>{5}</SignedVersion><Value>{6}</Value></UserDelegationKey>"""


class _Lending(_Entrance):
    """Lends the key that the emulator expects of a sign-in; all else is passed on."""

    def do_POST(self) -> None:  # noqa: N802  the name that http.server looks for
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        assert "comp=userdelegationkey" in self.path
        assert self.headers["Authorization"].startswith(f"Bearer {SECRET}-")
        times = [re.search(rf"<{name}>(.*?)</{name}>", body) for name in ("Start", "Expiry")]
        fields = ["oid", "tid", *(match[1] for match in times if match), "b", "2026-06-06"]
        value = base64.b64encode(hmac.digest(_SEED, "\n".join(fields).encode(), hashlib.sha256)).decode()
        answer = _KEY.format(*fields, value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@pytest.fixture
def entra(azurite: Azurite, certificates: Path) -> Iterator[Entra]:
    with Entra(azurite, "any", certificates / "server.pem") as server:
        server.RequestHandlerClass = _Lending
        server.sas = generate_account_sas(
            ACCOUNT,
            azurite.account_key,
            resource_types=ResourceTypes(service=True, container=True, object=True),
            permission=AccountSasPermissions(read=True, write=True, create=True, list=True),
            expiry=datetime.now(UTC) + timedelta(hours=1),
        )
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def account(entra: Entra, certificates: Path, signed_in: type[SignedIn]) -> Account:
    endpoint = f"https://127.0.0.1:{entra.port}/{ACCOUNT}"
    return open_account(endpoint, {}, ca_bundle=certificates / "ca.pem")


@pytest.fixture
def plan() -> Plan:
    return make_plan(f"icu-{secrets.token_hex(4)}", "rush", sites=("rush", "nu"), kits=("rush", "nu"))


def emulated(url: str, azurite: Azurite) -> Store:
    """The same token where the emulator itself checks it: over plain HTTP."""
    place, _, token = url.partition(ACCOUNT)[2].partition("?")
    plain = token.replace("&spr=https", "")
    return open_store(f"{azurite.endpoint}{place}?{plain}", options=StoreOptions())


def test_tokens_are_signed_by_the_sign_in_and_hang_on_no_policy(account: Account, plan: Plan) -> None:
    granted = grant(account, plan, days=7)
    assert len(granted.made) == 3
    assert not account.keeps_policies
    for urls in granted.kits.values():
        for url in urls.values():
            facts = read_sas(url.partition("?")[2])
            assert facts is not None
            assert (facts.policy, facts.expires, facts.https_only) == ("", granted.until, True)
            assert "skoid=oid" in url
    permissions = [read_sas(url.partition("?")[2]) for url in granted.kits["nu"].values()]
    assert [facts.permissions for facts in permissions if facts] == ["rl", "rcl", "rcw"]


def test_such_a_token_opens_its_own_lane_and_alters_nothing_there(
    account: Account, plan: Plan, azurite: Azurite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The emulator would refuse a token for HTTPS alone over plain HTTP, and its signature covers that field.
    monkeypatch.setattr(account, "endpoint", azurite.endpoint)
    granted = grant(account, plan, days=7)
    own = emulated(granted.kits["nu"]["STITCH_STORE_SITE"], azurite)
    (tmp_path / "in").write_bytes(b"x")
    own.push(tmp_path / "in", "a", mode="create")
    with pytest.raises(StoreDenied):
        own.push(tmp_path / "in", "a", mode="replace")
    shared = emulated(granted.kits["nu"]["STITCH_STORE_GLOBAL"], azurite)
    assert list(shared.list("")) == []
    with pytest.raises(StoreDenied):
        shared.push(tmp_path / "in", "a", mode="create")


@pytest.fixture
def project(tmp_path: Path, certificates: Path) -> Path:
    """A lead's project that trusts the entrance."""
    run_id = f"icu-{secrets.token_hex(4)}"
    text = f'run_id = "{run_id}"\nlead = "rush"\nsites = ["rush", "nu"]\nnum_passes = 1\n'
    text += f'[store]\nca_bundle = "{(certificates / "ca.pem").as_posix()}"\n'
    (tmp_path / "stitch.toml").write_text(text, encoding="utf-8")
    return tmp_path


def test_the_command_gives_a_week_and_says_that_it_cannot_take_it_back(
    entra: Entra, project: Path, signed_in: type[SignedIn]
) -> None:
    endpoint = f"https://127.0.0.1:{entra.port}/{ACCOUNT}"
    said = renew(Asked.read(project, sites="", days=None, account=endpoint, revoke=""))
    assert "--revoke cannot end them" in said
    assert "sig=" not in said
    week = datetime.now(UTC) + timedelta(days=7)
    assert f"valid until {week:%Y-%m-%d}" in (project / "kits" / "nu.env").read_text(encoding="utf-8")


def test_more_than_a_week_is_refused_before_anything_is_made(
    entra: Entra, project: Path, signed_in: type[SignedIn]
) -> None:
    endpoint = f"https://127.0.0.1:{entra.port}/{ACCOUNT}"
    with pytest.raises(ConfigError, match="for 7 days at most"):
        renew(Asked.read(project, sites="", days=8, account=endpoint, revoke=""))
    assert entra.carried == []
    assert not (project / "kits").exists()


def test_they_cannot_be_withdrawn_and_it_says_what_can_be_done(account: Account, plan: Plan) -> None:
    grant(account, plan, days=7)
    with pytest.raises(ConfigError, match="cannot be withdrawn one by one") as caught:
        withdraw(account, plan, site="nu")
    assert "revoke-delegation-keys" in caught.value.hint


def test_nobody_is_signed_in(
    account: Account, plan: Plan, signed_in: type[SignedIn], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signed_in, "able", False)
    with pytest.raises(StoreDenied, match="the sign-in to Azure failed") as caught:
        grant(account, plan, days=7)
    assert caught.value.hint == "Run `az login`, or set AZURE_STORAGE_KEY for this command."


def test_a_sign_in_that_may_not_says_which_role_it_needs(
    account: Account, plan: Plan, entra: Entra, azurite: Azurite
) -> None:
    entra.sas = azurite.sas("another")
    with pytest.raises(StoreDenied) as caught:
        grant(account, plan, days=7)
    assert "Storage Blob Data Contributor" in caught.value.hint
