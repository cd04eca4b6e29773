"""What is tried again, for how long, and how a lost reply is settled (law 5)."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stitch.errors import AlreadyExists, NotFound, OutcomeUnknown, StoreDenied, StoreUnavailable
from stitch.store import Entry, Match, MemoryStore, Mode, Progress, RetryingStore, Store
from stitch.testing import Call, Fault, FaultyStore, by_chance, once, scripted
from stitch.testing.store_contract import StoreContract


class TestRetryingOverAFaultyStore(StoreContract):
    """The whole contract holds while a third of all calls fail."""

    @pytest.fixture
    def store(self) -> Store:
        rates: dict[Fault, float] = {"lose_request": 0.1, "lose_reply": 0.1, "unavailable": 0.1}
        faulty = FaultyStore(MemoryStore(), by_chance(random.Random(7), rates))
        return RetryingStore(faulty, max_retries=40, backoff_seconds=0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.write_bytes(b"ours")
    return path


def _retrying(inner: Store, plan: Callable[[Call], Fault | None]) -> RetryingStore:
    return RetryingStore(FaultyStore(inner, plan), max_retries=3, backoff_seconds=0)


@pytest.mark.parametrize("fault", ["lose_request", "lose_reply", "unavailable"])
def test_a_create_that_failed_on_the_way_succeeds_once(source: Path, fault: Fault) -> None:
    inner = MemoryStore()
    entry = _retrying(inner, once(fault, verb="push")).push(source, "a", mode="create")
    assert inner.stat("a") == entry


def test_a_swap_whose_reply_was_lost_is_recognised_by_its_bytes(source: Path, tmp_path: Path) -> None:
    inner = MemoryStore()
    (tmp_path / "old").write_bytes(b"old")
    old = inner.push(tmp_path / "old", "a", mode="create")
    entry = _retrying(inner, once("lose_reply", verb="push")).push(source, "a", mode=Match(old.etag))
    assert inner.stat("a") == entry


def test_a_lost_create_that_met_other_bytes_is_a_conflict(source: Path, tmp_path: Path) -> None:
    inner = MemoryStore()
    (tmp_path / "theirs").write_bytes(b"their")
    inner.push(tmp_path / "theirs", "a", mode="create")
    with pytest.raises(AlreadyExists):
        _retrying(inner, once("lose_request", verb="push")).push(source, "a", mode="create")


def test_equal_bytes_met_without_an_own_failure_stay_a_refusal(source: Path) -> None:
    inner = MemoryStore()
    inner.push(source, "a", mode="create")
    with pytest.raises(AlreadyExists):
        RetryingStore(inner, backoff_seconds=0).push(source, "a", mode="create")


def test_a_lost_reply_on_the_last_try_is_still_read_back(source: Path) -> None:
    inner = MemoryStore()
    store = RetryingStore(FaultyStore(inner, scripted({0: "lose_reply"})), max_retries=0, backoff_seconds=0)
    assert store.push(source, "a", mode="create") == inner.stat("a")


def test_an_outcome_that_cannot_be_read_back_stays_unknown(source: Path) -> None:
    def all_pushes_lost(call: Call) -> Fault | None:
        return "lose_request" if call.verb == "push" else None

    with pytest.raises(OutcomeUnknown):
        _retrying(MemoryStore(), all_pushes_lost).push(source, "a", mode="create")


class _NoDigest(MemoryStore):
    def stat(self, key: str) -> Entry | None:
        entry = super().stat(key)
        return entry and Entry(entry.key, entry.size, entry.etag, entry.modified)


@pytest.mark.parametrize(("stored", "same"), [(b"ours", True), (b"ouch", False)])
def test_a_store_without_digests_is_read_back_by_pulling(
    source: Path, tmp_path: Path, stored: bytes, same: bool
) -> None:
    inner = _NoDigest()
    (tmp_path / "stored").write_bytes(stored)

    def theirs_arrives_while_ours_is_lost(call: Call) -> Fault | None:
        if call.verb == "push":
            inner.push(tmp_path / "stored", "a", mode="replace")
            return "lose_request"
        return None

    store = _retrying(inner, theirs_arrives_while_ours_is_lost)
    if same:
        assert store.push(source, "a", mode="create").digest
    else:
        with pytest.raises(AlreadyExists):
            store.push(source, "a", mode="create")


class _Failing(MemoryStore):
    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)
        self.calls = 0

    def stat(self, key: str) -> Entry | None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return super().stat(key)


@pytest.mark.parametrize("error", [StoreDenied("no"), NotFound("no"), AlreadyExists("no")])
def test_refusals_are_never_retried(error: Exception) -> None:
    inner = _Failing(error)
    with pytest.raises(type(error)):
        RetryingStore(inner, backoff_seconds=0).stat("a")
    assert inner.calls == 1


def test_the_budget_of_retries_is_kept() -> None:
    inner = _Failing(*[StoreUnavailable("busy")] * 20)
    with pytest.raises(StoreUnavailable, match="busy"):
        RetryingStore(inner, max_retries=4, backoff_seconds=0).stat("a")
    assert inner.calls == 5


class _BreaksAt(MemoryStore):
    """Breaks each push at the next of some lengths."""

    def __init__(self, *lengths: int) -> None:
        super().__init__()
        self.lengths = list(lengths)

    def push(
        self, src: Path, key: str, *, mode: Mode, digest: str = "", progress: Progress | None = None
    ) -> Entry:
        if self.lengths:
            assert progress
            progress(self.lengths.pop(0), 100)
            raise StoreUnavailable("the line broke")
        return super().push(src, key, mode=mode, digest=digest, progress=progress)


def test_a_transfer_that_gets_further_each_time_does_not_run_out_of_tries(source: Path) -> None:
    store = RetryingStore(_BreaksAt(*range(1, 50)), max_retries=1, backoff_seconds=0)
    assert store.push(source, "a", mode="create").size == 4


def test_a_transfer_that_stays_where_it_was_does(source: Path) -> None:
    inner = _BreaksAt(5, 5, 5, 5)
    with pytest.raises(StoreUnavailable):
        RetryingStore(inner, max_retries=2, backoff_seconds=0).push(source, "a", mode="create")
    assert inner.lengths == [5]


def test_retry_after_is_waited_for() -> None:
    inner = _Failing(StoreUnavailable("busy", retry_after=0.3))
    began = time.monotonic()
    assert RetryingStore(inner, backoff_seconds=0).stat("a") is None
    assert time.monotonic() - began >= 0.3


def test_a_set_stop_event_ends_the_pause_and_the_tries() -> None:
    stop = threading.Event()
    inner = _Failing(*[StoreUnavailable("busy", retry_after=500)] * 3)
    store = RetryingStore(inner, backoff_seconds=100, stop=stop)
    caught: list[Exception] = []

    def call() -> None:
        try:
            store.stat("a")
        except StoreUnavailable as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    deadline = time.monotonic() + 10
    while inner.calls == 0 and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert len(caught) == 1
