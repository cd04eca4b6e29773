"""Whoever waits sees that something goes on: a store that is asked again, a hook that is silent."""

from __future__ import annotations

import io
import logging
import threading
from datetime import UTC, datetime

import pytest
from rich.console import Console

from stitch.cli.progress import STORE, LiveTable, PlainLines, line
from stitch.cli.retries import retries_told, to_listener
from stitch.cli.waiting import sign_of_life
from stitch.client.journal import Note
from stitch.errors import StoreUnavailable
from stitch.store import MemoryStore, RetryingStore
from stitch.testing import FaultyStore, once
from stitch.views.render import console

AT = datetime(2026, 11, 29, 18, 1, 2, tzinfo=UTC)
KEY = "icu/global/DONE.json"


@pytest.fixture(autouse=True)
def a_logger_that_nobody_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import linter, run by other tests in this process, switches off every logger it finds."""
    monkeypatch.setattr(logging.getLogger("stitch.store"), "disabled", False)


def ask(*, pause_s: float) -> list[str]:
    """What a person is told when a request fails once; the pause itself is cut short."""
    told: list[str] = []
    stop = threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        stop.set()

    store = FaultyStore(MemoryStore(), once("unavailable", verb="stat"))
    with retries_told(tell):
        RetryingStore(store, backoff_seconds=pause_s, stop=stop).stat(KEY)
    return told


def test_a_long_pause_before_the_next_try_is_told_with_its_length() -> None:
    (said,) = ask(pause_s=40.0)
    assert KEY in said
    assert 20 <= int(said.rpartition("trying again in ")[2].removesuffix(" s")) <= 40


def test_a_pause_under_a_second_is_not_worth_a_line() -> None:
    assert ask(pause_s=0.01) == []


def test_after_the_context_nobody_is_told() -> None:
    told: list[str] = []
    with retries_told(told.append):
        pass
    stop = threading.Event()
    stop.set()
    store = FaultyStore(MemoryStore(), once("unavailable", verb="stat"))
    with pytest.raises(StoreUnavailable):
        RetryingStore(store, backoff_seconds=40.0, stop=stop).stat(KEY)
    assert told == []


def test_the_inner_of_two_is_told_and_the_outer_one_again_afterwards() -> None:
    outer: list[str] = []
    stop = threading.Event()

    def tell(text: str) -> None:
        outer.append(text)
        stop.set()

    with retries_told(tell):
        assert len(ask(pause_s=40.0)) == 1
        assert outer == []
        store = FaultyStore(MemoryStore(), once("unavailable", verb="stat"))
        RetryingStore(store, backoff_seconds=40.0, stop=stop).stat(KEY)
    assert len(outer) == 1


def test_a_token_in_an_error_is_not_told() -> None:
    class Talkative(MemoryStore):
        def stat(self, key: str) -> None:
            raise StoreUnavailable(f"{key}: https://x.blob.core.windows.net/c?sv=1&sig=geheim%3D")

    told: list[str] = []
    stop = threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        stop.set()

    with retries_told(tell), pytest.raises(StoreUnavailable):
        RetryingStore(Talkative(), backoff_seconds=40.0, stop=stop).stat(KEY)
    assert "sig=***" in told[0]
    assert "geheim" not in told[0]


def shown(live: LiveTable) -> str:
    screen = console(io.StringIO())
    screen.width = 80
    with screen.capture() as captured:
        screen.print(live.view())
    return captured.get()


def test_run_says_at_once_that_it_asks_the_store_and_while_it_asks_again() -> None:
    live = LiveTable(console(io.StringIO()))
    assert shown(live).strip() == "asking the store"
    to_listener(live)("the name x cannot be resolved; trying again in 4 s")
    table = shown(live).partition("\n\n")[0]
    assert "store  retry" in table
    assert "trying again in 4 s" in table


def test_the_row_of_a_store_that_answers_again_vanishes() -> None:
    live = LiveTable(console(io.StringIO()))
    live(Note(AT, STORE, "retry", "trying again in 4 s"))
    live(Note(AT, "sites/nu", "train", "pass 1 from global 0", 1))
    table, _, lines = shown(live).partition("\n\n")
    assert "retry" not in table
    assert "retry" in lines  # what was, stays readable


def test_plain_lines_tell_a_retry_too() -> None:
    out = io.StringIO()
    to_listener(PlainLines(console(out)))("trying again in 4 s")
    assert out.getvalue().endswith("store  retry  trying again in 4 s\n")


def test_of_a_few_bytes_no_rate_is_told() -> None:
    small = Note(AT, "sites/rush", "push", "pass 3: 280 B in 0.0 s", 3, 280, 280, 0.02)
    assert line(small).endswith("pass 3: 280 B in 0.0 s")


def test_a_silent_hook_shows_the_time_that_passes_in_a_terminal_alone() -> None:
    screen, file = io.StringIO(), io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=80)
    with sign_of_life(terminal, "train runs"):
        terminal.out("what the hook prints")
    assert "train runs: 0 s" in screen.getvalue()
    assert "what the hook prints\n" in screen.getvalue()
    with sign_of_life(console(file), "train runs"):
        console(file).out("what the hook prints")
    assert file.getvalue() == "what the hook prints\n"
