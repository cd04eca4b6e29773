"""Containers, policies and tokens of one run on a real blob service: what each token opens, and for how long.

Azurite's limits: it takes the times of a token that hangs on a policy from the policy alone, so that such
a token's own expiry is read here and not tried; and blocks, which a create-only token may send to Azure,
want `w` there, so that models here are small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient

from stitch.errors import AlreadyExists, ConfigError, StoreDenied, StoreError, StoreUnavailable
from stitch.store.azure_account import Account, open_account
from stitch.store.azure_grants import grant
from stitch.store.azure_sas import read_sas
from stitch.testing.azurite import Azurite
from tests.contract.provision.lanes import BEAT, opened, plan_of, policies, site_store, state


def test_a_site_creates_in_its_lane_and_alters_nothing_there(
    account: Account, run_id: str, source: Callable[[bytes], Path], tmp_path: Path
) -> None:
    own = site_store(grant(account, plan_of(run_id), days=90))
    seal = f"{run_id}/sites/nu/pass_001/metrics.json"
    own.push(source(b"{}"), seal, mode="create")
    with pytest.raises(StoreDenied):
        own.push(source(b"forged"), seal, mode="replace")
    with pytest.raises(AlreadyExists):  # what law 1 wants to hear, though the service says 403
        own.push(source(b"forged"), seal, mode="create")
    assert [entry.key for entry in own.list(run_id)] == [seal]
    own.pull(seal, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"{}"


def test_a_site_overwrites_its_heartbeat_and_no_other_file(
    account: Account, run_id: str, source: Callable[[bytes], Path]
) -> None:
    granted = grant(account, plan_of(run_id), days=90)
    url = granted.kits["nu"]["STITCH_STORE_HEARTBEAT"]
    place, _, token = url.partition("?")
    container = place.removesuffix(f"/{run_id}/{BEAT}")
    assert container != place
    beats = opened(f"{container}?{token}")
    for data in (b"1", b"2"):
        beats.push(source(data), f"{run_id}/{BEAT}", mode="replace")
    assert beats.stat(f"{run_id}/{BEAT}") is not None  # law 5: a lost answer is read back
    for other in (f"{run_id}/sites/nu/pass_001/metrics.json", f"{run_id}/sites/nu/events/other.json"):
        with pytest.raises(StoreDenied):
            beats.push(source(b"x"), other, mode="create")


def test_a_site_reads_the_global_lane_and_cannot_write_it(
    account: Account, run_id: str, source: Callable[[bytes], Path]
) -> None:
    granted = grant(account, plan_of(run_id), days=90)
    site_store(granted, "rush", "STITCH_STORE_GLOBAL").push(source(b"{}"), "a", mode="create")
    shared = site_store(granted, "nu", "STITCH_STORE_GLOBAL")
    assert [entry.key for entry in shared.list("")] == ["a"]
    with pytest.raises(StoreDenied):
        shared.push(source(b"x"), "b", mode="create")
    with pytest.raises(StoreDenied):
        shared.push(source(b"x"), "a", mode="replace")


def test_none_of_a_site_s_tokens_opens_another_lane(
    account: Account, run_id: str, source: Callable[[bytes], Path]
) -> None:
    granted = grant(account, plan_of(run_id), days=90)
    theirs = f"{account.endpoint}/{run_id}-uc"
    for url in granted.kits["nu"].values():
        stolen = opened(f"{theirs}?{url.partition('?')[2]}")
        with pytest.raises(StoreDenied):
            stolen.stat("a")
        with pytest.raises(StoreDenied):
            list(stolen.list(""))
        with pytest.raises(StoreDenied):
            stolen.push(source(b"x"), "a", mode="create")


def test_the_lead_reads_every_lane_and_writes_none_but_its_own(
    account: Account, run_id: str, source: Callable[[bytes], Path]
) -> None:
    granted = grant(account, plan_of(run_id), days=90)
    site_store(granted).push(source(b"{}"), "a", mode="create")
    lane = site_store(granted, "rush", "STITCH_STORE_NU")
    assert [entry.key for entry in lane.list("")] == ["a"]
    with pytest.raises(StoreDenied):
        lane.push(source(b"x"), "b", mode="create")


def test_every_token_says_when_it_ends_and_hangs_on_a_policy(account: Account, run_id: str) -> None:
    granted = grant(account, plan_of(run_id), days=30)
    for url in (url for urls in granted.kits.values() for url in urls.values()):
        facts = read_sas(url.partition("?")[2])
        assert facts is not None
        assert facts.policy
        assert facts.expires == granted.until
        assert not facts.permissions  # the policy has them: Azure takes each from one place alone
    assert abs(granted.until - datetime.now(UTC) - timedelta(days=30)) < timedelta(minutes=5)


def test_a_second_time_renews_the_tokens_and_touches_nothing_else(
    account: Account, service: BlobServiceClient, run_id: str, source: Callable[[bytes], Path]
) -> None:
    first = grant(account, plan_of(run_id), days=30)
    site_store(first).push(source(b"{}"), "a", mode="create")
    before = state(service, run_id)
    second = grant(account, plan_of(run_id), days=60)
    assert (len(first.made), second.made) == (4, frozenset())
    assert state(service, run_id) == before
    assert second.until - first.until > timedelta(days=29)
    for granted in (first, second):  # a run under way goes on until its own token ends
        assert site_store(granted).stat("a") is not None


@pytest.mark.parametrize(
    ("marks", "words"),
    [
        ({}, "was not made by `provision`"),
        ({"stitch_run": "other", "stitch_lane": "global"}, "belongs to the lane global of the run other"),
    ],
)
def test_a_container_of_somebody_else_is_refused_before_anything_is_made(
    account: Account, service: BlobServiceClient, run_id: str, marks: dict[str, str], words: str
) -> None:
    service.create_container(f"{run_id}-uc", metadata=marks)
    before = state(service, run_id)
    with pytest.raises(StoreError, match=words) as caught:
        grant(account, plan_of(run_id), days=90)
    assert f"--name {run_id}-uc --metadata stitch_run={run_id} stitch_lane=sites/uc" in caught.value.hint
    assert state(service, run_id) == before
    service.get_container_client(f"{run_id}-uc").set_container_metadata(
        {"stitch_run": run_id, "stitch_lane": "sites/uc"}
    )
    assert len(grant(account, plan_of(run_id), days=90).made) == 3


def test_a_container_without_room_for_a_policy_is_refused_before_anything_is_made(
    account: Account, service: BlobServiceClient, run_id: str
) -> None:
    marks = {"stitch_run": run_id, "stitch_lane": "sites/nu"}
    account.make(f"{run_id}-nu", marks)
    account.keep(f"{run_id}-nu", {f"theirs{number}": "r" for number in range(3)})
    before = state(service, run_id)
    with pytest.raises(StoreError, match="has 5 stored access policies"):
        grant(account, plan_of(run_id), days=90)
    assert state(service, run_id) == before
    account.keep(f"{run_id}-nu", {"theirs0": "r", "theirs1": "r"})
    grant(account, plan_of(run_id), days=90)
    assert {"theirs0", "theirs1"} < set(policies(service, f"{run_id}-nu"))


def test_what_a_cut_left_behind_is_finished(
    account: Account, service: BlobServiceClient, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Account.keep
    calls: list[str] = []

    def cut(self: Account, name: str, wanted: Mapping[str, object], **options: Any) -> None:
        if calls:
            raise StoreUnavailable("the line broke")
        calls.append(name)
        whole(self, name, wanted, **options)

    monkeypatch.setattr(Account, "keep", cut)
    with pytest.raises(StoreUnavailable):
        grant(account, plan_of(run_id), days=90)
    assert len(state(service, run_id)) == 4  # made, and not all have their policies
    monkeypatch.undo()
    granted = grant(account, plan_of(run_id), days=90)
    assert granted.made == frozenset()
    assert site_store(granted).stat("a") is None
    assert {len(policies(service, name)) for name in state(service, run_id)} == {2, 3}


def test_a_policy_that_somebody_widened_is_put_right(
    account: Account, service: BlobServiceClient, run_id: str
) -> None:
    grant(account, plan_of(run_id), days=90)
    (name,) = (one for one in policies(service, f"{run_id}-nu") if one.startswith("site_"))
    account.keep(f"{run_id}-nu", {**policies(service, f"{run_id}-nu"), name: "rcwdl"})
    grant(account, plan_of(run_id), days=90)
    assert policies(service, f"{run_id}-nu")[name] == "rcl"


def test_a_key_of_another_account_says_which_one_is_wanted(azurite: Azurite, run_id: str) -> None:
    wrong = {"AZURE_STORAGE_KEY": "d3Jvbmcga2V5" * 7}
    account = open_account(azurite.endpoint, wrong, ca_bundle=None)
    with pytest.raises(StoreDenied, match="refused the credential") as caught:
        grant(account, plan_of(run_id), days=90)
    assert "AZURE_STORAGE_KEY" in caught.value.hint
    assert wrong["AZURE_STORAGE_KEY"] not in str(caught.value) + caught.value.hint


def test_on_azure_every_token_is_for_https_alone() -> None:
    account = open_account(
        "https://acct.blob.core.windows.net", {"AZURE_STORAGE_KEY": "d3Jvbmcga2V5"}, ca_bundle=None
    )
    for token in plan_of("icu").kits["nu"]:
        url = account.sign(token, "site_1", until=datetime.now(UTC))
        assert url.startswith(f"https://acct.blob.core.windows.net/{token.container}")
        facts = read_sas(url.partition("?")[2])
        assert facts is not None
        assert facts.https_only
        assert facts.scope == ("a single file" if token.blob else "one container")


def test_a_key_that_is_none_is_refused_unasked() -> None:
    with pytest.raises(ConfigError, match="not base64"):
        open_account("https://a.blob.core.windows.net", {"AZURE_STORAGE_KEY": "no key!"}, ca_bundle=None)


def test_no_url_shows_when_a_result_is_printed(account: Account, run_id: str) -> None:
    granted = grant(account, plan_of(run_id), days=90)
    assert "sig=" not in repr(granted) + repr(account) + str(granted)
