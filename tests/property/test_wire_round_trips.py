"""Documents: written and read back the same, unknown fields kept, and no bytes crash a reader."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stitch.errors import BadDocument, UnsupportedKind
from stitch.wire import (
    Document,
    Done,
    EventDoc,
    Heartbeat,
    Join,
    Manifest,
    Orchestration,
    Roster,
    Seal,
    Term,
    Verdict,
)

KINDS: tuple[type[Document], ...] = (
    Done,
    EventDoc,
    Heartbeat,
    Join,
    Manifest,
    Orchestration,
    Roster,
    Seal,
    Term,
    Verdict,
)

SHA = st.text("0123456789abcdef", min_size=64, max_size=64)
SITE = st.from_regex(r"[a-z](-?[a-z0-9]){0,15}", fullmatch=True)
TEXT = st.text(max_size=30)
COUNT = st.integers(0, 2**53)
TIME = st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  the strategy adds the zone
METRICS = st.dictionaries(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,20}", fullmatch=True),
    st.floats(allow_nan=False, allow_infinity=False),
    max_size=5,
)
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXT,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=8,
)
UNKNOWN = st.dictionaries(st.from_regex(r"future_[a-z]{1,8}", fullmatch=True), JSON, max_size=3)


def _file_name(sha256: str) -> str:
    return f"model.{sha256[:12]}.npz"


INPUT = st.fixed_dictionaries(
    {"site": SITE, "pass": COUNT, "attempt": COUNT, "metrics_sha256": SHA, "n_samples": COUNT}
).flatmap(lambda fields: SHA.map(lambda sha: fields | {"model_sha256": sha, "model_file": _file_name(sha)}))

ROUND = st.fixed_dictionaries(
    {
        "policy": TEXT,
        "attempt": COUNT,
        "roster": COUNT,
        "verdict_sha256": st.none() | SHA,
        "inputs": st.lists(INPUT, max_size=3),
        "prev_metrics_sha256": SHA,
        "seed": COUNT,
        "should_stop": st.booleans(),
        "final": st.booleans(),
    }
)

FIELDS: dict[type[Document], st.SearchStrategy[dict[str, Any]]] = {
    Done: st.fixed_dictionaries(
        {
            "run_id": TEXT,
            "final_pass": st.none() | COUNT,
            "final_metrics_sha256": st.none() | SHA,
            "reason": TEXT,
            "created_at": TIME,
        }
    ),
    EventDoc: st.fixed_dictionaries(
        {
            "run_id": TEXT,
            "site": SITE,
            "pass_id": COUNT,
            "event": st.sampled_from(["started", "completed", "failed", "evaluated"]),
            "attempt": st.integers(1, 99),
            "created_at": TIME,
            "metrics": st.none() | METRICS,
        }
    ),
    Heartbeat: st.fixed_dictionaries(
        {
            "run_id": TEXT,
            "lane": TEXT,
            "nonce": TEXT,
            "term": COUNT,
            "host": TEXT,
            "beat": COUNT,
            "interval_s": st.floats(0.1, 1e6),
            "state": st.sampled_from(["idle", "training", "waiting", "released"]),
        }
    ),
    Term: st.fixed_dictionaries(
        {
            "run_id": TEXT,
            "lane": TEXT,
            "term": st.integers(1, 99_999),
            "nonce": TEXT,
            "host": TEXT,
            "interval_s": st.floats(0.1, 1e6),
            "created_at": TIME,
        }
    ),
    Verdict: st.fixed_dictionaries(
        {
            "run_id": TEXT,
            "pass_id": COUNT,
            "attempt": COUNT,
            "roster": COUNT,
            "verdict": st.sampled_from(["closed", "aborted"]),
            "inputs": st.lists(INPUT, max_size=3),
            "created_at": TIME,
        }
    ),
    Seal: st.fixed_dictionaries(
        {
            "run_id": TEXT,
            "lane": st.just("global") | SITE.map(lambda site: f"sites/{site}"),
            "pass_id": COUNT,
            "attempt": COUNT,
            "base_pass": st.none() | COUNT,
            "base_sha256": st.none() | SHA,
            "model_bytes": st.integers(1, 2**53),
            "n_samples": COUNT,
            "metrics": METRICS,
            "config_sha256": SHA,
            "round_seed": COUNT,
            "created_at": TIME,
            "stitch_version": TEXT,
            "round": st.none() | ROUND,
        }
    ).flatmap(
        lambda fields: SHA.map(lambda sha: fields | {"model_sha256": sha, "model_file": _file_name(sha)})
    ),
}
DOCUMENTS = st.sampled_from(list(FIELDS)).flatmap(
    lambda cls: st.builds(lambda fields, more: cls.make(**fields, **more), FIELDS[cls], UNKNOWN)
)


@given(DOCUMENTS)
def test_what_is_written_is_read_back_with_unknown_fields(document: Document) -> None:
    data = document.dump()
    again = type(document).parse(data, source="here")
    assert again == document
    assert again.dump() == data
    assert again.agrees(document)


@given(DOCUMENTS, st.data())
def test_a_damaged_document_is_refused_by_name_or_still_whole(
    document: Document, data: st.DataObject
) -> None:
    """Bytes lost, added or changed: `BadDocument`, `UnsupportedKind`, or a document; nothing else."""
    raw = bytearray(document.dump())
    at = data.draw(st.integers(0, len(raw) - 1))
    match data.draw(st.sampled_from(["cut", "flip", "add"])):
        case "cut":
            del raw[at:]
        case "flip":
            raw[at] ^= 1 << data.draw(st.integers(0, 7))
        case _:
            raw[at:at] = data.draw(st.binary(min_size=1, max_size=8))
    _read(type(document), bytes(raw))


@given(st.binary(max_size=300), st.sampled_from(KINDS))
def test_random_bytes_are_refused_by_name(data: bytes, cls: type[Document]) -> None:
    assert _read(cls, data) is None


@given(JSON, st.sampled_from(KINDS))
def test_any_json_is_refused_by_name(value: object, cls: type[Document]) -> None:
    assert _read(cls, json.dumps(value).encode()) is None


@given(st.dictionaries(TEXT, JSON, max_size=4), st.sampled_from(KINDS))
def test_fields_of_any_type_are_refused_by_name(fields: dict[str, object], cls: type[Document]) -> None:
    names = list(cls.model_fields)
    shuffled = dict(zip(names, fields.values(), strict=False))
    assert _read(cls, json.dumps({**shuffled, "kind": f"stitch.{cls.NAME}/1"}).encode()) is None


@given(DOCUMENTS, st.integers(2, 999))
def test_a_newer_major_is_refused_as_newer(document: Document, major: int) -> None:
    raw = json.loads(document.dump()) | {"kind": f"stitch.{document.NAME}/{major}"}
    with pytest.raises(UnsupportedKind, match="newer"):
        type(document).parse(json.dumps(raw).encode(), source="here")


@given(DOCUMENTS)
def test_a_document_is_not_read_as_another(document: Document) -> None:
    for cls in KINDS:
        if cls is not type(document):
            with pytest.raises(UnsupportedKind):
                cls.parse(document.dump(), source="here")


@pytest.mark.parametrize(
    "text",
    [
        "{" * 5000,
        "[" * 100_000,
        '{"kind": "stitch.done/1", "kind": ' + "[" * 40 + "]" * 40 + "}",
        '{"kind": "stitch.done/1", "final_pass": NaN}',
        '{"kind": "stitch.done/1", "final_pass": 1e999}',
        '{"kind": "stitch.done/1", "final_pass": ' + "9" * 5000 + "}",
        '{"kind": "stitch.done/\u0661"}',
        '{"kind": ["stitch.done/1"]}',
        '{"kind": "stitch.done/1", "reason": "\\ud800"}',
        "",
        "null",
        "\ufeff",
    ],
)
def test_traps_are_refused_by_name(text: str) -> None:
    assert _read(Done, text.encode("utf-8", "surrogatepass")) is None


def _read(cls: type[Document], data: bytes) -> Document | None:
    try:
        return cls.parse(data, source="here")
    except (BadDocument, UnsupportedKind):
        return None
