"""Names of the protocol: made and read back the same, and nothing else is ever believed."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stitch import layout
from stitch.layout import GLOBAL, Event, PassRef, What
from stitch.store.keys import check_key

SITES = st.from_regex(r"[a-z](-?[a-z0-9]){0,19}", fullmatch=True)
NUMBERS = st.integers(0, 12_000)
SERIALS = st.integers(1, 120_000)
ATTEMPTS = st.integers(0, 1200)
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
EXTS = st.from_regex(r"[a-z0-9]{1,16}", fullmatch=True)
LANES = st.one_of(st.just(GLOBAL), SITES.map(layout.site_lane))
REFS = st.one_of(
    st.builds(PassRef, NUMBERS),
    st.builds(PassRef, NUMBERS, SITES, ATTEMPTS),
)


@given(REFS, DIGESTS, EXTS)
def test_a_pass_is_read_back_from_all_its_names(ref: PassRef, digest: str, ext: str) -> None:
    seal, model = layout.require(ref.seal), layout.require(ref.model(digest, ext))
    assert (seal.what, seal.ref, seal.lane) == (What.SEAL, ref, ref.lane)
    assert (model.what, model.ref, model.digest, model.ext) == (What.MODEL, ref, digest[:12], ext)
    assert layout.mirror_path(ref.model(digest, ext)) == ref.mirror_model(ext)
    assert layout.mirror_path(ref.seal) == ref.seal


@given(REFS, DIGESTS, EXTS)
def test_an_attachment_keeps_its_name_and_loses_its_digest_in_the_mirror(
    ref: PassRef, digest: str, ext: str
) -> None:
    name = layout.stored_name("outer_state", digest, ext=ext)
    key = layout.require(f"{ref.folder}/{name}")
    assert (key.what, key.ref, key.name) == (What.ATTACHMENT, ref, "outer_state")
    assert layout.mirror_path(f"{ref.folder}/{name}") == f"{ref.folder}/outer_state.{ext}"


@given(REFS, DIGESTS)
def test_a_signature_is_read_back_beside_what_it_signs(ref: PassRef, digest: str) -> None:
    path = layout.signature(ref.seal, digest)
    key = layout.require(path)
    assert (key.what, key.lane, key.name, key.signs) == (
        What.SIGNATURE, ref.lane, ref.seal, digest[:12],
    )  # fmt: skip
    assert layout.mirror_path(path) == path


@given(SITES, NUMBERS, st.sampled_from(Event), st.integers(1, 1200))
def test_an_event_is_read_back(site: str, number: int, event: Event, attempt: int) -> None:
    key = layout.require(layout.event(site, number, name=event, attempt=attempt))
    assert (key.what, key.lane, key.number) == (What.EVENT, layout.site_lane(site), number)
    assert (key.name, key.attempt) == (event, attempt)


@given(LANES, SERIALS)
def test_terms_rosters_and_joins_are_read_back(lane: str, serial: int) -> None:
    term = layout.require(layout.term(lane, serial))
    assert (term.what, term.lane, term.number) == (What.TERM, lane, serial)
    roster = layout.require(layout.roster(serial))
    assert (roster.what, roster.lane, roster.number) == (What.ROSTER, GLOBAL, serial)
    site = layout.lane_site(lane)
    if site is not None:
        join = layout.require(layout.join(site, serial))
        assert (join.what, join.lane, join.number) == (What.JOIN, lane, serial)


@given(NUMBERS, ATTEMPTS)
def test_verdicts_and_aborts_are_read_back_and_told_apart(number: int, attempt: int) -> None:
    verdict = layout.require(layout.verdict(number, attempt))
    abort = layout.require(layout.abort(number, attempt))
    assert (verdict.what, verdict.number, verdict.attempt) == (What.VERDICT, number, attempt)
    assert (abort.what, abort.number, abort.attempt) == (What.ABORT, number, attempt)


@given(LANES)
def test_only_orchestration_and_heartbeats_may_be_replaced(lane: str) -> None:
    assert layout.require(layout.heartbeat(lane)).replaced
    assert layout.require(layout.orchestration()).replaced
    others = (layout.manifest(), layout.done(), layout.term(lane, 1), layout.roster(1))
    assert not any(layout.require(path).replaced for path in others)


@given(st.text(max_size=80))
def test_text_that_happens_to_come_along_is_no_name(text: str) -> None:
    key = layout.parse(text)
    assert key is None or key.lane == layout.lane_of(text)


ODD = st.one_of(
    st.sampled_from(
        ["..", ".", "", "a1", "~$model", "model", "metrics.json ", "\u0660\u0661\u0662", "pass_\uff11"]
    ),
    st.text(string.printable, max_size=6),
)


@given(st.one_of(st.builds(lambda ref: ref.seal, REFS), st.just(layout.done())), ODD, st.integers(0, 60))
def test_a_name_with_anything_put_in_is_another_name_or_none(path: str, odd: str, at: int) -> None:
    """Whatever is parsed is exactly what would be written: there are no two spellings of one key."""
    changed = path[:at] + odd + path[at:]
    key = layout.parse(changed)
    if key is None:
        return
    check_key(changed)
    if key.what is What.SEAL:
        assert key.ref is not None
        assert key.ref.seal == changed
    elif key.what in (What.MODEL, What.ATTACHMENT):
        assert key.ref is not None
        assert changed.startswith(key.ref.folder + "/")
    elif key.what is What.SIGNATURE:
        assert changed == layout.signature(key.name, key.signs)
    else:
        assert changed == path


@pytest.mark.parametrize(
    "path",
    [
        "global/pass_01/metrics.json",
        "global/pass_0001/metrics.json",
        "global/pass_-01/metrics.json",
        "global/pass_001.a1/metrics.json",
        "global/pass_001/model.npz",
        "global/pass_001/model.3F9A2C41D0B7.npz",
        "global/pass_001/model.3f9a2c41d0b.npz",
        "global/pass_001/model.3f9a2c41d0b7.npz.part",
        "global/pass_001/../manifest.json",
        "global/PASS_001/metrics.json",
        "global//manifest.json",
        "/global/manifest.json",
        "global/manifest.json/",
        "global/manifest.json\n",
        "global\\manifest.json",
        "global/join/0001.json",
        "global/events/heartbeat.json",
        "global/lease/term-1.json",
        "global/lease/term-00001.json",
        "global/rounds/pass_001.a01.json",
        "global/rounds/pass_001.json",
        "sites/nu/pass_001.a0/metrics.json",
        "sites/nu/pass_001.a01/metrics.json",
        "sites/nu/events/pass_001.started.1.json",
        "sites/nu/events/pass_001.started.02.json",
        "sites/nu/events/pass_001.rejected.json",
        "sites/nu/manifest.json",
        "sites/NU/pass_001/metrics.json",
        "sites/nu-/pass_001/metrics.json",
        "sites/n--u/pass_001/metrics.json",
        "sites/1nu/pass_001/metrics.json",
        "sites//pass_001/metrics.json",
        f"sites/{'n' * 41}/pass_001/metrics.json",
        "sites/nu/pass_001/state/weights.bin",
        "sites/nu/pass_001/.metrics.json",
        "sites/nu/pass_001/metrics (conflicted copy).json",
        "runs/run.log",
        "global/pass_\u0660\u0660\u0661/metrics.json",
        "global/lease/term-\u0660\u0660\u0660\u0661.json",
        "sites/nu/events/pass_001.started.1\u0662.json",
    ],
)
def test_names_that_look_like_ours_and_are_not(path: str) -> None:
    assert layout.parse(path) is None


def test_order_is_by_number_past_999() -> None:
    refs = [PassRef(number) for number in (0, 9, 99, 998, 999, 1000, 1001, 9999, 10_000)]
    assert [ref.folder.rpartition("_")[2] for ref in refs[4:6]] == ["999", "1000"]
    assert sorted(refs) == refs
    assert [layout.require(ref.seal).number for ref in refs] == [ref.number for ref in refs]
    assert max([PassRef(1, "nu"), PassRef(1, "nu", 2), PassRef(1, "nu", 10)]).attempt == 10
