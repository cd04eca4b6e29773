"""Documents that this version published: read for ever, written the same, refused when too new.

When a kind gains a field, add a file with it. An older file then stays here and moves to `OLDER` below.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stitch.errors import BadDocument, UnsupportedKind
from stitch.wire import MAX_BYTES, Document

FILES = sorted((Path(__file__).parent / "documents").glob("*.json"))
OLDER: frozenset[str] = frozenset()
"""Files written before a field was added: every field of theirs is kept, and new ones are added."""

WITHOUT_BEST = {"orchestration", "orchestration-first", "orchestration-complete"}
"""Files that are still written so: a later field that a run does not use is left out."""


def kinds(root: type[Document] = Document) -> Iterator[type[Document]]:
    for kind in root.__subclasses__():
        yield kind
        yield from kinds(kind)


KINDS = {kind.NAME: kind for kind in kinds()}


def kind_of(file: Path) -> type[Document]:
    return KINDS[file.stem.partition("-")[0]]


def changed(file: Path, **fields: object) -> bytes:
    return json.dumps(json.loads(file.read_bytes()) | fields).encode()


def test_every_kind_has_a_golden_file_that_says_so() -> None:
    said = {file.stem.partition("-")[0]: json.loads(file.read_bytes())["kind"] for file in FILES}
    assert said == {name: f"stitch.{name}/{kind.MAJOR}" for name, kind in KINDS.items()}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_is_read_and_written_the_same_byte_for_byte(file: Path) -> None:
    data = file.read_bytes()
    document = kind_of(file).parse(data, source=file.name)
    if file.stem in OLDER:
        assert json.loads(document.dump()) | json.loads(data) == json.loads(document.dump())
    else:
        assert document.dump() == data
    assert document.agrees(kind_of(file).parse(document.dump(), source="again"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_field_is_written_somewhere(file: Path) -> None:
    later = {"best"} if file.stem in WITHOUT_BEST else set()
    assert kind_of(file).model_fields.keys() - later == json.loads(file.read_bytes()).keys()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_field_it_does_not_know_is_kept(file: Path) -> None:
    extra = {"x_ward": {"beds": [1, 2, None], "name": "Süd"}}
    document = kind_of(file).parse(changed(file, **extra), source=file.name)
    assert json.loads(document.dump()) == json.loads(file.read_bytes()) | extra


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("metrics-global", ("round",)),
        ("metrics-global", ("round", "inputs", 0)),
        ("metrics-global", ("round", "excluded", 0)),
        ("metrics-means", ("round", "evaluated")),
        ("metrics-means", ("round", "evaluated", "sites", 0)),
        ("metrics-every-field", ("attachments", 0)),
        ("orchestration", ("directive",)),
        ("orchestration-best", ("best",)),
        ("roster", ("sites", 0)),
    ],
)
def test_a_field_it_does_not_know_is_kept_inside_as_well(name: str, path: tuple[str | int, ...]) -> None:
    file = next(file for file in FILES if file.stem == name)
    raw = json.loads(file.read_bytes())
    place = raw
    for step in path:
        place = place[step]
    place["x_more"] = "kept"
    document = kind_of(file).parse(json.dumps(raw).encode(), source=name)
    assert json.loads(document.dump()) == raw


@pytest.mark.parametrize("name", KINDS)
def test_a_newer_major_is_refused_by_name(name: str) -> None:
    file = next(file for file in FILES if file.stem.partition("-")[0] == name)
    newer = f"stitch.{name}/{KINDS[name].MAJOR + 1}"
    with pytest.raises(UnsupportedKind, match=rf"a/b\.json: {newer} is newer"):
        KINDS[name].parse(changed(file, kind=newer), source="a/b.json")


@pytest.mark.parametrize("name", KINDS)
def test_another_document_in_its_place_is_refused_by_name(name: str) -> None:
    other = next(file for file in FILES if file.stem.partition("-")[0] != name)
    with pytest.raises(UnsupportedKind, match=f"expected a stitch.{name}"):
        KINDS[name].parse(other.read_bytes(), source="a/b.json")


@pytest.mark.parametrize("name", KINDS)
def test_each_field_that_has_no_default_is_missed(name: str) -> None:
    file = next(file for file in FILES if file.stem.partition("-")[0] == name)
    raw = json.loads(file.read_bytes())
    for field in (field for field, info in KINDS[name].model_fields.items() if info.is_required()):
        rest = {key: value for key, value in raw.items() if key != field}
        with pytest.raises(BadDocument, match=field):
            KINDS[name].parse(json.dumps(rest).encode(), source="a/b.json")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"kind": "stitch.done"}',
        b'{"kind": "stitch.done/0"}',
        b'{"kind": 1}',
        b'{"kind": "stitch.done/1", "final_pass": NaN}',
        '{"kind": "stitch.done/1"}'.encode("utf-16"),
        b'{"kind": "stitch.done/1", "x": "\xff"}',
        b'{"kind": "stitch.done/1", "x": ' + b"[" * 40 + b"]" * 40 + b"}",
        b" " * (MAX_BYTES + 1),
    ],
    ids=lambda data: str(data[:40]),
)
def test_what_is_no_document_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(BadDocument) as refused:
        KINDS["done"].parse(data, source="global/DONE.json")
    assert str(refused.value).startswith("global/DONE.json: ")
    assert "\n" not in str(refused.value)


def test_a_byte_order_mark_is_no_trouble() -> None:
    file = next(file for file in FILES if file.stem == "done")
    assert KINDS["done"].parse(b"\xef\xbb\xbf" + file.read_bytes(), source="x").dump() == file.read_bytes()
