"""Whole turns against a store that a stranger may write into: a clear line, little memory, and the run."""

from __future__ import annotations

import os
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stitch import layout
from stitch.layout import Event, PassRef
from stitch.store.folder import FolderStore
from stitch.testing import Federation
from stitch.testing.federation import RUN_ID
from stitch.views.observe import Observer
from stitch.views.render import console, render
from stitch.views.status import RunStatus, SiteState, Source

MB = 1_000_000
GB = 1 << 30
NU = "sites/nu"
OWN = PassRef(1, "nu")


class Trial:
    """A federation over a folder, and a stranger with a token for everything."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "store"
        self.root.mkdir()
        self.federation = Federation(folder / "sites", store=FolderStore(self.root), num_passes=2)

    def path(self, path: str) -> Path:
        """Where a key lies, its folder made."""
        file = self.root / RUN_ID / path
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def write(self, path: str, data: bytes) -> None:
        self.path(path).write_bytes(data)

    def huge(self, path: str) -> Path:
        """A file of a gigabyte that takes no room."""
        file = self.path(path)
        file.unlink(missing_ok=True)
        with file.open("wb") as sink:
            sink.truncate(GB)
        return file

    def start(self, *sites: str) -> None:
        for site in sites or self.federation.sites:
            self.federation.start(site)

    def turns(self, count: int) -> None:
        """Turns of everybody, and time between them."""
        for _ in range(count):
            for process in self.federation.alive():
                process.turns()
            self.federation.advance(30.0)

    def said(self, site: str) -> str:
        """What a site's people were told."""
        return (self.federation.settings(site).runs_dir / "run.log").read_text("utf-8")

    def status(self) -> RunStatus:
        federation = self.federation
        return Observer(
            federation.lanes(),
            sites=federation.sites,
            lead="rush",
            heartbeat_minutes=2,
            clock=federation.clock,
            source=Source("store", "a folder"),
        ).observe()

    def ends_well(self) -> None:
        """The run goes on to its end, with the model of a run that nobody disturbed."""
        self.federation.run()
        assert [one.error for one in self.federation.processes] == [None] * len(self.federation.processes)
        assert self.federation.value() == self.federation.expected_value()


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


@contextmanager
def little_memory(most: int = 100 * MB) -> Iterator[None]:
    """Checks that no moment took more than so many bytes of Python objects."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most, f"{peak / MB:.0f} MB"


def strays() -> Iterator[str]:
    """Ten thousand names in one lane: of the layout, nearly of it, and of nobody."""
    for n in range(2500):
        yield f"{NU}/pass_{n + 100:03d}/metrics.json"
        yield f"{NU}/events/pass_{n + 100:03d}.failed.json"
        yield f"{NU}/{'-'.join('abcdefgh' * 10)}{n}.json"
        yield f"{NU}/pass_001/..{n}" if n % 2 else f"{NU}/pass_\u0661\u0662{n}/m\u0435trics.json"


def test_ten_thousand_stray_keys_disturb_neither_their_lane_nor_the_run(trial: Trial) -> None:
    for path in strays():
        trial.write(path, b"[" * 5_000 if "00/" in path else b"\xff garbage \x1b[2J")
    trial.start()
    with little_memory():
        trial.turns(3)
        status = trial.status()
    assert status.sites[1].state is SiteState.UNREADABLE
    assert len(status.problems) < 30, "one line a kind of trouble, not one a key"
    assert all(len(line) < 600 for line in status.problems)
    assert status.sites[0].state is not SiteState.UNREADABLE
    trial.ends_well()


def test_no_control_sequence_of_a_stranger_reaches_the_terminal(trial: Trial, tmp_path: Path) -> None:
    for path in list(strays())[:200]:
        trial.write(path, b'{"kind": "\x1b[2J"}')
    trial.write(f"{NU}/lease/term-0001.json", b'{"kind": "stitch.term/1", "run_id": "\\u001b[2J"}')
    trial.start("rush")
    trial.turns(2)
    with (tmp_path / "shown").open("w", encoding="utf-8") as file:
        console(file).print(render(trial.status()))
    shown = (tmp_path / "shown").read_text("utf-8") + trial.said("rush")
    assert "\x1b" not in shown
    assert shown.isascii()


@pytest.mark.parametrize(
    "path",
    [
        layout.orchestration(),
        layout.heartbeat(layout.GLOBAL),
        layout.heartbeat(NU),
        layout.event("nu", 1, name=Event.FAILED),
        layout.event("nu", 1, name=Event.EVALUATED),
        layout.join("nu", 1),
    ],
)
@pytest.mark.parametrize("content", ["a gigabyte", "deep", "no JSON"])
def test_what_only_informs_can_be_anything_and_the_run_goes_on(trial: Trial, path: str, content: str) -> None:
    if content == "a gigabyte":
        trial.huge(path)
    else:
        trial.write(path, b"[" * 100_000 if content == "deep" else b"\x00\xff")
    trial.start()
    with little_memory():
        trial.turns(2)
        trial.status()
    trial.ends_well()


def a_gigabyte(trial: Trial, path: str) -> None:
    trial.huge(path)


def deep(trial: Trial, path: str) -> None:
    trial.write(path, b'{"kind":' * 100_000)


def a_folder(trial: Trial, path: str) -> None:
    trial.path(path).mkdir()


def a_pipe(trial: Trial, path: str) -> None:
    os.mkfifo(trial.path(path))


def endless(trial: Trial, path: str) -> None:
    trial.path(path).symlink_to("/dev/zero")


def a_loop(trial: Trial, path: str) -> None:
    trial.path(path)
    (trial.root / RUN_ID / NU / "pass_001" / "again").symlink_to(trial.root, target_is_directory=True)
    trial.write(path, b"{}")


POSIX = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes are made otherwise there")
SEALS = [
    a_gigabyte,
    deep,
    a_folder,
    pytest.param(a_pipe, marks=POSIX),
    pytest.param(endless, marks=POSIX),
    pytest.param(a_loop, marks=POSIX),
]


@pytest.mark.parametrize("put", SEALS)
def test_a_seal_that_is_none_holds_up_its_own_lane_alone(
    trial: Trial, put: Callable[[Trial, str], None]
) -> None:
    """The others go on, the lead waits and says for whom; mended, the run ends as if nothing was."""
    put(trial, OWN.seal)
    trial.start("rush", "uchicago")
    with little_memory():
        trial.turns(4)
        status = trial.status()
    for honest in ("rush", "uchicago"):
        assert trial.federation.seal(PassRef(1, honest)) is not None
        assert next(one for one in status.sites if one.site == honest).state is SiteState.COMPLETED
    assert trial.federation.seal(PassRef(1)) is None
    waiting = trial.federation.alive("rush")[0].turn("lead")
    assert waiting is not None
    assert "nu" in waiting.why
    assert len(trial.said("rush").splitlines()) < 60
    for left in (trial.path(OWN.seal), trial.path(f"{NU}/pass_001/again")):
        if left.is_dir() and not left.is_symlink():
            left.rmdir()
        else:
            left.unlink(missing_ok=True)
    trial.start("nu")
    trial.ends_well()


def test_a_model_of_a_gigabyte_under_our_own_name_is_never_fetched(trial: Trial) -> None:
    """Somebody put it there before we sent ours: it is not ours, and our own is put over it (law 1)."""
    put: list[Path] = []

    def before(process: object, what: str, *, key: str) -> None:
        if what == "push" and key.startswith(f"{RUN_ID}/{NU}/pass_001/model.") and not put:
            put.append(trial.huge(key.removeprefix(f"{RUN_ID}/")))

    trial.federation.before = before
    trial.start()
    with little_memory():
        trial.ends_well()
    assert put[0].stat().st_size < MB
