"""The account as its owner opens it, and a run that nobody else has."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient

from stitch.store.azure_account import Account, open_account
from stitch.testing.azurite import Azurite


def environ(azurite: Azurite) -> dict[str, str]:
    return {"AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string}


@pytest.fixture
def account(azurite: Azurite) -> Account:
    return open_account(azurite.endpoint, environ(azurite), ca_bundle=None)


@pytest.fixture
def service(azurite: Azurite) -> BlobServiceClient:
    return BlobServiceClient.from_connection_string(azurite.connection_string, api_version="2026-06-06")


@pytest.fixture
def run_id() -> str:
    return f"icu-{secrets.token_hex(4)}"


@pytest.fixture
def source(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(data: bytes) -> Path:
        (tmp_path / "in").write_bytes(data)
        return tmp_path / "in"

    return write
