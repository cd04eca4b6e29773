"""What the layout does not name is refused where everything leaves, and nothing is sent (law 8)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from stitch.errors import BadDocument
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore
from stitch.store.meter import MeteredStore

STRANGERS = (
    "sites/nu/cohort.csv",
    "sites/nu/data/cohort.csv",
    "sites/nu/pass_001/model.npz",
    "sites/nu/pass_001/model.3f9a2c41d0b.npz",
    "sites/nu/pass_001/train.log",
    "sites/nu/pass_001/state/optimizer.bin",
    "sites/nu/pass_1/metrics.json",
    "sites/nu/pass_001/metrics.json.bak",
    "sites/nu/pass_001/metrics.json\n",
    "sites/nu/events/pass_001.died.json",
    "sites/nu/events/pass_001.started.1.json",
    "sites/nu/last_error.json",
    "sites/nu/../../.env",
    "global/notes.json",
    "global/pass_000.a1/metrics.json",
)


@pytest.fixture
def store() -> MeteredStore:
    return MeteredStore(MemoryStore())


@pytest.fixture
def lanes(store: MeteredStore, tmp_path: Path) -> Lanes:
    return Lanes("trial", dict.fromkeys(("global", "sites/nu"), store), {}, outbox=tmp_path / "outbox")


@pytest.mark.parametrize("path", STRANGERS)
def test_a_key_that_the_layout_does_not_name_is_not_pushed(
    lanes: Lanes, store: MeteredStore, tmp_path: Path, path: str
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"patients")
    with pytest.raises(BadDocument, match="not a name of the protocol"):
        lanes.push(source, path, mode="create")
    with pytest.raises(BadDocument, match="not a name of the protocol"):
        lanes.write(path, b"patients", mode="replace")
    assert not store.meter.requests
    assert not (tmp_path / "outbox").exists()


def test_a_key_that_it_names_is(lanes: Lanes, store: MeteredStore, tmp_path: Path) -> None:
    lanes.write("sites/nu/pass_001/metrics.json", b"{}", mode="create")
    assert store.meter.requests["push"] == 1
    assert (tmp_path / "outbox" / "trial" / "sites/nu/pass_001/metrics.json").read_bytes() == b"{}"


def test_two_who_publish_one_key_at_once_both_get_their_copy(tmp_path: Path) -> None:
    """`sites pause` in another window publishes what the lead's process publishes: neither may end of it."""
    lanes = Lanes("trial", {"global": MemoryStore()}, {}, outbox=tmp_path / "outbox")
    failed: list[BaseException] = []

    def publish(word: bytes) -> None:
        try:
            for _ in range(300):
                lanes.write("global/orchestration.json", word * 2000, mode="replace")
        except BaseException as error:  # noqa: BLE001  told by the thread that joins
            failed.append(error)

    threads = [threading.Thread(target=publish, args=(word,)) for word in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    [copy] = (tmp_path / "outbox" / "trial" / "global").iterdir()
    assert copy.read_bytes() in (b"a" * 2000, b"b" * 2000)
