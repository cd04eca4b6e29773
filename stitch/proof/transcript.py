"""Reading a run to prove it: every sealed document in one place, models hashed as they stream by."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stitch import layout
from stitch.errors import (
    BadDocument,
    CommitmentMismatch,
    ConfigError,
    DigestMismatch,
    NotFound,
    ProtocolError,
    Stopped,
    StoreMissing,
)
from stitch.files import scratch
from stitch.layout import GLOBAL, Event, Key, PassRef, What
from stitch.rounds.chain import Chain
from stitch.rounds.exhibits import Attempts, Exhibit
from stitch.store.lanes import Lanes
from stitch.store.place import check_place
from stitch.sync.signing import Signing
from stitch.wire import (
    MAX_BYTES,
    Abort,
    Document,
    Done,
    EventDoc,
    Input,
    Join,
    Manifest,
    Roster,
    RoundRecord,
    Seal,
    Verdict,
    sha256,
)

D = TypeVar("D", bound=Document)

_ALTERED = "The store was altered: keep it as it is, and show this line to the lead."
_JUDGED = frozenset({What.SEAL, What.VERDICT, What.ABORT, What.ROSTER, What.JOIN})


@dataclass(frozen=True, slots=True)
class Link:
    """One global of the chain, its documents checked; nothing of its bytes has been hashed yet."""

    number: int
    seal: Exhibit[Seal]
    record: RoundRecord
    attempts: Attempts


class Transcript:
    """The record of one run, read and checked document by document.

    Args:
        lanes: where the run is; nothing is written there.
        stop: ends the reading with `Stopped`.
        signing: whose signatures every sealed document must have; None for a run that does not sign.

    Raises:
        ConfigError: the run is signed, and `signing` is None: nothing would be proven of who wrote it.

    Attributes:
        done: the end marker, if there is one.
        last: the newest global that counts; -1 for none.
        digests: hash by path of everything sealed that was read so far; models once they were hashed.
    """

    def __init__(
        self, lanes: Lanes, *, stop: threading.Event | None = None, signing: Signing | None = None
    ) -> None:
        self.lanes = lanes
        self.signing = signing
        self._stop = stop or threading.Event()
        self.digests: dict[str, str] = {}
        manifest = self.read(layout.manifest(), Manifest)
        if manifest is None:
            raise NotFound(
                f"there is no manifest of run {lanes.run_id}: its lead has not begun it here",
                hint="Check run_id in stitch.toml and the store URL in .env.",
            )
        if signing is None and manifest.doc.settings.get("security"):
            raise ConfigError(
                f"run {lanes.run_id} is signed, and [security] of this stitch.toml does not say by whom",
                hint="Set sign = true and lead_key, as the lead's person tells you: not as the store does.",
            )
        listed = self._list(GLOBAL)
        self._rounds: dict[int, list[Key]] = {}
        for key in listed:
            if key.what in (What.VERDICT, What.ABORT):
                self._rounds.setdefault(key.number, []).append(key)
        numbers = [key.number for key in listed if key.what is What.ROSTER]
        rosters = {number: self.require(layout.roster(number), Roster) for number in sorted(numbers)}
        self.chain = Chain(manifest, rosters)
        self.done = self.read(layout.done(), Done)
        sealed = [key.number for key in listed if key.what is What.SEAL]
        self.last = max(sealed, default=-1)
        if self.done is not None:
            final = self.done.doc.final_pass
            self.last = -1 if final is None else final

    # -- documents -------------------------------------------------------------------------------

    def read(self, path: str, cls: type[D]) -> Exhibit[D] | None:
        """A sealed document, believed only if it says the same as its place; None if it is not there.

        Raises:
            BadDocument, UnsupportedKind: it cannot be believed.
            SignatureRefused: its lane's owner did not sign it.
        """
        self._go_on()
        got = self.lanes.read(path, limit=MAX_BYTES)
        if got is None:
            return None
        doc, digest = cls.parse(got[1], source=path), sha256(got[1])
        check_place(doc, path, run_id=self.lanes.run_id)
        if self.signing is not None:  # every sealed document is read in this place
            self.signing.check(self.lanes, path, data=got[1])
        if not isinstance(doc, EventDoc):
            self.digests[path] = digest
        return Exhibit(path, doc, digest)

    def require(self, path: str, cls: type[D]) -> Exhibit[D]:
        """`read` of a document that must be there.

        Raises:
            ProtocolError: it is not.
        """
        found = self.read(path, cls)
        if found is None:
            raise ProtocolError(f"{path} is not there", hint=_ALTERED)
        return found

    def links(self) -> Iterator[Link]:
        """The globals that count, from 0 on, each checked against its past, verdict and roster.

        Raises:
            ProtocolError: the first thing that does not hold.
        """
        for number in range(self.last + 1):
            seal = self.require(PassRef(number).seal, Seal)
            attempts = self._attempts(number)
            yield Link(number, seal, self.chain.extend(seal, attempts), attempts)

    def check_end(self) -> None:
        """Compare the end marker with the final global, once all links were taken.

        Raises:
            ProtocolError: they differ.
        """
        if self.done is not None:
            self.chain.check_done(self.done)

    def _attempts(self, number: int) -> Attempts:
        keys = self._rounds.get(number, [])
        decided = [key.attempt for key in keys if key.what is What.VERDICT]
        aborted = frozenset(key.attempt for key in keys if key.what is What.ABORT)
        verdicts = {a: self.require(layout.verdict(number, a), Verdict) for a in sorted(decided)}
        for attempt in sorted(aborted):
            self.require(layout.abort(number, attempt), Abort)
        return Attempts(verdicts, aborted)

    def _go_on(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def _list(self, lane: str) -> list[Key]:
        """What a lane holds of the documents that are judged here; strays are dropped as they come."""
        keys = (layout.parse(entry.key) for entry in self.lanes.list(f"{lane}/"))
        return [key for key in keys if key is not None and key.what in _JUDGED and key.lane == lane]

    # -- site passes -----------------------------------------------------------------------------

    @property
    def sites(self) -> tuple[str, ...]:
        """Everybody who ever was on a roster, sorted."""
        named = {entry.site for roster in self.chain.rosters.values() for entry in roster.doc.sites}
        return tuple(sorted(named))

    def can_read(self, site: str) -> bool:
        """Whether there is a store for the site's lane; without one it is unknown, not empty (law 7)."""
        return self.lanes.has(layout.site_lane(site))

    def find(self, wanted: Input, link: Link) -> tuple[PassRef, Exhibit[Seal]]:
        """The site pass that a global was made of, wherever an aborted attempt had it redone.

        Raises:
            ProtocolError: it is not there; as DigestMismatch, another one is.
        """
        attempts = range(self._attempt_of(wanted.pass_id, link), -1, -1)
        return self._find(wanted, link, [PassRef(wanted.pass_id, wanted.site, redo) for redo in attempts])

    def _attempt_of(self, number: int, link: Link) -> int:
        """The attempt of a round that its global was made by: no pass was asked to be redone after it."""
        own = self.chain.globals[number].doc.round if number < link.number else None
        return own.attempt if own is not None else link.record.attempt

    def find_late(self, wanted: Input, link: Link) -> tuple[PassRef, Exhibit[Seal]]:
        """The pass of a closed round that a later global mentions.

        Raises:
            ProtocolError: as for `find`.
        """
        refs = [ref for ref in self.sealed(wanted.site) if ref.number == wanted.pass_id]
        return self._find(wanted, link, refs[::-1])

    def _find(self, wanted: Input, link: Link, refs: Sequence[PassRef]) -> tuple[PassRef, Exhibit[Seal]]:
        others = []
        for ref in refs:
            seal = self.read(ref.seal, Seal)
            if seal is not None and seal.sha256 == wanted.metrics_sha256:
                return ref, seal
            others += [ref.seal] if seal is not None else []
        path = PassRef(wanted.pass_id, wanted.site).seal
        if others:
            raise DigestMismatch(
                f"{others[-1]} is not the seal that global {link.number} names", hint=_ALTERED
            )
        raise ProtocolError(f"{path} is not there, and global {link.number} names it", hint=_ALTERED)

    def bases(self, number: int, inputs: Sequence[tuple[PassRef, str]]) -> list[tuple[PassRef, str]]:
        """Older globals that inputs of global `number` were trained from, with their seals' hashes."""
        older = sorted({ref.number - 1 for ref, _ in inputs} - {number - 1})
        return [(PassRef(base), self.chain.globals[base].sha256) for base in older]

    def check_commitment(self, ref: PassRef, seal: Exhibit[Seal]) -> None:
        """Compare the data that a pass declares with what its training began with (its `started` event).

        Raises:
            CommitmentMismatch: they differ.
            ProtocolError: the event is not there.
        """
        if seal.doc.dataset_root is None:
            return
        path = layout.event(str(ref.site), ref.number, name=Event.STARTED, attempt=seal.doc.attempt)
        if self.require(path, EventDoc).doc.dataset_root != seal.doc.dataset_root:
            raise CommitmentMismatch(f"{seal.path} declares other data than {path}", hint=_ALTERED)

    def sealed(self, site: str) -> list[PassRef]:
        """The sealed passes of a lane, by number."""
        keys = (key for key in self._list(layout.site_lane(site)) if key.what is What.SEAL)
        return sorted(key.ref for key in keys if key.ref is not None)

    def check_rest(self, site: str) -> int:
        """Check what else a lane has sealed: joins, and passes that no global names; gives their number.

        Raises:
            ProtocolError: one does not hold.
        """
        count, joins = 0, dict[int, Exhibit[Join]]()
        for key in self._list(layout.site_lane(site)):
            if key.what is What.JOIN:
                joins[key.number] = self.require(layout.join(site, key.number), Join)
            if key.what is not What.SEAL or key.ref is None or key.ref.seal in self.digests:
                continue
            seal = self.require(key.ref.seal, Seal)
            self.hash_files(key.ref, seal.doc)
            count += 1
        if joins:
            self._check_join(joins[max(joins)], site)
        return count

    def _check_join(self, newest: Exhibit[Join], site: str) -> None:
        """Compare the settings that a site whose passes were used joined with, with the run's.

        A site may join before the lead has begun, with settings that it then must correct: its newest join
        counts. Of one that gave nothing it proves nothing.

        Raises:
            DigestMismatch: they differ.
        """
        gave = any(
            one.site == site for seal in self.chain.globals if seal.doc.round for one in seal.doc.round.inputs
        )
        if gave and newest.doc.config_sha256 != self.chain.manifest.doc.config_sha256:
            raise DigestMismatch(f"{newest.path}: joined with other settings than the run's")

    # -- bytes -----------------------------------------------------------------------------------

    def hash_files(self, ref: PassRef, seal: Seal) -> int:
        """Hash the model and the attachments of a pass; gives how many bytes that were.

        One file at a time lies on this disk, and none in memory.

        Raises:
            DigestMismatch: one does not hash to what the seal says.
            ProtocolError: one is not there.
        """
        files = [("model", seal.model_file, seal.model_sha256, seal.model_bytes)]
        files += [(one.name, one.file, one.sha256, one.bytes) for one in seal.attachments]
        for stem, name, digest, size in files:
            path = f"{ref.folder}/{name}"
            if name != layout.stored_name(stem, digest, ext=name.rpartition(".")[2]):
                raise BadDocument(f"{ref.seal}: the name {name} is not of {stem} and its hash")
            self._hash(path, digest=digest, size=size)
            self.digests[path] = digest
        return sum(size for _, _, _, size in files)

    def _hash(self, path: str, *, digest: str, size: int) -> None:
        differs = DigestMismatch(f"{path} does not hash to what its seal says", hint=_ALTERED)

        def bound(done: int, total: int) -> None:
            self._go_on()
            if max(done, total) > size:
                raise differs

        with scratch() as folder:
            try:
                entry = self.lanes.pull(path, folder / "file", progress=bound)
            except StoreMissing:
                raise
            except NotFound:
                raise ProtocolError(f"{path} is not there, and its seal is", hint=_ALTERED) from None
        if entry.size != size or entry.digest != digest:
            raise differs
