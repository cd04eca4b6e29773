"""The memory store keeps the contract."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stitch.store import MemoryStore
from stitch.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


class _SetClock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()


def test_times_come_from_the_injected_clock(tmp_path: Path) -> None:
    clock = _SetClock()
    store = MemoryStore(clock=clock)
    source = tmp_path / "in"
    source.write_bytes(b"1")
    first = store.push(source, "a", mode="create")
    clock.time += timedelta(hours=2)
    assert store.now() - first.modified == timedelta(hours=2)
