"""A late pass is recorded once, also by a lead whose mirror lacks the global that recorded it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stitch.layout import PassRef
from stitch.testing.federation import EXT, RUN_ID, Federation
from stitch.testing.processes import Process
from tests.unit.loops.elastic import COLLECT_S, elastic, pass_time, record_of, settle


@pytest.mark.parametrize("lost", ["model", "seal"])
def test_a_late_pass_is_not_recorded_again_when_its_record_cannot_be_rebuilt(
    tmp_path: Path, lost: str
) -> None:
    late: list[Process] = []
    killed: list[Process] = []

    def before(process: Process, what: str, *, key: str) -> None:
        if what == "aggregate" and late and key == "pass_001":
            one, late[:] = late[0], []
            for _ in range(4):
                one.turns()
        if what == "aggregate" and key == "pass_004" and not killed:
            killed.append(process)
            process.kill()

    federation = elastic(Federation(tmp_path, num_passes=4, before=before))
    for site in ("rush", "nu"):
        federation.start(site)
    settle(federation)
    pass_time(federation, COLLECT_S - 60)
    late.append(federation.start("uchicago"))
    pass_time(federation, 300)
    for _ in range(100):
        for process in [] if killed else federation.alive():
            process.turns()
        federation.advance(1)
    assert [(one.site, one.pass_id) for one in record_of(federation, 2).late] == [("uchicago", 1)]
    shutil.rmtree(killed[0].client.mirror.root)
    sealed = federation.seal(PassRef(2))
    assert sealed is not None
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"x" * sealed.model_bytes)
    path = PassRef(2).model(sealed.model_sha256, EXT) if lost == "model" else PassRef(2).seal
    federation.record.inner.push(damaged, f"{RUN_ID}/{path}", mode="replace")
    federation.start("rush")
    settle(federation)
    pass_time(federation, COLLECT_S + 120)
    assert record_of(federation, 4).late == ()
