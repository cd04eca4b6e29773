"""What verify, audit and replay show, and the JSON contracts, field by field."""

from __future__ import annotations

import io
import json
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stitch.errors import DigestMismatch
from stitch.views.audit import Audit, AuditLine, audit_csv, audit_json, audit_notes, audit_table
from stitch.views.proof import Proof, ProvenPass, closing_lines, passes_table, proof_json
from stitch.views.render import console
from stitch.views.replayed import Replayed, replay_table

PAGE = Path(__file__).parents[3] / "docs" / "status-json.md"
PASSES = (
    ProvenPass(pass_id=0, attempt=0, n_samples=40, summed=True, model_sha256="a" * 64),
    ProvenPass(
        pass_id=1,
        attempt=2,
        n_samples=123_456,
        summed=False,
        model_sha256="b" * 64,
        inputs=("nu", "rush", "uchicago"),
        unread=("uchicago",),
        excluded=("mayo",),
        overruled=True,
        hashed=9_000_000,
        rerun=True,
    ),
)
LINE = AuditLine(
    at=datetime(2026, 11, 30, 8, 0, tzinfo=UTC),
    lane="sites/university-of-somewhere",
    who="university-of-somewhere",
    what="seal",
    pass_id=1,
    attempt=0,
    digest="c" * 64,
    digest_of="bytes",
    signer="",
    size=1024,
    path="sites/university-of-somewhere/pass_001/metrics.json",
)


def shown(what: object) -> str:
    out = io.StringIO()
    screen = console(out)
    screen.width = 80
    screen.print(what)
    return out.getvalue()


@pytest.mark.parametrize("kind", [ProvenPass, AuditLine, Audit], ids=lambda c: c.__name__)
def test_every_field_of_the_json_is_described_in_the_docs(kind: type) -> None:
    described = PAGE.read_text(encoding="utf-8")
    assert [f.name for f in fields(kind) if f"`{f.name}`" not in described] == []


def test_every_member_of_a_proof_is_described_in_the_docs() -> None:
    proof = Proof("icu", None, PASSES, "completed", 2, ("uchicago",), None)
    found = json.loads(proof_json("icu", PASSES, proof=proof, error=None))
    described = PAGE.read_text(encoding="utf-8")
    assert [name for name in found if f"`{name}`" not in described] == []
    assert (found["holds"], found["complete"], found["unread"], found["others"]) == (
        True,
        False,
        ["uchicago"],
        2,
    )


def test_a_proof_that_broke_off_names_no_end() -> None:
    error = DigestMismatch("global/pass_002/metrics.json is not it", hint="Show it to the lead.")
    found = json.loads(proof_json("icu", PASSES, proof=None, error=error))
    assert (found["holds"], found["complete"], found["finished"], found["transcript_sha256"]) == (
        False,
        False,
        None,
        None,
    )
    assert found["error"] == {
        "error": "DigestMismatch",
        "exit_code": 33,
        "cause": "global/pass_002/metrics.json is not it",
        "hint": "Show it to the lead.",
    }


def test_the_table_says_what_was_out_of_sight_and_what_is_odd() -> None:
    text = shown(passes_table(PASSES))
    assert max(len(line) for line in text.splitlines()) <= 80
    flat = " ".join(text.split())
    assert "verdict, 2 of 3 inputs" in flat
    for note in ("without mayo", "uchicago not readable", "n by the hook", "abort marker came too late"):
        assert note in flat


def test_the_last_lines_say_for_what_they_stand() -> None:
    whole = Proof("icu", None, PASSES, None, 0, (), "d" * 64)
    assert list(closing_lines(whole))[-1] == "d" * 64
    assert "run icu holds; there is no end marker yet" in list(closing_lines(whole))
    one = Proof("icu", 1, PASSES[1:], "completed", 0, ("uchicago",), None)
    assert list(closing_lines(one)) == [
        "NOT checked, since no store is configured for them: uchicago",
        "global 1 of run icu holds; DONE: completed",
    ]
    signed = Proof("icu", None, PASSES, None, 0, (), "d" * 64, lead_key="e" * 64)
    assert "every sealed document is signed; the lead's key is eeeeeeeeeeee..." in list(closing_lines(signed))
    assert json.loads(proof_json("icu", PASSES, proof=signed, error=None))["lead_key"] == "e" * 64


def test_an_audit_shows_foreign_text_as_ascii_and_one_line() -> None:
    foreign = AuditLine(
        LINE.at, "global", "rush", "foreign", None, None, "", "", "", 5, "global/\u00e9\n[red]", "odd"
    )
    audit = Audit("icu", (LINE, foreign), ("sites/nu: no store",))
    text = shown(audit_table(audit))
    assert text.isascii()
    assert max(len(line) for line in text.splitlines()) <= 80
    assert list(audit_notes(audit)) == [
        "global/??[red]: odd",
        "not readable from here: sites/nu: no store",
    ]
    assert json.loads(audit_json(audit))["lines"][0]["at"] == "2026-11-30T08:00:00.000Z"
    assert audit_csv(audit).splitlines()[1].startswith("2026-11-30T08:00:00.000Z,sites/university")


def test_a_replay_shows_each_metric_beside_the_runs_own() -> None:
    outcomes = (
        Replayed(1, ("nu",), 50, {"auroc": 0.71, "new": 1.0}, "e" * 64, {"auroc": 0.75}, "f" * 64),
        Replayed(2, (), 0, {}, "", {"auroc": 0.76}, "f" * 64),
    )
    flat = " ".join(shown(replay_table(outcomes)).split())
    assert "auroc 0.7500 0.7100" in flat
    assert "new - 1" in flat
    assert "nobody was left model ffffffffffff -" in flat
