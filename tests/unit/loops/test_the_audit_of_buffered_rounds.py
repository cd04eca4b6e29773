"""`clif-stitch audit` on buffered runs: a slow site's pass, a redone one, rounds that went on without it."""

from __future__ import annotations

import json

import pytest

from stitch.client.operator import ask_redo
from stitch.layout import PassRef
from stitch.testing.federation import Federation
from stitch.views.audit import Audit, audit_json, audit_notes, audit_of
from stitch.wire import sha256
from tests.unit.loops.buffered import SLOW, WhileTraining, input_of, policy, until
from tests.unit.loops.conftest import Begin
from tests.unit.loops.elastic import settle, start


@pytest.fixture
def federation(begin: Begin) -> Federation:
    federation = begin(num_passes=4)
    federation.changes["policy"] = policy()
    return federation


def audited(federation: Federation) -> Audit:
    """The audit, which agrees with every file of the store and finds nothing odd."""
    audit = audit_of(federation.lanes(), sites=federation.sites, lead="rush")
    assert (audit.problems, list(audit_notes(audit))) == ((), [])
    assert {one.path for one in audit.lines} == set(federation.paths())
    for one in audit.lines:
        data = federation.read(one.path)
        assert data is not None
        assert one.size == len(data)
        digest = sha256(data)
        assert one.digest == (digest if one.digest_of == "bytes" else digest[:12])
    assert [line["path"] for line in json.loads(audit_json(audit))["lines"]] == [
        one.path for one in audit.lines
    ]
    return audit


def place(audit: Audit, path: str) -> int:
    return [one.path for one in audit.lines].index(path)


def test_a_slow_sites_pass_stands_after_the_globals_that_went_on_without_it(federation: Federation) -> None:
    WhileTraining(federation, SLOW, number=1, do=lambda: until(federation, 2))
    start(federation, *federation.sites)
    federation.run()
    used = input_of(federation, 3, SLOW)
    assert used is not None
    assert used.staleness == 2
    audit, slow = audited(federation), PassRef(1, SLOW).seal
    line = audit.lines[place(audit, slow)]
    assert (line.who, line.what, line.pass_id, line.attempt) == (SLOW, "seal", 1, 0)
    assert line.digest == used.metrics_sha256
    assert place(audit, PassRef(2).seal) < place(audit, slow) < place(audit, PassRef(3).seal)


def test_a_redone_pass_is_told_from_the_first_one(federation: Federation) -> None:
    federation.changes["policy"] = policy(buffer_size=3)
    start(federation, "rush", "nu")
    ask_redo(federation.alive("rush")[0].client, "nu")
    settle(federation)
    start(federation, SLOW)
    federation.run()
    audit = audited(federation)
    of_nu = [one for one in audit.lines if one.who == "nu" and one.pass_id == 1]
    assert [(one.what, one.attempt) for one in of_nu] == [
        *(("started", 1), ("model", 0), ("seal", 0), ("completed", 1)),
        *(("started", 2), ("model", 1), ("seal", 1), ("completed", 2)),
    ]
    verdicts = [(one.pass_id, one.attempt) for one in audit.lines if one.what == "verdict"]
    assert verdicts[:2] == [(1, 0), (1, 1)]
