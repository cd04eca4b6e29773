"""Every reason for which Azure says no is told apart, and no message holds a signature."""

import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from stitch.errors import ConfigError, NotFound, StoreDenied, StoreError
from stitch.store import Store, StoreOptions, open_store, redact
from stitch.testing.azurite import ACCOUNT, Azurite
from stitch.testing.fault_proxy import FaultProxy, Rule


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.write_bytes(b"1")
    return path


def _open(azurite: Azurite, container: str, token: str) -> Store:
    return open_store(f"{azurite.endpoint}/{container}?{token}", options=StoreOptions())


def _signature(token: str) -> str:
    return token.partition("sig=")[2].partition("&")[0]


def _refused(store: Store, source: Path, token: str, kind: type[StoreError] = StoreDenied) -> str:
    with pytest.raises(kind) as caught:
        store.push(source, "run/global/DONE.json", mode="create")
    shown = f"{caught.value} {caught.value.hint} {caught.value!r} {caught.value.__cause__!r}"
    assert _signature(token) not in shown
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_expired_token(azurite: Azurite, source: Path) -> None:
    container = azurite.new_container()
    token = azurite.sas(container, expires_in=timedelta(minutes=-5))
    assert "expired at" in _refused(_open(azurite, container, token), source, token)


def test_a_token_that_is_not_valid_yet(azurite: Azurite, source: Path) -> None:
    container = azurite.new_container()
    token = azurite.sas(container, starts_in=timedelta(hours=2))
    assert "is valid from" in _refused(_open(azurite, container, token), source, token)


def test_a_token_without_the_permission(azurite: Azurite, source: Path, tmp_path: Path) -> None:
    container = azurite.new_container()
    token = azurite.sas(container, "rl")
    store = _open(azurite, container, token)
    assert "creating files needs c" in _refused(store, source, token)
    token = azurite.sas(container, "cw")
    with pytest.raises(StoreDenied, match="reading files needs r"):
        _open(azurite, container, token).pull("a", tmp_path / "out")
    with pytest.raises(StoreDenied, match="listing needs l"):
        list(_open(azurite, container, token).list(""))


def test_a_mistyped_signature_and_a_token_of_another_container(azurite: Azurite, source: Path) -> None:
    container = azurite.new_container()
    token = azurite.sas(container)
    first = _signature(token)[0]
    broken = token.replace(f"sig={first}", f"sig={'A' if first != 'A' else 'B'}")
    foreign = azurite.sas(azurite.new_container())
    for wrong in (broken, foreign):
        assert "signature is wrong" in _refused(_open(azurite, container, wrong), source, wrong)


def test_a_wrong_account_key(azurite: Azurite, source: Path) -> None:
    environment = {"AZURE_STORAGE_KEY": "d3Jvbmcga2V5"}
    store = open_store(
        f"{azurite.endpoint}/{azurite.new_container()}", options=StoreOptions(environment=environment)
    )
    assert "refused the credential" in _refused(store, source, "sig=d3Jvbmcga2V5")


def test_a_missing_container_is_named(azurite: Azurite, source: Path) -> None:
    token = azurite.sas("nowhere")
    said = _refused(_open(azurite, "nowhere", token), source, token, NotFound)
    assert "container nowhere does not exist" in said


def test_a_token_that_may_only_create_and_read_suffices_for_small_files(
    azurite: Azurite, source: Path, tmp_path: Path
) -> None:
    container = azurite.new_container()
    store = _open(azurite, container, azurite.sas(container, "rcl"))
    store.push(source, "a", mode="create")
    store.pull("a", tmp_path / "out")
    with pytest.raises(StoreDenied, match="overwriting the heartbeat needs w"):
        store.push(source, "a", mode="replace")


def test_a_write_only_token_uploads_large_files_without_looking(azurite: Azurite, tmp_path: Path) -> None:
    container = azurite.new_container()
    source = tmp_path / "in"
    source.write_bytes(b"x" * (17 << 20))
    _open(azurite, container, azurite.sas(container, "w")).push(source, "a", mode="create")
    assert _open(azurite, container, azurite.sas(container, "r")).stat("a")


def test_a_service_that_refuses_the_pinned_version_is_explained(
    azurite: Azurite, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = azurite.new_container()
    token = azurite.sas(container)
    monkeypatch.setattr("stitch.store.azure_client.API_VERSION", "2026-10-06")
    monkeypatch.setattr("stitch.store.azure.API_VERSION", "2026-10-06")
    said = _refused(_open(azurite, container, token), source, token, StoreError)
    assert "does not speak the Azure Storage version 2026-10-06" in said


def test_no_credential_at_all_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "azure.identity", None)
    with pytest.raises(ConfigError, match="no credential"):
        open_store("az://acct1/box", options=StoreOptions())


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


def test_no_log_at_any_level_holds_a_signature(
    azurite: Azurite, source: Path, tmp_path: Path, everything_logged: pytest.LogCaptureFixture
) -> None:
    container = azurite.new_container()
    token = azurite.sas(container)
    with FaultProxy(azurite.port) as proxy:
        proxy.add(Rule("reset_request", "PUT"), Rule("status", "GET"))
        url = f"http://127.0.0.1:{proxy.port}/{ACCOUNT}/{container}?{token}"
        store = open_store(url, options=StoreOptions())
        for _ in range(2):
            try:
                store.push(source, "a", mode="create")
                store.pull("a", tmp_path / "out")
            except StoreError as error:
                logging.getLogger("test").exception("failed", exc_info=error)
    assert everything_logged.records
    assert _signature(token) not in everything_logged.text
    assert "sig=" not in everything_logged.text


def test_redact_removes_what_a_person_might_paste() -> None:
    secret = "AbC%2Bd/9=="
    for text in (
        f"https://a.blob.core.windows.net/c?sv=1&sig={secret}&sp=r",
        f"AccountName=a;AccountKey={secret};EndpointSuffix=core",
        f"Authorization: SharedKey acct:{secret}",
        f"SharedAccessSignature=sv=1&sig={secret}",
        f"http://user:{secret}@proxy:8080",
    ):
        assert "AbC" not in redact(text), text
    assert redact("nothing secret, sigh=1") == "nothing secret, sigh=1"
