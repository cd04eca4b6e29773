"""Tokens that are ended before their time: at once, those of one site alone, and for good."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient

from stitch.errors import StoreDenied, StoreError
from stitch.store.azure_account import Account
from stitch.store.azure_grants import grant, withdraw
from tests.contract.provision.lanes import BEAT, SIX, opened, plan_of, policies, site_store


def test_revoking_a_site_ends_its_tokens_at_once_and_nobody_else_s(
    account: Account, run_id: str, source: Callable[[bytes], Path]
) -> None:
    plan = plan_of(run_id)
    granted = grant(account, plan, days=90)
    for site in ("nu", "uc"):
        site_store(granted, site).push(source(b"{}"), "a", mode="create")
    ended = withdraw(account, plan, site="nu")
    assert (len(ended.policies), ended.stranded) == (3, ())
    for variable in ("STITCH_STORE_SITE", "STITCH_STORE_GLOBAL"):
        store = site_store(granted, "nu", variable)
        with pytest.raises(StoreDenied, match=r"access policy .* ended or was withdrawn"):
            store.stat("a")
    with pytest.raises(StoreDenied):
        site_store(granted).push(source(b"x"), "b", mode="create")
    place, _, token = granted.kits["nu"]["STITCH_STORE_HEARTBEAT"].partition("?")
    with pytest.raises(StoreDenied):
        opened(f"{place.partition(f'/{run_id}/')[0]}?{token}").push(
            source(b"x"), f"{run_id}/{BEAT}", mode="replace"
        )
    assert site_store(granted, "uc").stat("a") is not None
    assert site_store(granted, "uc", "STITCH_STORE_GLOBAL").stat("a") is None
    assert site_store(granted, "rush", "STITCH_STORE_NU").stat("a") is not None  # its passes stay readable


def test_a_new_kit_after_a_revocation_does_not_wake_the_old_one(account: Account, run_id: str) -> None:
    plan = plan_of(run_id)
    lost = grant(account, plan, days=90)
    withdraw(account, plan, site="nu")
    new = grant(account, plan_of(run_id, kits=("nu",)), days=90, named=("nu",))
    assert site_store(new).stat("a") is None
    with pytest.raises(StoreDenied):
        site_store(lost).stat("a")
    assert withdraw(account, plan, site="nu").policies  # and it can be ended again


def test_a_revoked_site_gets_no_kit_until_it_is_named(
    account: Account, service: BlobServiceClient, run_id: str
) -> None:
    plan = plan_of(run_id)
    grant(account, plan, days=90)
    withdraw(account, plan, site="nu")
    renewed = grant(account, plan, days=90)
    assert renewed.left_out == ("nu",)
    assert sorted(renewed.kits) == ["rush", "uc"]
    assert [name.partition("_")[0] for name in policies(service, f"{run_id}-nu")] == ["lead"]
    assert site_store(renewed, "rush", "STITCH_STORE_NU").stat("a") is None
    named = grant(account, plan, days=90, named=("nu",))
    assert site_store(named).stat("a") is None
    assert grant(account, plan, days=90).left_out == ()  # taken back for good


def test_the_lead_s_own_tokens_can_be_revoked(account: Account, run_id: str) -> None:
    plan = plan_of(run_id)
    granted = grant(account, plan, days=90)
    assert len(withdraw(account, plan, site="rush").policies) == 5
    for variable in ("STITCH_STORE_GLOBAL", "STITCH_STORE_SITE", "STITCH_STORE_NU", "STITCH_STORE_UC"):
        with pytest.raises(StoreDenied):
            site_store(granted, "rush", variable).stat("a")
    assert site_store(granted, "nu", "STITCH_STORE_GLOBAL").stat("a") is None


def test_of_many_sites_those_who_shared_a_policy_with_the_revoked_one_are_named(
    account: Account, run_id: str
) -> None:
    plan = plan_of(run_id, SIX)
    granted = grant(account, plan, days=90)
    ended = withdraw(account, plan, site="emory")
    assert ended.stranded == ("duke",)
    with pytest.raises(StoreDenied):
        site_store(granted, "duke", "STITCH_STORE_GLOBAL").stat("a")
    for site in ("nu", "uc", "mayo"):
        assert site_store(granted, site, "STITCH_STORE_GLOBAL").stat("a") is None
    # A call that was cut before they had new kits names them again; once they have, nobody is cut off.
    assert withdraw(account, plan, site="emory").stranded == ("duke",)
    again = grant(account, plan_of(run_id, SIX, kits=ended.stranded), days=90)
    assert site_store(again, "duke", "STITCH_STORE_GLOBAL").stat("a") is None
    assert withdraw(account, plan, site="emory").stranded == ()
    with pytest.raises(StoreDenied):
        site_store(granted, "emory", "STITCH_STORE_GLOBAL").stat("a")


def test_two_who_change_the_same_container_do_not_undo_one_another(
    account: Account, service: BlobServiceClient, run_id: str
) -> None:
    """Else a renewal that began before a revocation would bring the withdrawn policy back."""
    grant(account, plan_of(run_id), days=90)
    found = account.look(f"{run_id}-nu")
    assert found is not None
    before = found.changed - timedelta(seconds=2)  # as of a look that was taken before that change
    with pytest.raises(StoreError, match="somebody else changes the container") as caught:
        account.keep(f"{run_id}-nu", {}, unless_after=before)
    assert "again" in caught.value.hint
    assert len(policies(service, f"{run_id}-nu")) == 3
    account.keep(f"{run_id}-nu", {}, unless_after=found.changed)
    assert policies(service, f"{run_id}-nu") == {}


def test_nothing_was_provisioned_and_there_is_nothing_to_revoke(account: Account, run_id: str) -> None:
    with pytest.raises(StoreError, match=f"no container {run_id}-nu"):
        withdraw(account, plan_of(run_id), site="nu")
