"""Every path of the protocol means what keys.txt says, and is written the same again."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitch import layout
from stitch.layout import Event, Key, PassRef, What

LINES = [
    line
    for line in (Path(__file__).parent / "keys.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
KNOWN = [line.split(" = ", 1) for line in LINES if " = " in line]
UNKNOWN = [line.removesuffix(" !") for line in LINES if line.endswith(" !")]
NUMBERED = {What.VERDICT, What.ABORT, What.EVENT}


def meaning(key: Key) -> str:
    """A key in the words of keys.txt."""
    words = [str(key.what), f"lane={key.lane}"]
    if key.ref is not None:
        words += [f"pass={key.ref.number}"] + ([f"redo={key.ref.attempt}"] if key.ref.attempt else [])
    elif key.what in NUMBERED:
        words += [f"pass={key.number}", f"attempt={key.attempt}"]
    elif key.number:
        words += [f"serial={key.number}"]
    parts = {"name": key.name, "digest": key.digest, "ext": key.ext, "signs": key.signs}
    return " ".join([*words, *(f"{name}={value}" for name, value in parts.items() if value)])


def written(key: Key) -> str:
    """The path that the functions of `layout` make from a parsed key."""
    site = layout.lane_site(key.lane)
    match key.what, key.ref, site:
        case What.SIGNATURE, None, _:
            return layout.signature(key.name, key.signs)
        case What.SEAL, PassRef() as ref, _:
            return ref.seal
        case What.MODEL, PassRef() as ref, _:
            return ref.model(key.digest, key.ext)
        case What.ATTACHMENT, PassRef() as ref, _:
            return f"{ref.folder}/{layout.stored_name(key.name, key.digest, ext=key.ext)}"
        case What.EVENT, None, str(site):
            return layout.event(site, key.number, name=Event(key.name), attempt=key.attempt)
        case What.JOIN, None, str(site):
            return layout.join(site, key.number)
        case What.TERM, None, _:
            return layout.term(key.lane, key.number)
        case What.HEARTBEAT, None, _:
            return layout.heartbeat(key.lane)
        case _:
            return _written_by_the_lead(key)


def _written_by_the_lead(key: Key) -> str:
    return {
        What.MANIFEST: layout.manifest(),
        What.ORCHESTRATION: layout.orchestration(),
        What.DONE: layout.done(),
        What.ROSTER: layout.roster(key.number),
        What.VERDICT: layout.verdict(key.number, key.attempt),
        What.ABORT: layout.abort(key.number, key.attempt),
        What.EVENT: layout.central(key.number),
    }[key.what]


def test_every_line_is_read() -> None:
    assert len(KNOWN) + len(UNKNOWN) == len(LINES)
    assert {text.split()[0] for _, text in KNOWN} == set(What)


@pytest.mark.parametrize(("path", "text"), KNOWN)
def test_a_path_means_what_the_list_says_and_is_written_the_same(path: str, text: str) -> None:
    key = layout.require(path)
    assert meaning(key) == text
    assert written(key) == path


@pytest.mark.parametrize("path", UNKNOWN)
def test_what_the_grammar_does_not_produce_is_no_path(path: str) -> None:
    assert layout.parse(path) is None


def test_passes_beyond_999_are_ordered_by_number() -> None:
    seals = [f"global/pass_{name}/metrics.json" for name in ("1000", "999", "123456", "000")]
    refs = [layout.require(path).ref for path in seals]
    assert sorted(ref.number for ref in refs if ref) == [0, 999, 1000, 123456]
    assert [PassRef(n).folder for n in (0, 999, 1000)] == [
        "global/pass_000",
        "global/pass_999",
        "global/pass_1000",
    ]


def test_no_two_paths_of_the_list_are_one_file_in_a_mirror() -> None:
    mirrored = [layout.mirror_path(path) for path, _ in KNOWN]
    models = [path for path, text in KNOWN if "digest=" in text]
    assert len(set(mirrored)) == len(mirrored)
    assert all(layout.parse(layout.mirror_path(path)) is None for path in models)
