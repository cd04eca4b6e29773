"""What a site pass must be before a round may use it, as values; each reason has its code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stitch.layout import PassRef, stored_name
from stitch.rounds import Code, Reason, Started, Terms, round_seed, unfit, unused
from stitch.wire import Excluded, Seal

REF = PassRef(2, "nu")
BASE, MODEL, ROOT, PIN = "b" * 64, "c" * 64, "d" * 64, "e" * 64
BESIDE = {"name": "more", "file": stored_name("more", ROOT, ext="npz"), "sha256": ROOT, "bytes": 9}
TERMS = Terms(
    run_id="trial",
    config_sha256="1" * 64,
    root_seed=7,
    ext="npz",
    max_bytes=1000,
    chain={0: "a" * 64, 1: BASE},
    pins={"features": PIN},
)
COMMITTED = replace(TERMS, commit=True)


def seal(**changes: object) -> Seal:
    fields: dict[str, object] = {
        "run_id": "trial",
        "lane": "sites/nu",
        "pass_id": 2,
        "attempt": 1,
        "base_pass": 1,
        "base_sha256": BASE,
        "model_file": stored_name("model", MODEL, ext="npz"),
        "model_sha256": MODEL,
        "model_bytes": 900,
        "n_samples": 100,
        "metrics": {"loss": 0.5},
        "config_sha256": "1" * 64,
        "pins": {"features": PIN},
        "round_seed": round_seed(7, 2),
        "created_at": "2026-01-01T00:00:00Z",
        "stitch_version": "0.1.0",
    }
    return Seal.make(**fields | changes)


def test_in_a_private_run_a_pass_must_say_that_it_was_clipped_and_noised() -> None:
    private = replace(TERMS, transforms=("clip:1", "gaussian:2"))
    fit = seal(transforms=["pre_release", "clip:1", "gaussian:2"])
    assert unfit(fit, private, ref=REF, started=None) is None
    for said in ([], ["clip:1"], ["clip:2", "gaussian:2"], ["clip:1", "gaussian:1"]):
        reason = unfit(seal(transforms=said), private, ref=REF, started=None)
        assert isinstance(reason, Reason)
        assert reason.code is Code.TRANSFORMS


def test_an_honest_pass_is_fit() -> None:
    assert unfit(seal(), TERMS, ref=REF, started=None) is None
    assert unused(seal()) is None


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"run_id": "other"}, Code.PLACE, "another run"),
        ({"lane": "sites/rush"}, Code.PLACE, "another lane"),
        ({"pass_id": 3}, Code.PLACE, "another pass"),
        ({"model_file": stored_name("model", MODEL, ext="pkl")}, Code.PLACE, "another model extension"),
        ({"attempt": 0}, Code.PLACE, "no site pass"),
        ({"attempt": 10_000}, Code.PLACE, "no site pass"),
        ({"config_sha256": "2" * 64}, Code.SETTINGS, "other settings, or another hook contract"),
        ({"model_bytes": 1001}, Code.SIZE, "1001 bytes"),
        ({"attachments": [BESIDE]}, Code.PLACE, "lists files beside its model"),
        ({"base_pass": None, "base_sha256": None}, Code.BASE, "no base"),
        ({"base_sha256": "f" * 64}, Code.BASE, "not on this chain"),
        ({"base_sha256": None}, Code.BASE, "not on this chain"),
        ({"base_pass": 7}, Code.BASE, "not on this chain"),
        ({"base_pass": 0, "base_sha256": "a" * 64}, Code.BASE, "trained from global 0, not 1"),
        ({"round_seed": round_seed(7, 1)}, Code.ROUND_SEED, "not that of its round"),
        ({"pins": {}}, Code.PINS, "not those of the run"),
        ({"pins": {"features": "f" * 64}}, Code.PINS, "not those of the run"),
        ({"pins": {"features": PIN, "more": PIN}}, Code.PINS, "not those of the run"),
    ],
)
def test_each_thing_that_is_wrong_has_its_code_and_its_line(
    changes: dict[str, object], code: Code, text: str
) -> None:
    reason = unfit(seal(**changes), TERMS, ref=REF, started=None)
    assert reason is not None
    assert (reason.code, text in reason) == (code, True), reason


def test_a_metric_that_is_not_finite_is_refused_even_where_no_parser_stood_before() -> None:
    odd = seal().model_copy(update={"metrics": {"loss": float("nan")}})
    reason = unfit(odd, TERMS, ref=REF, started=None)
    assert reason is not None
    assert reason.code is Code.METRICS


def test_no_samples_are_fit_to_leave_the_site_and_of_no_use_to_the_lead() -> None:
    none = seal(n_samples=0)
    assert unfit(none, TERMS, ref=REF, started=None) is None
    assert unused(none) == "zero samples"


@pytest.mark.parametrize(
    ("root", "started", "code"),
    [
        (ROOT, Started(ROOT), None),
        (ROOT, Started("f" * 64), Code.COMMITMENT),
        (ROOT, Started(None), Code.COMMITMENT),
        (None, Started(ROOT), Code.COMMITMENT),
        (None, Started(None), Code.NOT_COMMITTED),
        (ROOT, None, Code.NOT_BOUND),
        (None, None, Code.NOT_BOUND),
    ],
)
def test_the_seal_declares_the_data_that_its_own_training_began_with(
    root: str | None, started: Started | None, code: Code | None
) -> None:
    reason = unfit(seal(dataset_root=root), COMMITTED, ref=REF, started=started)
    assert (reason and reason.code) == code


def test_a_root_that_nobody_asked_for_must_be_true_as_well() -> None:
    reason = unfit(seal(dataset_root=ROOT), TERMS, ref=REF, started=Started("f" * 64))
    assert reason is not None
    assert reason.code is Code.COMMITMENT


def test_a_reason_is_text_for_every_document_and_keeps_its_code() -> None:
    reason = Reason(Code.PINS, "its pins are not those of the run")
    assert reason == "its pins are not those of the run"
    assert Excluded(site="nu", reason=reason).model_dump() == {"site": "nu", "reason": str(reason)}
