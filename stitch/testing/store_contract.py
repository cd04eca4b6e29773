"""The suite every store backend passes. Subclass it, give it a `store` fixture, let pytest collect it.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self, tmp_path):
            return MyStore(...)

A promise that `Traits` does not make is tested in its weaker form, never skipped.
"""

# A published test suite: asserts are its business, and a test's name says what it shows.
# ruff: noqa: S101, D102

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stitch.errors import AlreadyExists, DigestMismatch, DiskError, NotFound, StoreError, StoreMissing
from stitch.store.base import Entry, Match, Mode, Store

_SLACK = timedelta(seconds=3)
"""Stores write times in whole seconds; the clocks compared are on one machine."""


class StoreContract:
    """What `stitch.store.base.Store` says, as tests.

    Attributes:
        large: bytes of a file that the backend moves in several pieces.
    """

    large: int = 3 * (1 << 20) + 17

    @pytest.fixture
    def store(self) -> Store:
        """An empty store."""
        raise NotImplementedError

    @pytest.fixture
    def missing(self) -> Store | None:
        """A store whose container or root folder is not there; None where that cannot be."""
        return None

    @pytest.fixture
    def put(self, store: Store, tmp_path: Path) -> Callable[..., Entry]:
        """Pushes bytes: `put(key, content, mode="create")`."""

        def put(key: str, content: bytes, *, mode: Mode = "create") -> Entry:
            source = tmp_path / f"source-{secrets.token_hex(4)}"
            source.write_bytes(content)
            return store.push(source, key, mode=mode)

        return put

    @pytest.fixture
    def get(self, store: Store, tmp_path: Path) -> Callable[[str], bytes]:
        """Pulls bytes: `get(key)`."""

        def get(key: str) -> bytes:
            target = tmp_path / f"target-{secrets.token_hex(4)}"
            store.pull(key, target)
            return target.read_bytes()

        return get

    @pytest.mark.parametrize("size", [0, 1, 100_000])
    def test_what_goes_in_comes_out(self, store: Store, tmp_path: Path, size: int) -> None:
        self._round_trip(store, tmp_path, size)

    def test_a_large_file_goes_through_in_pieces(self, store: Store, tmp_path: Path) -> None:
        self._round_trip(store, tmp_path, self.large)

    def _round_trip(self, store: Store, tmp_path: Path, size: int) -> None:
        source, target = tmp_path / "in", tmp_path / "out"
        content = secrets.token_bytes(size)
        source.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        pushed = store.push(source, "run/global/pass_001/model.npz", mode="create")
        pulled = store.pull("run/global/pass_001/model.npz", target)
        assert target.read_bytes() == content
        assert (pushed.size, pushed.digest) == (size, digest)
        assert (pulled.size, pulled.digest, pulled.etag) == (size, digest, pushed.etag)
        assert not list(tmp_path.glob("*.part*"))

    def test_push_stat_list_and_pull_describe_the_same_version(
        self, store: Store, put: Callable[..., Entry]
    ) -> None:
        pushed = put("a/b.json", b"{}")
        found = store.stat("a/b.json")
        listed = list(store.list("a/"))
        assert found is not None
        for entry in (found, *listed):
            assert (entry.key, entry.size, entry.etag) == ("a/b.json", 2, pushed.etag)
            assert entry.digest in (None, hashlib.sha256(b"{}").hexdigest())
        assert len(listed) == 1
        assert '"' not in pushed.etag
        assert not pushed.etag.startswith("W/")

    def test_times_are_aware_utc_and_near_now(self, store: Store, put: Callable[..., Entry]) -> None:
        before, entry = store.now(), put("a", b"1")
        assert entry.modified.utcoffset() == timedelta(0)
        assert before.utcoffset() == timedelta(0)
        if store.traits.server_time:
            assert before - _SLACK <= entry.modified <= store.now() + _SLACK
        else:
            assert abs(before - datetime.now(UTC)) < _SLACK

    def test_an_absent_key_has_no_stat_and_cannot_be_pulled(self, store: Store, tmp_path: Path) -> None:
        assert store.stat("no/such.json") is None
        with pytest.raises(NotFound):
            store.pull("no/such.json", tmp_path / "out")
        assert list(tmp_path.glob("out*")) == []

    def test_a_prefix_of_a_key_is_not_a_key(self, store: Store, put: Callable[..., Entry]) -> None:
        put("a/b/c.json", b"1")
        assert store.stat("a/b/c.jso") is None
        assert store.stat("a/b/c.json/d") is None

    def test_create_refuses_a_present_key_and_leaves_it(
        self, put: Callable[..., Entry], get: Callable[[str], bytes]
    ) -> None:
        put("a", b"first")
        with pytest.raises(AlreadyExists):
            put("a", b"second")
        assert get("a") == b"first"

    def test_create_of_a_large_present_key_refuses(
        self, put: Callable[..., Entry], get: Callable[[str], bytes]
    ) -> None:
        put("a", b"first")
        with pytest.raises(AlreadyExists):
            put("a", secrets.token_bytes(self.large))
        assert get("a") == b"first"

    def test_replace_overwrites_and_changes_the_etag(
        self, put: Callable[..., Entry], get: Callable[[str], bytes]
    ) -> None:
        etags = {put("a", bytes([65 + n]), mode="replace").etag for n in range(20)}
        assert len(etags) == 20
        assert get("a") == b"T"

    def test_match_replaces_only_the_version_it_names(
        self, put: Callable[..., Entry], get: Callable[[str], bytes]
    ) -> None:
        first = put("a", b"1")
        second = put("a", b"2", mode=Match(first.etag))
        with pytest.raises(AlreadyExists):
            put("a", b"3", mode=Match(first.etag))
        with pytest.raises(AlreadyExists):
            put("absent", b"3", mode=Match(second.etag))
        assert get("a") == b"2"

    def test_racing_creates_leave_one_whole_winner(self, store: Store, tmp_path: Path) -> None:
        for turn in range(5):
            won = self._race(store, tmp_path, f"race/{turn}", "create")
            store.pull(f"race/{turn}", tmp_path / "seen")
            seen = (tmp_path / "seen").read_bytes()
            if store.traits.atomic_create:
                assert len(won) == 1
                assert seen == won[0]
            else:
                assert seen in won

    def test_racing_matches_leave_one_winner(
        self, store: Store, put: Callable[..., Entry], tmp_path: Path
    ) -> None:
        for turn in range(5):
            base = put(f"race/{turn}", b"base")
            won = self._race(store, tmp_path, f"race/{turn}", Match(base.etag))
            assert len(won) == 1 or not store.traits.compare_and_swap
            store.pull(f"race/{turn}", tmp_path / "seen")
            assert (tmp_path / "seen").read_bytes() in won

    def _race(self, store: Store, tmp_path: Path, key: str, mode: Mode) -> list[bytes]:
        start = threading.Barrier(6)

        def push(number: int) -> bytes | None:
            source = tmp_path / f"racer-{number}"
            source.write_bytes(bytes([48 + number]) * 1000)
            start.wait()
            try:
                store.push(source, key, mode=mode)
            except AlreadyExists:
                return None
            return source.read_bytes()

        with ThreadPoolExecutor(6) as pool:
            return [content for content in pool.map(push, range(6)) if content]

    def test_a_reader_sees_whole_versions_only(
        self, store: Store, put: Callable[..., Entry], tmp_path: Path
    ) -> None:
        put("a", b"\0" * 70_000)
        done = threading.Event()

        def write() -> None:
            for n in range(1, 30):
                put("a", bytes([n]) * 70_000, mode="replace")
            done.set()

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            while not done.is_set() and not writing.done():
                try:
                    store.pull("a", tmp_path / "out")
                except StoreError:
                    continue
                content = (tmp_path / "out").read_bytes()
                assert content == content[:1] * 70_000
            writing.result()

    def test_a_digest_that_differs_stops_the_push(self, store: Store, tmp_path: Path) -> None:
        source = tmp_path / "in"
        for size in (10, self.large):
            source.write_bytes(secrets.token_bytes(size))
            with pytest.raises(DigestMismatch):
                store.push(source, "a", mode="create", digest="0" * 64)
            assert store.stat("a") is None
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        assert store.push(source, "a", mode="create", digest=digest).digest == digest

    def test_list_is_a_sorted_string_prefix_at_any_depth(
        self, store: Store, put: Callable[..., Entry]
    ) -> None:
        keys = ["r/a.json", "r/a/b.json", "r/a/c/d.json", "r/ab.json", "r2/a.json", "r/a-1/x"]
        for key in keys:
            put(key, key.encode())
        for prefix in ("", "r", "r/", "r/a", "r/a/", "r/a/c/d.js", "r/a/c/d.json", "none", "r/a.json/"):
            wanted = sorted(key for key in keys if key.startswith(prefix))
            assert [entry.key for entry in store.list(prefix)] == wanted, prefix

    def test_pull_of_the_known_version_moves_nothing(
        self, store: Store, put: Callable[..., Entry], tmp_path: Path
    ) -> None:
        first = put("a", b"1")
        target = tmp_path / "out"
        target.write_bytes(b"mine")
        assert store.pull("a", target, unless=first.etag).etag == first.etag
        assert target.read_bytes() == b"mine"
        second = put("a", b"2", mode="replace")
        assert store.pull("a", target, unless=first.etag).etag == second.etag
        assert target.read_bytes() == b"2"
        with pytest.raises(NotFound):
            store.pull("b", target, unless=first.etag)

    def test_progress_ends_at_the_size(self, store: Store, tmp_path: Path) -> None:
        source = tmp_path / "in"
        source.write_bytes(secrets.token_bytes(self.large))
        up: list[tuple[int, int]] = []
        down: list[tuple[int, int]] = []
        store.push(source, "a", mode="create", progress=lambda done, total: up.append((done, total)))
        store.pull("a", tmp_path / "out", progress=lambda done, total: down.append((done, total)))
        for heard in (up, down):
            assert heard[-1] == (self.large, self.large)
            assert [done for done, _ in heard] == sorted(done for done, _ in heard)

    def test_the_own_disk_is_told_apart_from_the_store(
        self, store: Store, put: Callable[..., Entry], tmp_path: Path
    ) -> None:
        put("a", b"1")
        with pytest.raises(DiskError):
            store.pull("a", tmp_path / "no" / "folder")
        with pytest.raises(DiskError):
            store.push(tmp_path / "absent", "b", mode="create")
        assert store.stat("b") is None

    @pytest.mark.parametrize(
        "key",
        ["", "/a", "a/", "a//b", "../a", "a/../b", "./a", "a\\b", "a.part", ".hidden/a", "a.", "a\n", "C:a"],
    )
    def test_keys_that_some_backend_would_change_are_refused(
        self, store: Store, put: Callable[..., Entry], tmp_path: Path, key: str
    ) -> None:
        acts: list[Callable[[], object]] = [
            lambda: put(key, b"1"),
            lambda: store.stat(key),
            lambda: store.pull(key, tmp_path / "out"),
        ]
        for act in acts:
            with pytest.raises(StoreError, match="portable"):
                act()

    def test_many_threads_share_one_store(self, store: Store, tmp_path: Path) -> None:
        def one(number: int) -> bytes:
            source, target = tmp_path / f"in-{number}", tmp_path / f"out-{number}"
            source.write_bytes(bytes([number]) * 1000)
            store.push(source, f"many/{number:03d}", mode="create")
            store.pull(f"many/{number:03d}", target)
            return target.read_bytes()

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(one, range(24))) == [bytes([n]) * 1000 for n in range(24)]
        assert len(list(store.list("many/"))) == 24

    def test_a_missing_root_is_not_an_empty_store(self, missing: Store | None, tmp_path: Path) -> None:
        if missing is None:
            return
        source = tmp_path / "in"
        source.write_bytes(b"1")
        for act in (
            lambda: missing.stat("a"),
            lambda: list(missing.list("")),
            lambda: missing.pull("a", tmp_path / "out"),
            lambda: missing.push(source, "a", mode="create"),
            lambda: missing.push(source, "a", mode="replace"),
        ):
            with pytest.raises(StoreMissing, match="does not exist"):
                act()
