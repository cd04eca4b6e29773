"""Every file of a run, one line each, in the order of the store's time: what was written, by whom, when.

Made from the listing and the files themselves at every call, so that it cannot disagree with them. What is
too large for a document is listed with its size, and not read.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar

from rich.table import Table

from stitch import layout
from stitch.errors import StitchError
from stitch.layout import GLOBAL, Key, What
from stitch.store.base import Entry
from stitch.store.lanes import Lanes
from stitch.store.place import check_place
from stitch.views.export import as_cell, as_stamp
from stitch.views.reading import KINDS, parallel
from stitch.views.render import table
from stitch.views.words import plain, size
from stitch.wire import MAX_BYTES, Document, Manifest, Roster, sha256

D = TypeVar("D", bound=Document)

KIND = "stitch.audit/1"
"""Fields may be added under this number; none is renamed, removed or given another meaning."""

_OF_A_PASS = frozenset({What.SEAL, What.MODEL, What.ATTACHMENT, What.VERDICT, What.ABORT, What.EVENT})


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One file.

    Attributes:
        at: the store's time of its last write.
        lane: "global", or "sites/<id>".
        who: the site that owns the lane.
        what: its kind by its place; of an event its name; "foreign" for what the protocol does not name.
        pass_id: the pass concerned.
        attempt: the training attempt of an event, the round's attempt of a verdict, a redone pass's number.
        digest: of a document the SHA-256 of its bytes; of a model or attachment the digits in its name,
            which `verify` compares with its bytes; "" for what was not read.
        digest_of: which of the two.
        signer: the fingerprint of the key that signed it, whoever's that is; "" for what is not signed.
        size: bytes.
        path: relative to the run.
        note: why it cannot be believed, or was not read.
    """

    at: datetime
    lane: str
    who: str
    what: str
    pass_id: int | None
    attempt: int | None
    digest: str
    digest_of: Literal["bytes", "name", ""]
    signer: str
    size: int
    path: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Audit:
    """All lines of a run, and the lanes that could not be read from here."""

    run_id: str
    lines: tuple[AuditLine, ...]
    problems: tuple[str, ...]


def audit_of(lanes: Lanes, *, sites: Sequence[str], lead: str) -> Audit:
    """List and read every lane.

    Args:
        lanes: the stores of the run.
        sites: by `stitch.toml`; whoever is on a roster, or has a store here, is looked at too.
        lead: owns the global lane, where no manifest says otherwise.

    Raises:
        StoreError: the global lane cannot be read.
    """
    entries = list(lanes.list(f"{GLOBAL}/"))
    manifest = _document(lanes, layout.manifest(), Manifest)
    lead = manifest.lead if manifest else lead
    found = [(GLOBAL, entry) for entry in entries]
    problems = []
    for lane in _site_lanes(lanes, entries, sites):
        try:
            found += [(lane, entry) for entry in lanes.list(f"{lane}/")]
        except StitchError as error:
            problems.append(f"{lane}: {error}")

    beside = frozenset(entry.key for _, entry in found if entry.key.endswith(".sig.json"))

    def line(item: tuple[str, Entry]) -> AuditLine:
        one = _line(lanes, item[0], entry=item[1], lead=lead)
        signature = layout.signature(one.path, one.digest)
        if one.digest_of != "bytes" or signature not in beside:
            return one
        signer, note = _signer(lanes, one.path, signature=signature)
        return dataclasses.replace(one, signer=signer, note=one.note or note)

    lines = parallel(line, found)
    lines.sort(key=lambda one: (one.at, one.path))
    return Audit(lanes.run_id, tuple(lines), tuple(problems))


def _site_lanes(lanes: Lanes, entries: Sequence[Entry], sites: Sequence[str]) -> list[str]:
    numbers = [key.number for key in map(_parsed, entries) if key and key.what is What.ROSTER]
    roster = _document(lanes, layout.roster(max(numbers)), Roster) if numbers else None
    named = {*sites, *(entry.site for entry in (roster.sites if roster else ()))}
    return sorted({layout.site_lane(site) for site in named} | (set(lanes.stores) - {GLOBAL}))


def _document(lanes: Lanes, path: str, cls: type[D]) -> D | None:
    try:
        got = lanes.read(path, limit=MAX_BYTES)
        return None if got is None else cls.parse(got[1], source=path)
    except StitchError:
        return None  # its own line says what is wrong with it


def _parsed(entry: Entry) -> Key | None:
    return layout.parse(entry.key)


def _line(lanes: Lanes, lane: str, *, entry: Entry, lead: str) -> AuditLine:
    key = _parsed(entry)
    digest, digest_of, note = _digest(lanes, entry, key)
    of_a_pass = key is not None and key.what in _OF_A_PASS
    return AuditLine(
        at=entry.modified,
        lane=lane,
        who=layout.lane_site(lane) or lead,
        what=_what(key),
        pass_id=key.number if key and of_a_pass else None,
        attempt=key.attempt if key and of_a_pass else None,
        digest=digest,
        digest_of=digest_of,
        signer="",
        size=entry.size,
        path=entry.key,
        note=note,
    )


def _signer(lanes: Lanes, path: str, *, signature: str) -> tuple[str, str]:
    from stitch.rounds.signing import signer_of  # noqa: PLC0415  only runs that sign load cryptography

    try:
        got, envelope = (lanes.read(one, limit=MAX_BYTES) for one in (path, signature))
        if got is None or envelope is None:
            return "", "gone since it was listed"
        return signer_of(envelope[1], got[1], place=f"{lanes.run_id}/{path}"), ""
    except StitchError as error:
        return "", str(error)


def _what(key: Key | None) -> str:
    if key is None:
        return "foreign"
    if key.what is What.EVENT:
        return key.name
    return f"attachment {key.name}" if key.what is What.ATTACHMENT else key.what.value


def _digest(lanes: Lanes, entry: Entry, key: Key | None) -> tuple[str, Literal["bytes", "name", ""], str]:
    if key is None:
        return "", "", "no name of the protocol: not read"
    if key.digest:
        return key.digest, "name", ""
    if entry.size > MAX_BYTES:
        return "", "", "too large for a document: not read"
    digest, note = "", ""
    try:
        got = lanes.read(entry.key, limit=MAX_BYTES)
        if got is None:
            return "", "", "gone since it was listed"
        digest = sha256(got[1])
        document = KINDS[key.what].parse(got[1], source=entry.key)
        check_place(document, entry.key, run_id=lanes.run_id)
    except StitchError as error:
        note = str(error)
    return digest, "bytes" if digest else "", note


def audit_json(audit: Audit) -> str:
    """One JSON object, ASCII."""
    lines = [dataclasses.asdict(one) | {"at": as_stamp(one.at)} for one in audit.lines]
    found = {"kind": KIND, "run_id": audit.run_id, "lines": lines, "problems": list(audit.problems)}
    return json.dumps(found, indent=2, ensure_ascii=True) + "\n"


def audit_csv(audit: Audit) -> str:
    """One row a file, for a spreadsheet."""
    text = io.StringIO()
    columns = [field.name for field in dataclasses.fields(AuditLine)]
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for one in audit.lines:
        row = dataclasses.asdict(one) | {"at": as_stamp(one.at)}
        writer.writerow({name: as_cell(value) for name, value in row.items()})
    return text.getvalue()


def audit_table(audit: Audit) -> Table:
    """One line a file at 80 columns; the whole is in --json and --csv."""
    grid = table("when", "who", "what", "pass", "digest", "signer", "size", numbers=("when", "pass", "size"))
    for one in audit.lines:
        grid.add_row(
            f"{one.at:%Y-%m-%d %H:%M}",
            "lead" if one.lane == GLOBAL else one.who,
            plain(one.path, most=60) if one.what == "foreign" else one.what,
            "-" if one.pass_id is None else str(one.pass_id),
            one.digest[:12] or "-",
            one.signer[:12] or "-",
            size(one.size),
        )
    return grid


def audit_notes(audit: Audit) -> Iterator[str]:
    """What a person must know beside the table."""
    for one in audit.lines:
        if one.note:
            yield f"{plain(one.path, most=100)}: {plain(one.note)}"
    for problem in audit.problems:
        yield f"not readable from here: {plain(problem)}"
