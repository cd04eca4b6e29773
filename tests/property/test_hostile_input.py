"""What a stranger may put into the store: parsers name it and stay small, whatever it is."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stitch import layout
from stitch.errors import BadDocument, UnsupportedKind
from stitch.store.conflicts import conflict_of
from stitch.wire import MAX_BYTES, Abort, Document, Done, EventDoc, Roster, Seal, Verdict
from tests.property.test_wire_round_trips import DOCUMENTS, KINDS

MB = 1_000_000
EVERY: tuple[type[Document], ...] = (*KINDS, Abort)


class Raw(str):
    """A value as it is to stand in the text, whether or not it is JSON."""

    __slots__ = ()


HOSTILE = st.one_of(
    st.sampled_from([Raw("9" * 4000), Raw("9" * 5000), Raw("-" + "9" * 400), Raw("1e999"), Raw("-1e999")]),
    st.sampled_from([Raw("NaN"), Raw("Infinity"), Raw("-Infinity"), Raw("1e-999"), Raw("0.1"), Raw("-1")]),
    st.sampled_from([Raw('"\\ud800"'), Raw('["\\udfff"]'), Raw('{"\\ud83d": 1}'), Raw('"\\u0000"')]),
    st.sampled_from([Raw("[" * 5000), Raw("[" * 40 + "]" * 40), Raw('{"a": 1, "a": 2}'), Raw("'text'")]),
    st.sampled_from(["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "", "\x1b[2J", "a" * 5000]),
    st.sampled_from([None, True, False, {}, [], [None] * 50, {"x": {"y": []}}, 2**63, 2**64, 1e300, -0.0]),
    st.text(max_size=20),
)


def _text(value: Any) -> str:
    """JSON, with every `Raw` as it stands."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {_text(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return json.dumps(value)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, the members of its parts included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, one in inner for place in _places(one, (*path, name)))]


def _read(cls: type[Document], data: bytes) -> Document | None:
    try:
        return cls.parse(data, source="here")
    except (BadDocument, UnsupportedKind) as error:
        text = str(error)
    assert len(text) < 600, "one line, whatever the document says"
    assert text.isprintable()
    return None


@given(DOCUMENTS, HOSTILE, st.data())
def test_a_hostile_value_anywhere_is_refused_by_name_or_can_be_written_again(
    document: Document, value: object, data: st.DataObject
) -> None:
    raw = json.loads(document.dump())
    place = data.draw(st.sampled_from([p for p in _places(raw) if p]))
    holder = raw
    for name in place[:-1]:
        holder = holder[name]
    holder[place[-1]] = value
    read = _read(type(document), _text(raw).encode())
    if read is not None:
        assert read.agrees(type(document).parse(read.dump(), source="again"))


@given(DOCUMENTS, st.text(min_size=1, max_size=12), HOSTILE)
def test_a_hostile_field_that_nobody_knows_is_refused_or_kept(
    document: Document, name: str, value: object
) -> None:
    raw = {**json.loads(document.dump()), name: value}
    read = _read(type(document), _text(raw).encode())
    if read is not None:
        assert read.agrees(type(document).parse(read.dump(), source="again"))


def _begin(cls: type[Document]) -> str:
    return f'{{"kind": "stitch.{cls.NAME}/1", '


LONG = MAX_BYTES - 99
SCORES = "".join(f'"m{n}": 1, ' for n in range(80_000))
FLOODS: dict[str, Callable[[], str]] = {
    "a hundred thousand levels of lists": lambda: "[" * 100_000,
    "a hundred thousand levels of objects": lambda: '{"a":' * 100_000,
    "four megabytes of lists": lambda: '{"x": [' + "[]," * 1_390_000 + "[]]}",
    "four megabytes of wrong inputs": lambda: _begin(Verdict) + '"inputs": [' + "1," * 2_000_000 + "1]}",
    "as many wrong inputs as are read": lambda: _begin(Verdict) + '"inputs": [' + "1," * 99_000 + "1]}",
    "as many wrong sites as are read": lambda: _begin(Roster) + '"sites": [' + "{}," * 49_000 + "{}]}",
    "a name of four megabytes": lambda: _begin(Seal) + '"metrics": {"' + "m" * LONG + '": 1}}',
    "a kind of four megabytes": lambda: '{"kind": "stitch.' + "k" * LONG + '/1"}',
    "a major of five thousand digits": lambda: '{"kind": "stitch.done/' + "9" * 5000 + '"}',
    "a number of four megabytes": lambda: _begin(Done) + '"final_pass": ' + "9" * LONG + "}",
    "a text of four megabytes": lambda: _begin(Done) + '"reason": "' + "r" * LONG + '"}',
    "one byte too many": lambda: " " * (MAX_BYTES + 1),
    "scores without end": lambda: _begin(EventDoc) + '"metrics": {' + SCORES + '"last": 1}}',
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_is_refused_in_little_memory(flood: str) -> None:
    data = FLOODS[flood]().encode()
    kinds: tuple[type[Document], ...] = (Seal, Verdict, Roster, Done, EventDoc)
    for cls in EVERY if len(data) < MB else kinds:
        tracemalloc.start()
        try:
            assert _read(cls, data) is None
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 150 * MB, f"{cls.NAME}: {peak / MB:.0f} MB"


TRICKS = [
    "../global/DONE.json",
    "sites/../global/DONE.json",
    "sites/nu/../../global/DONE.json",
    "global/./DONE.json",
    "global//DONE.json",
    "/global/DONE.json",
    "C:/global/DONE.json",
    "C:\\global\\DONE.json",
    "global\\DONE.json",
    "\\\\server\\share\\global\\DONE.json",
    "global/DONE.json\0",
    "global/DONE\0.json",
    "global/DONE.json ",
    "global/DONE.json\n",
    "global/DONE.json::$DATA",
    "global/D\u039fNE.json",
    "gl\u043ebal/DONE.json",
    "global\u2215DONE.json",
    "sites/n\u00fc/pass_001/metrics.json",
    "sites/NU/pass_001/metrics.json",
    "sites/nu/pass_\uff10\uff10\uff11/metrics.json",
    "sites/nu/pass_001/model.\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661\u0661.npz",
    "sites/nu/pass_" + "9" * 19 + "/metrics.json",
    "sites/nu/pass_" + "9" * 5000 + "/metrics.json",
    "sites/nu/pass_001.a" + "9" * 5000 + "/metrics.json",
    "sites/nu/events/pass_001.started." + "9" * 5000 + ".json",
    "sites/nu/lease/term-" + "9" * 5000 + ".json",
    "global/rounds/pass_001.a" + "9" * 5000 + ".json",
    "sites/" + "a" * 100_000 + "/pass_001/metrics.json",
    "sites/" + "a-" * 50_000 + "a/pass_001/metrics.json",
    "sites/nu/pass_001/" + "a" * 100_000 + ".0123456789ab.npz",
    "sites/nu/state/secret.json",
    "sites/nu/pass_001/state/secret.json",
    "local/outbox/sites-nu-pass_001.json",
]


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: ascii(trick)[:40])
def test_a_trick_in_a_key_is_no_key(trick: str) -> None:
    assert layout.parse(trick) is None
    with pytest.raises(BadDocument) as refused:
        layout.require(trick)
    assert len(str(refused.value)) < 600
    assert str(refused.value).isprintable()


PARTS = st.sampled_from(
    ["global", "sites", "nu", "..", ".", "", "\\", "C:", "\0", "pass_001", "pass_\u0661", "metrics.json"]
) | st.text(st.characters(codec=None), max_size=8)


@given(st.lists(PARTS, max_size=6))
def test_whatever_is_read_as_a_key_stays_in_its_lane(parts: list[str]) -> None:
    key = layout.parse("/".join(parts))
    assert key is None or ".." not in parts


@given(
    st.text(st.sampled_from("a-() conflict.ed copy1"), max_size=300), st.sets(st.text(max_size=5), max_size=3)
)
def test_any_name_may_stand_beside_a_key(name: str, known: set[str]) -> None:
    copied = conflict_of(name, known)
    assert len(copied) <= len(name)
