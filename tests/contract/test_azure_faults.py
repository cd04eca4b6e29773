"""What a bad network does to the Azure store: nothing wrong is delivered, nothing is sent twice in vain."""

import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from stitch.clock import SystemClock
from stitch.errors import AlreadyExists, OutcomeUnknown, StoreUnavailable
from stitch.store import Match, Mode, RetryingStore, Store, StoreOptions, open_store
from stitch.store.azure_upload import BLOCK
from stitch.testing.azurite import Azurite
from stitch.testing.fault_proxy import FaultProxy, Rule

MIB = 1 << 20


@pytest.fixture
def proxy(azurite: Azurite) -> Iterator[FaultProxy]:
    with FaultProxy(azurite.port) as proxy:
        yield proxy


@pytest.fixture
def bare(azurite: Azurite, proxy: FaultProxy) -> Store:
    """The backend without retries, through the proxy."""
    url = azurite.container_url(azurite.new_container())
    return open_store(url.replace(f":{azurite.port}/", f":{proxy.port}/"), options=StoreOptions())


@pytest.fixture
def store(bare: Store) -> RetryingStore:
    return RetryingStore(bare, max_retries=3, backoff_seconds=0)


def _file(tmp_path: Path, size: int, name: str = "in") -> Path:
    path = tmp_path / name
    path.write_bytes(secrets.token_bytes(size))
    return path


def _same(first: Path, second: Path) -> bool:
    return hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()


def test_busy_answers_are_retried_once_each(store: RetryingStore, proxy: FaultProxy, tmp_path: Path) -> None:
    source = _file(tmp_path, 1000)
    proxy.add(Rule("status", "PUT", status=503, times=2))
    store.push(source, "a", mode="create")
    assert proxy.count("PUT") == 3
    proxy.add(Rule("status", "GET", status=500), Rule("status", "HEAD", status=429))
    store.pull("a", tmp_path / "out")
    assert store.stat("a")
    assert (proxy.count("GET"), proxy.count("HEAD")) == (2, 2)
    assert _same(source, tmp_path / "out")


@pytest.mark.parametrize("status", [429, 503])
def test_the_pause_a_store_asks_for_is_kept(
    store: RetryingStore, proxy: FaultProxy, tmp_path: Path, status: int
) -> None:
    proxy.add(Rule("status", "PUT", status=status, headers={"Retry-After": "1"}))
    began = time.monotonic()
    store.push(_file(tmp_path, 10), "a", mode="create")
    assert time.monotonic() - began >= 1


def test_sdk_and_our_own_retries_do_not_multiply(
    store: RetryingStore, proxy: FaultProxy, tmp_path: Path
) -> None:
    proxy.add(Rule("status", "PUT", times=100))
    with pytest.raises(StoreUnavailable):
        store.push(_file(tmp_path, 10), "a", mode="create")
    assert proxy.count("PUT") == 4


@pytest.mark.parametrize("mode", ["create", "replace"])
@pytest.mark.parametrize(("size", "commit"), [(1000, ""), (17 * MIB, "comp=blocklist")])
def test_a_lost_reply_is_settled_by_reading_back(
    bare: Store, store: RetryingStore, proxy: FaultProxy, tmp_path: Path, size: int, commit: str, mode: str
) -> None:
    source = _file(tmp_path, size)
    proxy.add(Rule("lose_reply", "PUT", containing=commit))
    wanted: Mode = "create" if mode == "create" else "replace"
    entry = store.push(source, "a", mode=wanted)
    assert entry.digest == hashlib.sha256(source.read_bytes()).hexdigest()
    assert proxy.count("PUT", commit or "/a?") == 1
    proxy.add(Rule("lose_reply", "PUT", containing=commit))
    with pytest.raises(OutcomeUnknown):
        bare.push(source, "b", mode=wanted)


def test_a_lost_reply_of_a_swap_is_settled_too(
    store: RetryingStore, proxy: FaultProxy, tmp_path: Path
) -> None:
    first = store.push(_file(tmp_path, 10), "a", mode="create")
    proxy.add(Rule("lose_reply", "PUT"))
    second = store.push(_file(tmp_path, 10), "a", mode=Match(first.etag))
    assert store.stat("a") == second
    with pytest.raises(AlreadyExists):
        store.push(_file(tmp_path, 10), "a", mode=Match(first.etag))


def test_a_lost_reply_beside_foreign_bytes_is_a_conflict(
    store: RetryingStore, proxy: FaultProxy, tmp_path: Path
) -> None:
    store.push(_file(tmp_path, 10), "a", mode="create")
    proxy.add(Rule("reset_request", "PUT"))
    with pytest.raises(AlreadyExists):
        store.push(_file(tmp_path, 10), "a", mode="create")


def test_an_upload_cut_in_the_middle_resends_only_what_was_lost(
    store: RetryingStore, proxy: FaultProxy, tmp_path: Path
) -> None:
    source = _file(tmp_path, 9 * BLOCK + MIB)
    proxy.add(Rule("reset_request", "PUT", containing="comp=block&", skip=4))
    store.push(source, "a", mode="create")
    store.pull("a", tmp_path / "out")
    assert _same(source, tmp_path / "out")
    assert 10 < proxy.count("PUT", "comp=block&") <= 10 + 4


@pytest.mark.parametrize("damage", ["truncate_reply", "flip_reply", "lose_reply"])
@pytest.mark.parametrize("size", [100_000, 40 * MIB])
def test_a_damaged_download_is_never_delivered(
    store: RetryingStore, bare: Store, proxy: FaultProxy, tmp_path: Path, size: int, damage: str
) -> None:
    source = _file(tmp_path, size)
    store.push(source, "a", mode="create")
    proxy.add(Rule(damage, "GET"))  # type: ignore[arg-type]  # parametrised text
    entry = store.pull("a", tmp_path / "out")
    assert _same(source, tmp_path / "out")
    assert entry.digest == hashlib.sha256(source.read_bytes()).hexdigest()


def test_one_flipped_bit_is_noticed_and_the_part_thrown_away(
    bare: Store, proxy: FaultProxy, tmp_path: Path
) -> None:
    bare.push(_file(tmp_path, 40 * MIB), "a", mode="create")
    proxy.add(Rule("flip_reply", "GET"))
    with pytest.raises(StoreUnavailable, match="not those that were stored"):
        bare.pull("a", tmp_path / "out")
    assert list(tmp_path.glob("out*")) == []


@pytest.mark.parametrize("part", ["kept", "shortened", "gone"])
def test_a_download_continues_where_it_was_cut(
    bare: Store, proxy: FaultProxy, tmp_path: Path, part: str
) -> None:
    source = _file(tmp_path, 80 * MIB)
    bare.push(source, "a", mode="create")
    proxy.add(Rule("truncate_reply", "GET"), Rule("status", "GET", times=20))
    with pytest.raises(StoreUnavailable):
        bare.pull("a", tmp_path / "out")
    noted = _noted(tmp_path / "out.part.state")
    assert noted > 8 * MIB
    proxy.clear()
    if part == "shortened":
        os.truncate(tmp_path / "out.part", MIB)
    elif part == "gone":
        (tmp_path / "out.part").unlink()
    heard: list[int] = []
    bare.pull("a", tmp_path / "out", progress=lambda done, total: heard.append(done))
    assert (heard[0] > noted) == (part == "kept")
    assert _same(source, tmp_path / "out")
    assert [path.name for path in tmp_path.glob("out*")] == ["out"]


def _noted(state: Path) -> int:
    segments = json.loads(state.read_text(encoding="utf-8"))["segments"]
    return sum(here - start for start, here, _ in segments)


def test_a_part_of_another_version_is_not_continued(bare: Store, proxy: FaultProxy, tmp_path: Path) -> None:
    bare.push(_file(tmp_path, 40 * MIB), "a", mode="create")
    proxy.add(Rule("truncate_reply", "GET"), Rule("status", "GET", times=20))
    with pytest.raises(StoreUnavailable):
        bare.pull("a", tmp_path / "out")
    proxy.clear()
    source = _file(tmp_path, 40 * MIB)
    bare.push(source, "a", mode="replace")
    bare.pull("a", tmp_path / "out")
    assert _same(source, tmp_path / "out")


class _SlowLine(SystemClock):
    """Ten seconds pass between any two looks: every transfer seems to crawl."""

    def __init__(self) -> None:
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return 10.0 * self.looks


@pytest.fixture
def crawling(azurite: Azurite, proxy: FaultProxy) -> Store:
    url = azurite.container_url(azurite.new_container())
    return open_store(
        url.replace(f":{azurite.port}/", f":{proxy.port}/"), options=StoreOptions(clock=_SlowLine())
    )


def test_a_slow_line_gets_four_connections_and_a_fast_one_a_single_request(
    crawling: Store, bare: Store, proxy: FaultProxy, tmp_path: Path
) -> None:
    source = _file(tmp_path, 64 * MIB)
    for store, requests in ((crawling, range(4, 9)), (bare, range(1, 5))):
        store.push(source, "a", mode="create")
        before = proxy.count("GET")
        store.pull("a", tmp_path / "out")
        assert proxy.count("GET") - before in requests
        assert _same(source, tmp_path / "out")


def test_a_split_download_that_was_cut_continues_all_its_segments(
    crawling: Store, proxy: FaultProxy, tmp_path: Path
) -> None:
    source = _file(tmp_path, 64 * MIB)
    crawling.push(source, "a", mode="create")
    proxy.add(Rule("truncate_reply", "GET", skip=2), Rule("status", "GET", times=20))
    with pytest.raises(StoreUnavailable):
        crawling.pull("a", tmp_path / "out")
    assert _noted(tmp_path / "out.part.state") > 0
    proxy.clear()
    crawling.pull("a", tmp_path / "out")
    assert _same(source, tmp_path / "out")


def test_a_version_that_comes_while_an_older_one_is_read_is_not_mixed_into_it(
    crawling: Store, tmp_path: Path
) -> None:
    crawling.push(_file(tmp_path, 64 * MIB), "a", mode="create")
    newer = _file(tmp_path, 64 * MIB, "newer")
    came: list[str] = []

    def replace_at_once(done: int, total: int) -> None:
        if not came:
            came.append("")
            came[0] = crawling.push(newer, "a", mode="replace").etag

    with pytest.raises(StoreUnavailable, match="another version came"):
        crawling.pull("a", tmp_path / "out", progress=replace_at_once)
    assert crawling.pull("a", tmp_path / "out").etag == came[0]
    assert _same(newer, tmp_path / "out")


def test_a_present_large_file_costs_no_upload(bare: Store, proxy: FaultProxy, tmp_path: Path) -> None:
    bare.push(_file(tmp_path, 10), "a", mode="create")
    puts = proxy.count("PUT")
    with pytest.raises(AlreadyExists):
        bare.push(_file(tmp_path, 17 * MIB), "a", mode="create")
    assert proxy.count("PUT") == puts


def test_a_poll_of_an_unchanged_key_is_one_request(bare: Store, proxy: FaultProxy, tmp_path: Path) -> None:
    entry = bare.push(_file(tmp_path, 10), "a", mode="create")
    pulled = bare.pull("a", tmp_path / "out")
    before = len(proxy.seen)
    assert bare.pull("a", tmp_path / "out", unless=entry.etag) == pulled
    assert len(proxy.seen) - before == 1


def test_a_poll_of_what_we_wrote_ourselves_is_one_request_from_the_second_on(
    bare: Store, proxy: FaultProxy, tmp_path: Path
) -> None:
    entry = bare.push(_file(tmp_path, 10), "a", mode="create")
    bare.pull("a", tmp_path / "out", unless=entry.etag)
    before = len(proxy.seen)
    assert bare.pull("a", tmp_path / "out", unless=entry.etag).etag == entry.etag
    assert len(proxy.seen) - before == 1


def test_a_version_that_comes_between_unchanged_and_the_look_at_it_is_pulled(
    azurite: Azurite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer "unchanged" describes nothing; what the next one describes may be newer."""
    url = azurite.container_url(azurite.new_container())
    ours, theirs = (open_store(url, options=StoreOptions()) for _ in range(2))
    entry = ours.push(_file(tmp_path, 10), "a", mode="create")
    newer = _file(tmp_path, 20, "newer")
    look = ours._stat  # type: ignore[attr-defined]  # the backend's own look, between whose answers a rival writes

    def late(key: str) -> object:
        if not (tmp_path / "out").exists():
            theirs.push(newer, "a", mode="replace")
        return look(key)

    monkeypatch.setattr(ours, "_stat", late)
    found = ours.pull("a", tmp_path / "out", unless=entry.etag)
    assert found.etag != entry.etag
    assert _same(newer, tmp_path / "out")


def test_the_store_clock_costs_no_request_after_any_answer(bare: Store, proxy: FaultProxy) -> None:
    first = bare.now()
    assert len(proxy.seen) == 1
    assert timedelta(0) <= bare.now() - first < timedelta(seconds=30)
    assert len(proxy.seen) == 1


@pytest.mark.parametrize(("size", "request_"), [(1000, "/a?"), (30 * MIB, "comp=block&")])
def test_an_upload_damaged_on_its_way_is_refused_and_sent_again(
    store: RetryingStore, bare: Store, proxy: FaultProxy, tmp_path: Path, size: int, request_: str
) -> None:
    source = _file(tmp_path, size)
    proxy.add(Rule("flip_request", "PUT", containing=request_, skip=1 if size > MIB else 0))
    entry = store.push(source, "a", mode="create")
    assert entry.digest == hashlib.sha256(source.read_bytes()).hexdigest()
    assert [status for verb, target, status in proxy.statuses if verb == "PUT" and status >= 400] == [400]
    bare.pull("a", tmp_path / "out")
    assert _same(source, tmp_path / "out")
