"""Means over the sites in a global's seal: `verify` reckons them again, and nothing waits for a score."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from stitch import layout
from stitch.config.evaluation import Evaluation
from stitch.errors import DigestMismatch, ProtocolError
from stitch.layout import Event, PassRef
from stitch.testing.faulty import Call, Fault
from stitch.testing.federation import RUN_ID, Federation
from stitch.testing.processes import Process
from stitch.wire import EventDoc, sha256
from tests.unit.loops.conftest import Begin
from tests.unit.loops.elastic import record_of
from tests.unit.loops.proof import alter, prove

SITES = ("rush", "nu")


@pytest.fixture
def federation(begin: Begin) -> Federation:
    """Two sites, which score each global by its value less 1 and less 2, on 50 and on 100 samples."""
    federation = begin(sites=SITES, num_passes=2)
    federation.scores = True
    return federation


def run(federation: Federation) -> Federation:
    for site in SITES:
        federation.start(site)
    federation.run()
    return federation


def of(site: str, number: int) -> str:
    return layout.event(site, number, name=Event.EVALUATED)


def test_the_seal_of_a_global_carries_the_means_of_its_inputs(federation: Federation) -> None:
    run(federation)
    for number in (1, 2):
        base = federation.hooks.value(number - 1)
        means = record_of(federation, number).train_means or {}
        assert list(means) == ["value"]
        assert means["value"] == pytest.approx((100 * (base + 1) + 200 * (base + 2)) / 300)
    assert record_of(federation, 0).train_means is None


def test_and_those_of_the_scores_of_the_global_before_it_with_whose_they_are(federation: Federation) -> None:
    run(federation)
    for number in (1, 2):
        value, found = federation.hooks.value(number - 1), record_of(federation, number).evaluated
        assert found is not None
        assert found.pass_id == number - 1
        assert [(one.site, one.n_samples) for one in found.sites] == [("nu", 100), ("rush", 50)]
        assert [one.event_sha256 for one in found.sites] == [
            sha256(federation.read(of(site, number - 1)) or b"") for site in ("nu", "rush")
        ]
        assert list(found.means) == ["score"]
        assert found.means["score"] == pytest.approx((50 * (value - 1) + 100 * (value - 2)) / 150)
    assert record_of(federation, 0).evaluated is None
    prove(federation)


def test_a_run_without_an_evaluate_hook_seals_none_of_it(federation: Federation) -> None:
    federation.scores = False
    run(federation)
    assert record_of(federation, 2).evaluated is None
    assert b'"evaluated"' not in (federation.read(PassRef(2).seal) or b"")
    prove(federation)


def test_a_site_without_a_score_is_not_waited_for_and_not_counted(federation: Federation) -> None:
    def before(process: Process, what: str, *, key: str) -> None:
        if process.site == "nu" and what == "evaluate" and key == "pass_001":
            raise ValueError

    federation.before = before
    run(federation)
    found = record_of(federation, 2).evaluated
    assert found is not None
    assert [one.site for one in found.sites] == ["rush"]
    assert found.means == {"score": federation.hooks.value(1) - 1}


@pytest.mark.parametrize(
    "forged", [{"model_sha256": "0" * 64}, {"n_samples": 0}, {"n_samples": None}, {"kind": "?"}]
)
def test_a_score_that_is_not_of_this_very_global_does_not_count(
    federation: Federation, forged: dict[str, object]
) -> None:
    """It lies there before nu comes to make its own."""
    held = federation.folder / "forged.json"

    def before(process: Process, what: str, *, key: str) -> None:
        if (process.site, what, key) == ("nu", "evaluate", "pass_001"):
            sealed = federation.seal(PassRef(1))
            assert sealed is not None
            fields = {"run_id": RUN_ID, "site": "nu", "pass_id": 1, "event": "evaluated", "attempt": 1}
            said = {"model_sha256": sealed.model_sha256, "n_samples": 9000, "metrics": {"score": 99.0}}
            doc = EventDoc.make(**fields, **said, created_at=federation.clock.now())
            held.write_text(json.dumps(json.loads(doc.dump()) | forged), encoding="utf-8")
            federation.record.inner.push(held, f"{RUN_ID}/{of('nu', 1)}", mode="create")

    federation.before = before
    for site in SITES:
        federation.start(site)
    for _ in range(60):
        for process in federation.alive():
            process.turns()
    found = record_of(federation, 2).evaluated
    assert found is not None
    assert [one.site for one in found.sites] == ["rush"]
    assert found.means == {"score": federation.hooks.value(1) - 1}


def test_a_lane_whose_score_cannot_be_read_holds_up_nobody(federation: Federation) -> None:
    def plan(process: Process) -> Callable[[Call], Fault | None]:
        def fault(call: Call) -> Fault | None:
            lost = process.site == "rush" and call.verb == "pull" and call.key.endswith(of("nu", 1))
            return "unavailable" if lost else None

        return fault

    federation.plan = plan
    run(federation)
    found = record_of(federation, 2).evaluated
    assert found is not None
    assert [one.site for one in found.sites] == ["rush"]
    assert all(process.finished for process in federation.processes)


def test_verify_names_a_mean_that_its_inputs_do_not_have(federation: Federation) -> None:
    run(federation)
    alter(federation, PassRef(2).seal, lambda raw: raw["round"]["train_means"].update(value=9.0))
    alter_done(federation)
    with pytest.raises(ProtocolError, match=r"pass_002/metrics\.json: train_means says value 9\.0"):
        prove(federation)


def test_verify_names_a_mean_that_its_scores_do_not_have(federation: Federation) -> None:
    run(federation)
    alter(federation, PassRef(2).seal, lambda raw: raw["round"]["evaluated"]["means"].update(score=9.0))
    alter_done(federation)
    with pytest.raises(ProtocolError, match=r"evaluated\.means says score 9\.0"):
        prove(federation)


def test_verify_names_a_score_that_was_altered(federation: Federation) -> None:
    run(federation)
    prove(federation)
    alter(federation, of("nu", 1), lambda raw: raw["metrics"].update(score=9.0))
    with pytest.raises(DigestMismatch, match=r"nu/events/pass_001\.evaluated\.json is not the event"):
        prove(federation)


def test_verify_names_a_score_of_somebody_who_never_took_part(federation: Federation) -> None:
    """No lane of a stranger is ever looked at, so nothing else would contradict such means."""
    run(federation)
    ghost = {"site": "ghost", "n_samples": 9000, "event_sha256": "0" * 64}

    def forge(raw: dict[str, Any]) -> None:
        raw["round"]["evaluated"].update(sites=[ghost], means={"score": 99.0})

    alter(federation, PassRef(2).seal, forge)
    alter_done(federation)
    with pytest.raises(ProtocolError, match="`evaluated` names ghost, who is on no roster"):
        prove(federation)


def test_verify_misses_the_means_of_the_training_where_globals_are_compared_by_them(
    federation: Federation,
) -> None:
    goal = Evaluation(best_metric="value", mode="max", patience=9, by="train")
    federation.changes["evaluation"] = goal
    run(federation)
    prove(federation)
    alter(federation, PassRef(2).seal, lambda raw: raw["round"].pop("train_means"))
    alter_done(federation)
    with pytest.raises(ProtocolError, match="has no train_means, by which this run compares"):
        prove(federation)


def alter_done(federation: Federation) -> None:
    """Let the end marker follow a final global that was altered: the chain alone would not tell."""
    digest = sha256(federation.read(PassRef(2).seal) or b"")
    alter(federation, layout.done(), lambda raw: raw.update(final_metrics_sha256=digest))
