"""What a site commits to: its files or what its hook yields, once hashed and then only looked at."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stitch.client import Client, Setup
from stitch.client.commitment import Hashes, data_files, root_of_data
from stitch.config.settings import Integrity
from stitch.errors import ConfigError, DiskError, HookFailed, Stopped
from stitch.hooks import HookRunner
from stitch.hooks.inline import FunctionRunner
from tests.unit.loops.actors import Actors

COMMIT = Integrity(commit=True)


@pytest.fixture
def actors(tmp_path: Path) -> Actors:
    return Actors(tmp_path)


def site(actors: Actors, name: str = "nu", **changes: Any) -> Client:
    """A site with two tables in its data folder."""
    client, _ = actors.client(name, num_passes=2, integrity=COMMIT, **changes)
    data = client.data_dir
    (data / "deep").mkdir(exist_ok=True)
    (data / "vitals.csv").write_bytes(b"id,hr\n1,80\n")
    (data / "deep" / "labs.csv").write_bytes(b"id,lactate\n1,2.0\n")
    return client


# -- the root ------------------------------------------------------------------------------------------


def test_the_same_data_give_the_same_root_also_to_the_next_process(actors: Actors) -> None:
    first = root_of_data(site(actors), 1)
    assert root_of_data(site(actors), 2) == first


def test_two_sites_with_the_same_data_have_different_roots(actors: Actors) -> None:
    """Else whoever guesses a hospital's files could prove the guess: the salt stays at the site."""
    assert root_of_data(site(actors, "nu"), 1) != root_of_data(site(actors, "uchicago"), 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: (data / "vitals.csv").write_bytes(b"id,hr\n1,81\n"),
        lambda data: (data / "vitals.csv").rename(data / "vitals-2.csv"),
        lambda data: (data / "more.csv").write_bytes(b""),
        lambda data: (data / "deep" / "labs.csv").unlink(),
        lambda data: (data / "deep").rename(data / "deeper"),
    ],
    ids=["a byte", "a name", "an empty file", "a file less", "a folder's name"],
)
def test_any_change_of_the_data_is_another_root(actors: Actors, change: Callable[[Path], object]) -> None:
    client = site(actors)
    before = root_of_data(client, 1)
    change(client.data_dir)
    assert root_of_data(client, 1) != before


def test_the_salt_is_readable_by_its_owner_alone_and_is_sent_nowhere(actors: Actors) -> None:
    client = site(actors)
    root_of_data(client, 1)
    salt = client.mirror.root / "local" / "dataset" / "salt"
    assert len(salt.read_bytes()) == 32
    assert os.name == "nt" or salt.parent.stat().st_mode & 0o077 == 0
    assert list(actors.inner.list("trial/")) == []


def test_no_data_cannot_be_committed_to(actors: Actors) -> None:
    client, _ = actors.client("nu", integrity=COMMIT)
    with pytest.raises(ConfigError, match="no data to commit to"):
        root_of_data(client, 1)


def test_a_data_folder_that_is_not_there_is_said(actors: Actors) -> None:
    client, _ = actors.client("nu", integrity=COMMIT)
    client.data_dir.rmdir()
    with pytest.raises(DiskError, match="data"):
        root_of_data(client, 1)


# -- which files ---------------------------------------------------------------------------------------


def test_what_comes_and_goes_by_itself_is_no_data(tmp_path: Path) -> None:
    for path in ("b.csv", "a/c.csv", ".DS_Store", "a/~$c.xlsx", "Thumbs.db", ".git/HEAD", "desktop.ini"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"x")
    assert [name for name, _ in data_files(tmp_path)] == ["a/c.csv", "b.csv"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_linked_folders_are_data_and_a_ring_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.csv").write_bytes(b"x")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "data")
    (tmp_path / "data" / "gone.csv").symlink_to(tmp_path / "nowhere")
    assert [name for name, _ in data_files(tmp_path / "data")] == ["link/x.csv"]


# -- a stat instead of a read --------------------------------------------------------------------------


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read."""
    names: list[str] = []
    read = Hashes._read

    def reading(self: Hashes, path: Path) -> str:
        names.append(path.name)
        return read(self, path)

    monkeypatch.setattr(Hashes, "_read", reading)
    return names


def test_a_second_look_reads_nothing_and_a_third_what_changed(actors: Actors, reads: list[str]) -> None:
    client = site(actors)
    root_of_data(client, 1)
    assert sorted(reads) == ["labs.csv", "vitals.csv"]
    reads.clear()
    root_of_data(client, 2)
    fresh = Client(client.settings, Setup(lanes=client.lanes))
    root_of_data(fresh, 2)
    assert reads == []
    (client.data_dir / "vitals.csv").write_bytes(b"longer than before\n")
    root_of_data(fresh, 3)
    assert reads == ["vitals.csv"]


@pytest.mark.parametrize("kept", [b"", b"{", b"[]", b'{"vitals.csv": 1}', b'{"vitals.csv": [[1], "zz"]}'])
def test_a_damaged_memory_costs_a_read_and_changes_no_root(
    actors: Actors, reads: list[str], kept: bytes
) -> None:
    client = site(actors)
    before = root_of_data(client, 1)
    (client.mirror.root / "local" / "dataset" / "hashes.json").write_bytes(kept)
    reads.clear()
    assert root_of_data(client, 1) == before
    assert len(reads) == 2


def test_a_long_read_ends_when_it_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        Hashes(tmp_path / "hashes.json", stop=stop).of("x", tmp_path / "x")


# -- a hook's leaves -----------------------------------------------------------------------------------


LEAVES = """
def leaves(data_dir, config):
    for line in sorted((data_dir / "vitals.csv").read_bytes().splitlines()):
        yield line
"""


def with_hook(actors: Actors, text: str) -> Client:
    client = site(actors)
    (client.settings.root / "leaves.py").write_text(text, encoding="utf-8")
    hooks = replace(client.settings.hooks, leaves="leaves.py:leaves")
    return Client(replace(client.settings, hooks=hooks), Setup(lanes=client.lanes, runner=HookRunner()))


def test_a_hook_says_what_counts_as_data(actors: Actors) -> None:
    client = with_hook(actors, LEAVES)
    before = root_of_data(client, 1)
    (client.data_dir / "notes.txt").write_bytes(b"no data")
    (client.data_dir / "vitals.csv").write_bytes(b"1,80\nid,hr\n")  # another order of the same rows
    assert root_of_data(client, 1) == before
    (client.data_dir / "vitals.csv").write_bytes(b"1,81\nid,hr\n")
    assert root_of_data(client, 1) != before
    assert not list((client.mirror.root / "local" / "staging").iterdir())


def test_the_same_hook_in_this_process_gives_the_same_root(actors: Actors) -> None:
    client = with_hook(actors, LEAVES)
    before = root_of_data(client, 1)

    def leaves(*, data_dir: Path) -> Any:
        return iter((data_dir / "vitals.csv").read_bytes().splitlines())

    client.runner = FunctionRunner({"leaves": leaves})
    assert root_of_data(client, 1) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def leaves(data_dir):\n    yield 'text'\n", "leaves yields str, wanted bytes"),
        ("def leaves(data_dir):\n    raise KeyError('patient 4711')\n", "KeyError"),
        ("def leaves(data_dir):\n    return None\n", "NoneType"),
    ],
)
def test_a_leaves_hook_that_fails_is_a_hook_that_fails(actors: Actors, text: str, said: str) -> None:
    client = with_hook(actors, text)
    with pytest.raises(HookFailed) as failed:
        root_of_data(client, 1)
    assert "4711" not in str(failed.value)
    assert said in failed.value.detail


def test_a_leaves_hook_that_yields_nothing_commits_to_nothing(actors: Actors) -> None:
    with pytest.raises(ConfigError, match="no data to commit to"):
        root_of_data(with_hook(actors, "def leaves(data_dir):\n    return []\n"), 1)
