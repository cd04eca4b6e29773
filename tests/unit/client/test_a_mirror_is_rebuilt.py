"""A wiped mirror takes back what its lane's own history names, and nothing that others put there."""

from __future__ import annotations

import shutil
from pathlib import Path

from stitch import layout
from stitch.client.operator import ask_redo
from stitch.layout import PassRef
from stitch.testing.federation import INTERVAL_S, Federation
from stitch.testing.processes import Process
from tests.unit.loops.elastic import settle


def redone_run(folder: Path) -> Federation:
    """A run in whose first round nu was asked for its pass once more; it stands at pass 2."""
    federation = Federation(folder, num_passes=3)
    for site in ("rush", "nu"):
        federation.start(site)
    settle(federation)
    ask_redo(federation.alive("rush")[0].client, "nu")
    settle(federation)
    federation.start("uchicago")
    for _ in range(60):
        if federation.seal(PassRef(1)) is not None:
            break
        for one in federation.alive():
            one.turns()
    assert federation.seal(PassRef(1, "nu", 1)) is not None
    return federation


def forge(federation: Federation, ref: PassRef) -> None:
    """Somebody with nu's token adds a pass that nobody asked for, whole in itself."""
    lanes, source = federation.lanes(), PassRef(1, "nu")
    for path in federation.paths():
        if path.startswith(f"{source.folder}/"):
            data = federation.read(path)
            assert data is not None
            lanes.write(path.replace(source.folder, ref.folder, 1), data, mode="create")


def wiped(federation: Federation) -> Process:
    """A new process of nu over an empty mirror, once the old one's claim of the lane has run out."""
    process = federation.alive("nu")[0]
    process.kill()
    shutil.rmtree(process.client.mirror.root)
    again = federation.start("nu")
    federation.advance(4 * INTERVAL_S)
    again.turns()
    return again


def test_a_redone_pass_comes_back_only_if_a_verdict_asked_for_it(tmp_path: Path) -> None:
    federation = redone_run(tmp_path)
    asked, forged = PassRef(1, "nu", 1), PassRef(1, "nu", 2)
    forge(federation, forged)
    again = wiped(federation)
    here = again.client.mirror.passes("sites/nu")
    assert forged not in here
    assert {PassRef(1, "nu"), asked} <= set(here)
    for ref in (PassRef(1, "nu"), asked):
        sealed = again.client.mirror.sealed(ref)
        assert sealed is not None
        assert sealed.data == federation.read(ref.seal)
    federation.run()
    completed = [path for path in federation.paths() if ".completed" in path and "sites/nu" in path]
    reported = [layout.require(path).attempt for path in completed if "pass_001" in path]
    assert len(reported) == 2, "what nobody asked for is not reported either"


def test_a_verdict_that_cannot_be_read_asked_for_nothing_and_stops_nobody(tmp_path: Path) -> None:
    federation = redone_run(tmp_path)
    federation.lanes().write(layout.verdict(1, 0), b"no document", mode="replace")
    again = wiped(federation)
    assert again.error is None, again.error
    assert PassRef(1, "nu") in again.client.mirror.passes("sites/nu")
    assert PassRef(1, "nu", 1) not in again.client.mirror.passes("sites/nu")
