"""Two processes for one site (law 10): one works, the other says who does, and nothing is done twice."""

from __future__ import annotations

import shutil

from tests.cli.federation import Federation, Site, unchanged
from tests.cli.places import on_host


def elsewhere(site: Site, host: str) -> Site:
    """The same site set up on another machine: its own clone, its own mirror, its own host name."""
    other = Site(site.root.parent / f"{site.root.name}-{host}", wrap=on_host(host))
    shutil.copytree(site.root, other.root, ignore=shutil.ignore_patterns("stitch_store", "runs"))
    return other


def trainings(federation: Federation) -> int:
    return len(list((federation.run / "sites/nu/events").glob("pass_001.started*.json")))


def test_the_second_on_one_machine_waits_says_why_and_takes_over_when_the_first_is_gone(
    federation: Federation,
) -> None:
    federation.begin()
    with federation.nu.running() as first:
        first.await_line("waiting for global 1")
        with federation.nu.running() as second:
            line = second.await_line("another process on this machine works for sites/nu")
            assert line.endswith(": stop it, or stop this one")
            with unchanged(federation.store, federation.nu.mirror):
                said = federation.nu.call("step", "--exit-code")
            assert said.code == 3
            assert "another process on this machine works for sites/nu" in said.out
            first.process.terminate()
            assert first.said().code == 143
            second.await_line("waiting for global 1")
            assert federation.lead.call("run").code == 0
            assert second.said().code == 0
    assert trainings(federation) == 1


def test_the_second_on_another_machine_says_which_one_holds_the_lane(federation: Federation) -> None:
    federation.begin()
    with federation.nu.running() as first:
        first.await_line("waiting for global 1")
        with elsewhere(federation.nu, "ward9").running() as second:
            line = second.await_line("holds sites/nu, last beat ")
            assert "it is free 9 s after the last beat (--take-over claims it now)" in line
            assert federation.lead.call("run").code == 0
            assert (first.said().code, second.said().code) == (0, 0)
    assert trainings(federation) == 1
    assert len(list((federation.run / "sites/nu/lease").glob("term-*.json"))) == 1


def test_whoever_lost_its_lane_stops_and_names_the_machine_that_took_it(federation: Federation) -> None:
    federation.begin()
    with federation.nu.running() as first:
        first.await_line("waiting for global 1")
        with elsewhere(federation.nu, "ward9").running("run", "--take-over") as second:
            second.await_line("waiting for global 1")
            said = first.said()
            assert said.code == 43
            assert said.cause == "a process on ward9 took over sites/nu: it holds the lane now"
            assert said.todo == "One process per site: stop this one, or the other and re-run."
            assert federation.lead.call("run").code == 0
            assert second.said().code == 0
    assert trainings(federation) == 1
