"""What the lead's lane says of the run as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

from stitch import layout
from stitch.layout import What
from stitch.rounds import Attempt
from stitch.store.base import Entry
from stitch.views.reading import LaneFiles
from stitch.views.status import Phase, SiteState
from stitch.wire import Done, Manifest, Orchestration, Roster, Seal, Verdict

D = TypeVar("D")


class GlobalLane:
    """The global lane's documents, asked for what a view needs.

    Args:
        files: the lane as read; whatever could not be read simply is not known here.
    """

    def __init__(self, files: LaneFiles) -> None:
        self.files = files
        self.manifest = _only(files.document(layout.manifest(), Manifest))
        self.orchestration = _only(files.document(layout.orchestration(), Orchestration))
        self.done = _only(files.document(layout.done(), Done))
        self.roster = files.newest(What.ROSTER, Roster)

    @property
    def num_passes(self) -> int | None:
        """How many passes were settled on; None while the manifest is unreadable."""
        value = self.manifest.settings.get("num_passes") if self.manifest else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def globals_(self) -> dict[int, Seal]:
        """The ready globals, by number, up to the final one."""
        last = self.done.final_pass if self.done else None
        seals: dict[int, Seal] = {}
        for found in self.files.of(What.SEAL):
            number, seal = found.key.number, found.document
            beyond = last is not None and number > last  # law 7: those do not count
            if beyond or not isinstance(seal, Seal) or found.key.ref is None:
                continue
            if self.files.holds_model(seal, found.key.ref.folder):
                seals[number] = seal
        return seals

    @property
    def newest_global(self) -> int | None:
        """The newest ready global."""
        return max(self.globals_, default=None)

    @property
    def wanted(self) -> int:
        """The site pass now wanted; in a finished run the final one."""
        newest = self.newest_global
        if newest is None:
            return 1
        return newest if self.done or self.globals_[newest].final else newest + 1

    @property
    def phase(self) -> Phase:
        """What goes on, by the files first and by orchestration where they leave it open."""
        if self.done:
            return "complete"
        if not self.files.found:
            return "not begun"
        if self.newest_global is None:
            return "initializing"
        decided = self._attempts()[1]
        word = self.orchestration
        said = word is not None and word.current_pass == self.wanted and word.phase == "aggregating"
        return "aggregating" if decided or said else "training"

    @property
    def attempt(self) -> Attempt:
        """The attempt under way of the round now wanted."""
        return self._attempts()[0]

    def _attempts(self) -> tuple[Attempt, bool]:
        """The attempt under way, and whether it is closed."""
        now = Attempt(self.wanted)
        for found in self.files.of(What.VERDICT):
            if (found.key.number, found.key.attempt) != (now.pass_id, now.attempt):
                continue
            if not isinstance(found.document, Verdict):
                break
            given_up = layout.abort(now.pass_id, now.attempt) in self.files.found
            if found.document.verdict == "closed" and not given_up:
                return now, True
            now = now.after(redo=found.document.redo, at=found.entry.modified)
        return now, False

    @property
    def hooks_sha256(self) -> str | None:
        """The lead's hooks, as the newest global's seal names them."""
        newest = self.newest_global
        return self.globals_[newest].hooks_sha256 if newest is not None else None

    def roster_sites(self, otherwise: Sequence[str]) -> tuple[str, ...]:
        """Everybody of the newest roster, in its order."""
        return tuple(entry.site for entry in self.roster.sites) if self.roster else tuple(otherwise)

    def expected(self, otherwise: Sequence[str]) -> tuple[str, ...]:
        """For whom the pass now wanted waits."""
        word = self.orchestration
        if word is not None and word.current_pass == self.wanted and word.directive.expected:
            return word.directive.expected
        return self.roster.expected_in(self.wanted, self.attempt.attempt) if self.roster else tuple(otherwise)

    def opened_at(self) -> datetime | None:
        """When the current attempt opened: as published, else the store time of the newest global."""
        word = self.orchestration
        if word is not None and word.current_pass == self.wanted and word.opened_at is not None:
            return word.opened_at
        if self.attempt.opened_at is not None:
            return self.attempt.opened_at
        newest = self.newest_global
        seal = self.files.found.get(layout.PassRef(newest).seal) if newest is not None else None
        return seal.entry.modified if seal else None

    def deadline(self) -> datetime | None:
        """When time alone decides the attempt under way, as published."""
        word = self.orchestration
        if word is None or (word.current_pass, word.attempt) != (self.wanted, self.attempt.attempt):
            return None
        return word.deadline

    def used_of(self, site: str) -> int | None:
        """The site's newest pass that a global was made of."""
        records = (seal.round for seal in self.globals_.values() if seal.round)
        used = (item.pass_id for record in records for item in record.inputs if item.site == site)
        return max(used, default=None)

    def word_on(self, site: str) -> tuple[SiteState, str, datetime | None]:
        """A site's state by the lead's word, one line on it, and when that was published."""
        found = self.files.found.get(layout.orchestration())
        word = self.orchestration.site_status.get(site) if self.orchestration else None
        as_of = found.entry.modified if found else None
        if word is None and self.done and self.used_of(site) is not None:
            return SiteState.COMPLETED, "", self.files.found[layout.done()].entry.modified
        if word is None:
            return SiteState.UNREADABLE, "not readable from here, and no word from the lead", as_of
        if word not in set(SiteState):
            return SiteState.UNREADABLE, f"the lead calls it {word[:40]!r}", as_of
        return SiteState(word), "", as_of


def _only(read: tuple[D, Entry] | None) -> D | None:
    return read[0] if read else None
