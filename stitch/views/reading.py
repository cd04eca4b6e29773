"""Reading a lane's documents for a view: one listing a lane, then its small documents in parallel.

Whatever is missing, malformed or refused becomes a line in `problems`, never an exception: a view
must show the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from stitch import layout
from stitch.errors import StitchError
from stitch.layout import Key, What
from stitch.store.base import Entry
from stitch.store.conflicts import Conflict, conflict_of
from stitch.store.lanes import Lanes
from stitch.store.place import check_place
from stitch.wire import (
    MAX_BYTES,
    Abort,
    Document,
    Done,
    EventDoc,
    Heartbeat,
    Join,
    Manifest,
    Orchestration,
    Roster,
    Seal,
    Signature,
    Term,
    Verdict,
)

_READERS = 8
_LANE_BYTES = 8 * MAX_BYTES
_LANE_DOCUMENTS = 5000
"""What is read of one lane, its newest passes first: hundreds of passes of a hundred sites fit."""
_LINES = 20
_ONE_EACH = (What.MANIFEST, What.ORCHESTRATION, What.HEARTBEAT, What.DONE)
KINDS: Mapping[What, type[Document]] = {
    What.MANIFEST: Manifest,
    What.ORCHESTRATION: Orchestration,
    What.HEARTBEAT: Heartbeat,
    What.ROSTER: Roster,
    What.SEAL: Seal,
    What.VERDICT: Verdict,
    What.ABORT: Abort,
    What.TERM: Term,
    What.DONE: Done,
    What.JOIN: Join,
    What.EVENT: EventDoc,
    What.SIGNATURE: Signature,
}
"""Which document lies under which key."""

A = TypeVar("A")
B = TypeVar("B")
D = TypeVar("D", bound=Document)


@dataclass(frozen=True, slots=True)
class Found:
    """A key of the layout with its entry, and its document where one was read."""

    key: Key
    entry: Entry
    document: Document | None = None


@dataclass(frozen=True, slots=True)
class LaneFiles:
    """What one lane holds.

    Attributes:
        found: by path, every key that the layout names.
        sizes: by path, every listed file.
        conflicts: copies that a sync client set aside.
        problems: what could not be listed, read or understood.
        listed: False when the lane as a whole could not be read: it is unknown (law 7).
        now: the clock of the lane's store; None where it shares none with its writers.
    """

    lane: str
    found: Mapping[str, Found] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    problems: tuple[str, ...] = ()
    listed: bool = True
    now: datetime | None = None

    def of(self, what: What) -> list[Found]:
        """The keys of one kind, by number and attempt."""
        hits = [found for found in self.found.values() if found.key.what is what]
        return sorted(hits, key=lambda found: (found.key.number, found.key.attempt))

    def document(self, path: str, kind: type[D]) -> tuple[D, Entry] | None:
        """The document read at a path, with its entry."""
        found = self.found.get(path)
        if found is None or not isinstance(found.document, kind):
            return None
        return found.document, found.entry

    def newest(self, what: What, kind: type[D]) -> D | None:
        """The document with the highest number."""
        hits = self.of(what)
        return hits[-1].document if hits and isinstance(hits[-1].document, kind) else None

    def holds_model(self, seal: Seal, folder: str) -> bool:
        """Whether the seal's whole model is listed, under its store's or its mirror's name."""
        stored = f"{folder}/{seal.model_file}"
        return seal.model_bytes in (self.sizes.get(stored), self.sizes.get(layout.mirror_path(stored)))


class Reader:
    """Reads lanes; remembers documents by path and etag, so that watching stays cheap.

    Args:
        lanes: the stores of the run.
        timed: whether the stores' clocks are asked for; not on a mirror.
    """

    def __init__(self, lanes: Lanes, *, timed: bool = True) -> None:
        self.lanes = lanes
        self._timed = timed
        self._known: dict[tuple[str, str], Document] = {}

    def read(self, names: Sequence[str]) -> dict[str, LaneFiles]:
        """The files of several lanes, by lane."""
        listings = dict(zip(names, parallel(self._list, names), strict=True))
        chosen = {lane: _affordable(_worth_reading(files)) for lane, files in listings.items()}
        listings = {lane: _without(files, chosen[lane][1]) for lane, files in listings.items()}
        wanted = [found for lane in names for found in chosen[lane][0]]
        outcomes = list(zip(wanted, parallel(self._document, wanted), strict=True))
        return {lane: _joined(files, outcomes) for lane, files in listings.items()}

    def _list(self, lane: str) -> LaneFiles:
        try:
            entries = list(self.lanes.list(f"{lane}/"))
            now = self.lanes.now(lane) if self._timed and self.lanes.traits(lane).server_time else None
        except StitchError as error:
            return LaneFiles(lane, problems=(f"{lane}: {error}",), listed=False)
        keys = ((entry, layout.parse(entry.key)) for entry in entries)
        found = {entry.key: Found(key, entry) for entry, key in keys if key is not None and key.lane == lane}
        names = {entry.key for entry in entries}
        copies = [(conflict_of(name, names), name) for name in sorted(names - found.keys())]
        return LaneFiles(
            lane,
            found=found,
            sizes={entry.key: entry.size for entry in entries},
            conflicts=tuple(Conflict(key, copy) for key, copy in copies if key and layout.parse(key)),
            now=now,
        )

    def _document(self, found: Found) -> Found | str:
        path, kind = found.entry.key, KINDS[found.key.what]
        known = self._known.get((path, found.entry.etag))
        if known is not None:
            return Found(found.key, found.entry, known)
        try:
            answer = self.lanes.read(path, limit=MAX_BYTES)
            if answer is None:
                return f"{path}: gone since it was listed"
            entry, data = answer
            document = kind.parse(data, source=path)
            check_place(document, path, run_id=self.lanes.run_id)
        except (StitchError, OSError) as error:
            return str(error) if path in str(error) else f"{path}: {error}"
        self._known[path, entry.etag] = document
        return Found(found.key, entry, document)


def parallel(work: Callable[[A], B], items: Sequence[A]) -> list[B]:
    """Do something with each item, several at a time; the answers in the items' order."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(max_workers=min(_READERS, len(items))) as pool:
        return list(pool.map(work, items))


def _worth_reading(files: LaneFiles) -> list[Found]:
    """The newest terms, joins and rosters; the newest round's verdicts; telling events; passes by age."""
    wanted = [one for what in _ONE_EACH for one in files.of(what)]
    wanted += [one for what in (What.ROSTER, What.JOIN, What.TERM) for one in files.of(what)[-1:]]
    verdicts = files.of(What.VERDICT)
    wanted += [found for found in verdicts if found.key.number == verdicts[-1].key.number]
    events = files.of(What.EVENT)
    wanted += [event for event in events if event.key.name == layout.Event.FAILED][-1:]
    scores = [event for event in events if event.key.name == layout.Event.EVALUATED]
    passes = sorted([*files.of(What.SEAL), *scores], key=lambda found: found.key.number)
    return [*wanted, *reversed(passes)]


def _affordable(wanted: Sequence[Found]) -> tuple[list[Found], int]:
    """The documents to read, and how many more there are than a run can have in a lane."""
    taken: list[Found] = []
    left = _LANE_BYTES
    for found in wanted:
        # One that is too large itself is refused unread, and says so in a line of its own.
        left -= found.entry.size if found.entry.size <= MAX_BYTES else 0
        if left >= 0 and len(taken) < _LANE_DOCUMENTS:
            taken.append(found)
    return taken, len(wanted) - len(taken)


def _without(files: LaneFiles, unread: int) -> LaneFiles:
    if not unread:
        return files
    line = f"{files.lane}: {unread} documents too many for one lane were not read"
    return replace(files, problems=(*files.problems, line))


def _joined(files: LaneFiles, outcomes: Sequence[tuple[Found, Found | str]]) -> LaneFiles:
    found = dict(files.found)
    problems = list(files.problems)
    for wanted, outcome in outcomes:
        if wanted.key.lane != files.lane:
            continue
        if isinstance(outcome, str):
            problems.append(outcome)
        else:
            found[wanted.entry.key] = outcome
    if len(problems) > _LINES:
        problems[_LINES:] = [f"{files.lane}: {len(problems) - _LINES} more documents like these"]
    return LaneFiles(
        files.lane, found, files.sizes, files.conflicts, tuple(problems), listed=files.listed, now=files.now
    )
