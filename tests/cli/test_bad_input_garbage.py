"""A lane that a stranger filled: each command stays small, says so in a line, and goes on for others."""

from __future__ import annotations

import os
import sys

import pytest

from tests.cli.federation import Federation, Said, Site, await_that

MB = 1024  # of what Linux counts memory in: kilobytes
GB = 1 << 30
NU = "sites/nu"
SEAL = "sites/nu/pass_001/metrics.json"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel what a child took")


@pytest.fixture
def filled(federation: Federation) -> Federation:
    """The lead has begun; nu's lane holds ten thousand keys of nobody and files of a gigabyte."""
    federation.begin()
    for n in range(2000):
        for name in (
            f"pass_{n + 100}/metrics.json",
            f"events/pass_{n + 100}.failed.json",
            f"join/{n + 50:04d}.json",
        ):
            file = federation.run / NU / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"[" * 2000 if n % 2 else b'{"kind": "\x1b[2J')
        for name in (f"-{n}", f"\u0440ass_{n}.json"):
            (federation.run / NU / name).write_bytes(b"?")
    for name in (SEAL, f"{NU}/events/heartbeat.json", f"{NU}/events/pass_001.failed.json"):
        file = federation.run / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as sink:
            sink.truncate(GB)
    return federation


def measured(site: Site, *words: str) -> tuple[Said, int]:
    """What a command said, and the most memory it took, in kilobytes."""
    with site.running(*words) as running:
        _, status, usage = os.wait4(running.process.pid, 0)
        running.process.returncode = os.waitstatus_to_exitcode(status)
        return running.said(), usage.ru_maxrss


def test_status_and_step_stay_small_and_go_on_for_the_others(filled: Federation) -> None:
    idle = measured(filled.lead, "--version")[1]
    for words in (("status",), ("status", "--json"), ("step",)):
        said, took = measured(filled.lead, *words)
        assert said.code == 0, said
        assert took - idle < 200 * MB, f"{words}: {took // MB} MB"
        assert "\x1b" not in said.out + said.err
        assert len(said.out.splitlines()) < 400
    assert "unreadable" in filled.lead.call("status").out
    assert (filled.run / "sites/rush/pass_001/metrics.json").is_file()


def test_run_waits_with_one_line_and_ends_well_once_the_garbage_is_gone(filled: Federation) -> None:
    with filled.lead.running() as lead:
        line = lead.await_line("the pass of nu is rejected")
        assert f"{SEAL}: 1073741824 bytes, more than a document may have" in line
        (filled.run / SEAL).unlink()
        with filled.nu.running() as nu:
            await_that((filled.run / "global/DONE.json").is_file, "the end", or_end=lead)
            assert nu.said().code == 0
        assert lead.said().code == 0
    said = lead.said()
    assert len(said.out.splitlines()) < 60
    assert "\x1b" not in said.out
