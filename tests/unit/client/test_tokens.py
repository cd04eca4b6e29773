"""When an actor says that a store token ends soon."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stitch.client.tokens import TokenWatch
from stitch.config.settings import Settings, StoreUrls
from tests.unit.views.tree import FakeClock

NOW = datetime(2026, 11, 29, 18, 0, tzinfo=UTC)


def url(ends: timedelta, name: str = "icu") -> str:
    return f"https://acct.blob.core.windows.net/{name}?sp=rcwl&sr=c&se={NOW + ends:%Y-%m-%dT%H:%M:%SZ}&sig=x"


def settings(urls: StoreUrls) -> Settings:
    return Settings(
        root=Path("/p"),
        run_id="icu",
        lead="rush",
        sites=("rush", "nu"),
        site="nu",
        num_passes=1,
        data_dir=Path("/p/data"),
        output_dir=Path("/p/output"),
        urls=urls,
    )


def one(ends: timedelta) -> Settings:
    return settings(StoreUrls(global_=url(ends), site=url(ends), heartbeat=url(ends)))


def test_it_says_so_from_two_weeks_before() -> None:
    for days, said in ((15, 0), (14.5, 0), (13.5, 1), (0.5, 1), (-1, 0)):
        lines = TokenWatch(FakeClock()).look(one(timedelta(days=days)), lambda: NOW)
        assert len(lines) == said, days


def test_the_line_says_when_and_what_to_do() -> None:
    for days, left in ((13.5, "in 13 days"), (1.5, "in 1 day"), (0.5, "in less than a day")):
        (line,) = TokenWatch(FakeClock()).look(one(timedelta(days=days)), lambda: NOW)
        ends = f"{NOW + timedelta(days=days):%Y-%m-%d %H:%M}"
        assert line == f"the store token expires on {ends} UTC, {left}: ask the lead for a new URL now"


def test_it_says_so_once_a_day() -> None:
    clock = FakeClock()
    watch, soon = TokenWatch(clock), one(timedelta(days=5))
    assert watch.look(soon, lambda: NOW)
    clock.advance(86_399)
    assert watch.look(soon, lambda: NOW) == []
    clock.advance(1)
    assert watch.look(soon, lambda: NOW)


def test_a_replaced_token_is_looked_at_at_once() -> None:
    watch = TokenWatch(FakeClock())
    assert watch.look(one(timedelta(days=90)), lambda: NOW) == []
    assert watch.look(one(timedelta(days=5)), lambda: NOW)


def test_each_of_several_tokens_is_named() -> None:
    urls = StoreUrls(
        global_=url(timedelta(days=3), "globals"),
        site=url(timedelta(days=90), "site"),
        heartbeat=url(timedelta(days=2), "beats"),
    )
    lines = TokenWatch(FakeClock()).look(settings(urls), lambda: NOW)
    assert [line.split(" expires")[0] for line in lines] == [
        "the store token of global",
        "the store token of heartbeat",
    ]


def test_a_folder_has_no_token_and_its_clock_is_not_asked() -> None:
    def never() -> datetime:
        raise AssertionError

    folder = replace(one(timedelta(days=1)), urls=StoreUrls(global_="file:///s", site="file:///s"))
    assert TokenWatch(FakeClock()).look(folder, never) == []
