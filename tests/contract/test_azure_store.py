"""The Azure store keeps the contract on a real Azurite, with an account key and with a site's token."""

import secrets

import pytest

from stitch.store import Store, StoreOptions, open_store
from stitch.testing.azurite import ACCOUNT, Azurite
from stitch.testing.store_contract import StoreContract


class TestAzureWithAnAccountKey(StoreContract):
    large = 35 * (1 << 20) + 17

    @pytest.fixture
    def store(self, azurite: Azurite) -> Store:
        return self._open(azurite, f"{azurite.new_container()}/a/prefix")

    @pytest.fixture
    def missing(self, azurite: Azurite) -> Store:
        return self._open(azurite, f"never-made-{secrets.token_hex(4)}")

    def _open(self, azurite: Azurite, path: str) -> Store:
        environment = {"AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string}
        return open_store(f"az://{ACCOUNT}/{path}", options=StoreOptions(environment=environment))


class TestAzureWithAContainerToken(StoreContract):
    large = 35 * (1 << 20) + 17

    @pytest.fixture
    def store(self, azurite: Azurite) -> Store:
        return open_store(azurite.container_url(azurite.new_container()), options=StoreOptions())

    @pytest.fixture
    def missing(self, azurite: Azurite) -> Store:
        url = azurite.container_url(f"never-made-{secrets.token_hex(4)}")
        return open_store(url, options=StoreOptions())
