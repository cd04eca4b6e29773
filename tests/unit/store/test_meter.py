"""Counts and rates of what went through a store."""

from pathlib import Path

from stitch.store import MemoryStore, MeteredStore, Transfer


def test_verbs_and_bytes_are_counted_each_way(tmp_path: Path) -> None:
    heard: list[Transfer] = []
    store = MeteredStore(MemoryStore(), heard=heard.append)
    source = tmp_path / "in"
    source.write_bytes(b"12345")
    entry = store.push(source, "a", mode="create")
    store.pull("a", tmp_path / "out")
    store.pull("a", tmp_path / "out", unless=entry.etag)
    assert store.stat("a") == next(store.list("")) == entry
    store.now()
    meter = store.meter
    assert meter.requests == {"push": 1, "pull": 2, "stat": 1, "list": 1, "now": 1}
    assert (meter.bytes_up, meter.bytes_down, meter.unchanged) == (5, 5, 1)
    assert [(t.key, t.direction, t.done, t.total) for t in heard] == [("a", "up", 5, 5), ("a", "down", 5, 5)]
    assert all(transfer.rate > 0 for transfer in heard)
