"""`clif-stitch run`: to the end, in a terminal and out of one, and stopped by signals."""

from __future__ import annotations

import re
import signal
import sys

import psutil
import pytest

from tests.cli.federation import Federation, await_that
from tests.cli.terminal import terminal

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  (rush|nu|global)  [a-z_]+  \S.*")
SLOW = """    pathlib.Path("hook.pid").write_text(str(__import__("os").getpid()))
    while pathlib.Path("hold").exists():
        __import__("time").sleep(0.05)
    base ="""


def test_both_run_to_the_end_marker_in_plain_ascii_lines(federation: Federation) -> None:
    for said in federation.finish():
        assert said.code == 0, said
        assert said.out.isascii()
        *lines, finished, model = said.out.splitlines()
        assert [line for line in lines if not LINE.fullmatch(line)] == []
        (push,) = [line for line in lines if "  push  " in line]
        assert re.search(r"pass 1: 1 B in \d+\.\d s, n_samples 50$", push), push  # of one byte, no rate
        assert finished == "run icu is finished: completed"
        assert model == "final model (pass 1): stitch_store/icu/global/pass_001/model.json"
    final = federation.nu.root / "stitch_store/icu/global/pass_001/model.json"
    assert final.read_text(encoding="utf-8") == "2.0"
    again = federation.lead.call("run")
    assert again.code == 0
    assert "run icu is finished: completed" in again.out


def test_without_a_store_the_missing_variables_are_named(federation: Federation) -> None:
    (federation.lead.root / ".env").unlink()
    said = federation.lead.call("run")
    assert said.code == 2
    for name in ("STITCH_STORE", "STITCH_STORE_GLOBAL", "STITCH_STORE_NU"):
        assert name in said.cause
    assert "clif-stitch setup" in said.todo


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to send to one process")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_the_hook_releases_the_lane_and_leaves_a_resumable_state(
    federation: Federation, number: signal.Signals, code: int
) -> None:
    held = federation.nu.root / "hold"
    held.touch()
    federation.nu.hooks("    base =", SLOW)
    with federation.lead.running("run") as lead:
        with federation.nu.running("run") as site:
            await_that((federation.nu.root / "hook.pid").exists, "the hook's start", or_end=site)
            await_that(lambda: bool(_hook(federation)), "the hook's process id")
            hook = _hook(federation)
            site.process.send_signal(number)
            said = site.said()
        assert said.code == code
        assert said.out.splitlines()[-1] == "stopped; nothing is lost: the same command continues"
        assert not psutil.pid_exists(int(hook))
        beat = (federation.run / "sites/nu/events/heartbeat.json").read_text(encoding="utf-8")
        assert '"released"' in beat
        held.unlink()
        assert federation.nu.call("run").code == 0
        assert lead.said().code == 0


def _hook(federation: Federation) -> str:
    file = federation.nu.root / "hook.pid"
    return file.read_text(encoding="utf-8") if file.exists() else ""


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is POSIX's")
def test_a_second_ctrl_c_says_that_it_is_ending(federation: Federation) -> None:
    federation.nu.hooks(
        "    base =", "    import signal\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLOW
    )
    (federation.nu.root / "hold").touch()
    with federation.lead.running("run"), federation.nu.running("run") as site:
        await_that(lambda: bool(_hook(federation)), "the hook's start", or_end=site)
        site.process.send_signal(signal.SIGINT)
        await_that(lambda: "ending ..." in site.err.read_text("utf-8"), "the first answer")
        site.process.send_signal(signal.SIGINT)
        await_that(lambda: "still ending" in site.err.read_text("utf-8"), "the second answer")
        assert site.said().code == 130


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is POSIX's")
def test_a_terminal_shows_a_live_table_in_ascii(federation: Federation) -> None:
    run = federation.lead.command("run")
    with federation.nu.running("run"), terminal(federation.lead.root, *run) as shown:
        assert shown.end() == 0
    screen = shown.screen
    assert shown.text.isascii()
    assert re.search(r"lane +doing +pass +for +what", screen)
    assert "run icu is finished: completed" in screen
    assert max(len(line) for line in screen.splitlines()) <= 80
