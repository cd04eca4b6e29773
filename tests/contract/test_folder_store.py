"""The folder store keeps the contract: with hard links, without them, and when a client syncs it."""

import errno
import os
from pathlib import Path

import pytest

from stitch.store import FolderStore
from stitch.testing.store_contract import StoreContract


class TestFolderStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> FolderStore:
        root = tmp_path / "share" / "root"
        root.mkdir(parents=True)
        return FolderStore(root)

    @pytest.fixture
    def missing(self, tmp_path: Path) -> FolderStore:
        return FolderStore(tmp_path / "unmounted")


class TestSyncedFolderStore(TestFolderStore):
    @pytest.fixture
    def store(self, tmp_path: Path) -> FolderStore:
        root = tmp_path / "share" / "root"
        root.mkdir(parents=True)
        return FolderStore(root, synced=True)


class TestFolderStoreWithoutHardLinks(TestFolderStore):
    @pytest.fixture(autouse=True)
    def no_links(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*args: object, **kwargs: object) -> None:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

        monkeypatch.setattr(os, "link", refuse)

    def test_the_trait_says_so(self, store: FolderStore) -> None:
        assert not store.traits.atomic_create
        assert store.traits.server_time
