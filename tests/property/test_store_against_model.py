"""Any sequence of store calls gives what a dictionary would give, on every backend that needs no server."""

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from stitch.errors import AlreadyExists, NotFound
from stitch.store import FolderStore, Match, MemoryStore, Store

KEYS = st.sampled_from(["r/global/DONE.json", "r/global/a", "r/global/a.b", "r/global/ab/c", "r/sites/x/m"])
CONTENTS = st.binary(max_size=12)


class StoreAgainstModel(RuleBasedStateMachine):
    """The model: content by key. Etags seen stand for the content they named."""

    kind: ClassVar[str] = "memory"
    etags = Bundle("etags")

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="stitch-model-"))
        (self.folder / "share").mkdir()
        self.store: Store = MemoryStore()
        if self.kind != "memory":
            self.store = FolderStore(self.folder / "share", synced=self.kind == "synced")
        self.model: dict[str, bytes] = {}
        self.named: dict[tuple[str, str], bytes] = {}
        self.current: dict[str, str] = {}

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    def _source(self, content: bytes) -> Path:
        path = self.folder / "in"
        path.write_bytes(content)
        return path

    def _wrote(self, key: str, content: bytes, etag: str) -> tuple[str, str]:
        assert self.named.setdefault((key, etag), content) == content, "equal etags, equal bytes"
        self.model[key] = content
        self.current[key] = etag
        return key, etag

    @rule(target=etags, key=KEYS, content=CONTENTS)
    def create(self, key: str, content: bytes) -> tuple[str, str]:
        if key in self.model:
            with pytest.raises(AlreadyExists):
                self.store.push(self._source(content), key, mode="create")
            return key, self.current[key]
        return self._wrote(key, content, self.store.push(self._source(content), key, mode="create").etag)

    @rule(target=etags, key=KEYS, content=CONTENTS)
    def replace(self, key: str, content: bytes) -> tuple[str, str]:
        return self._wrote(key, content, self.store.push(self._source(content), key, mode="replace").etag)

    @rule(known=etags, content=CONTENTS)
    def swap(self, known: tuple[str, str], content: bytes) -> None:
        key, etag = known
        if self.current[key] != etag:
            with pytest.raises(AlreadyExists):
                self.store.push(self._source(content), key, mode=Match(etag))
            return
        self._wrote(key, content, self.store.push(self._source(content), key, mode=Match(etag)).etag)

    @rule(key=KEYS)
    def pull(self, key: str) -> None:
        target = self.folder / "out"
        target.unlink(missing_ok=True)
        if key not in self.model:
            with pytest.raises(NotFound):
                self.store.pull(key, target)
            assert not target.exists()
            return
        entry = self.store.pull(key, target)
        assert target.read_bytes() == self.model[key]
        assert entry.digest == hashlib.sha256(self.model[key]).hexdigest()

    @rule(known=etags)
    def poll(self, known: tuple[str, str]) -> None:
        key, etag = known
        target = self.folder / "polled"
        target.write_bytes(b"as it was")
        entry = self.store.pull(key, target, unless=etag)
        assert entry.etag == self.current[key]
        assert target.read_bytes() == (b"as it was" if etag == entry.etag else self.model[key])

    @invariant()
    def the_listing_is_the_model(self) -> None:
        if not hasattr(self, "store"):
            return
        for prefix in ("", "r/global/a", "r/sites/"):
            listed = {entry.key: (entry.size, entry.etag) for entry in self.store.list(prefix)}
            assert list(listed) == sorted(listed)
            assert listed == {
                key: (len(content), self.current[key])
                for key, content in self.model.items()
                if key.startswith(prefix)
            }


class FolderAgainstModel(StoreAgainstModel):
    kind = "folder"


class SyncedFolderAgainstModel(StoreAgainstModel):
    kind = "synced"


_SETTINGS = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestMemory = StoreAgainstModel.TestCase
TestFolder = FolderAgainstModel.TestCase
TestSyncedFolder = SyncedFolderAgainstModel.TestCase
TestMemory.settings = TestFolder.settings = TestSyncedFolder.settings = _SETTINGS
