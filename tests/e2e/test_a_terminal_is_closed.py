"""`clif-stitch run` at a site and at the lead, ended from outside; the same command continues."""

from __future__ import annotations

import signal

import pytest

from tests.e2e.conftest import Undisturbed
from tests.e2e.ending import check_ending
from tests.e2e.federation import Federation, lives

CODES = {
    signal.SIGHUP: 128 + signal.SIGHUP,
    signal.SIGINT: 130,
    signal.SIGTERM: 143,
    signal.SIGKILL: -signal.SIGKILL,
}
# How a signal is met has nothing to do with the store; one of them, with requests on their way.
WHERE = [("folder", site, number) for site in ("nu", "rush") for number in CODES]


@pytest.mark.parametrize(
    ("store_url", "site", "number"), [*WHERE, ("azurite", "rush", signal.SIGTERM)], indirect=["store_url"]
)
def test_a_closed_terminal_is_like_a_crash(
    fed: Federation, undisturbed: Undisturbed, site: str, number: signal.Signals
) -> None:
    """In the middle of a training: the hook ends too, and nothing half-made is left in the store."""
    fed.gate(site, "train-1-half")
    others = [fed.start_cli(other) for other in fed.sites if other != site]
    ended = fed.start_cli(site)
    order = fed.home(site) / "data" / "orders" / "train-1-half"
    fed.wait_until(lambda: not order.exists(), "the hook is in the middle of it, and will not wait again")
    hook = int((fed.home(site) / "data" / "hook.pid").read_text(encoding="utf-8"))
    ended.process.send_signal(number)
    ended.ends(CODES[number])
    fed.wait_until(lambda: not lives(hook), "the hook ends with its command")
    assert fed.paths(f"sites/{site}/pass_") == []
    again = fed.start_cli(site)
    for actor in (again, *others):
        actor.ends(0)
        assert "is finished: completed" in actor.said
    check_ending(fed, wanted=undisturbed(fed))
    assert fed.calls(site).count("train 1") == 2
