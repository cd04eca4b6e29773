"""Signatures between store and memory: up before what they sign, checked before it is believed.

A document's signature lies beside it under the document's own digest (`layout.signature`), so that
of two writers with different bytes each has its own, and the first document wins as ever (law 2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from stitch import layout
from stitch.errors import AlreadyExists, ConfigError, OutcomeUnknown, SignatureRefused
from stitch.layout import GLOBAL
from stitch.store.lanes import Lanes
from stitch.wire import MAX_BYTES, Roster, sha256


class Signs(Protocol):
    """What signs: `rounds.signing.Signer`, which is imported only where a run signs."""

    fingerprint: str
    public_key: str

    def sign(self, data: bytes, *, place: str) -> bytes:
        """The signature's bytes."""
        ...


@dataclass(slots=True)
class Signing:
    """What one process knows of keys.

    Attributes:
        lead_key: the fingerprint of the lead's key (`[security] lead_key`).
        lead: the lead's site id; the same key signs its site's lane.
        site: whose process this is; "" for whoever only reads.
        signer: this site's key; None where there is none.
        synced: the store is a copied folder, where a signature may arrive after its document.
    """

    lead_key: str
    lead: str
    site: str = ""
    signer: Signs | None = None
    synced: bool = False
    _rosters: int = 0
    _listed: dict[str, str | None] = field(default_factory=dict)
    _keys: dict[str, set[str]] = field(default_factory=dict)
    _known: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)

    def learn(self, roster: Roster) -> None:
        """Take the keys of a roster that was checked; an earlier key still explains what is old."""
        if roster.number >= self._rosters:
            self._rosters, self._listed = roster.number, {one.site: one.key for one in roster.sites}
        for one in roster.sites:
            if one.key is not None:
                self._keys.setdefault(one.site, set()).add(one.key)

    def listed(self, site: str) -> str | None:
        """The fingerprint that the newest roster has for a site, as far as rosters were read."""
        return self._listed.get(site)

    def signer_of(self, path: str, data: bytes) -> str:
        """Who signed bytes that were checked here before; "" for others."""
        return self._known.get((path, sha256(data)), ("", b""))[0]

    def absent(self, lanes: Lanes, path: str, *, data: bytes) -> bool:
        """Whether a signature may still be on its way: only a copied folder brings it late."""
        if not self.synced or not _signed(path) or (path, sha256(data)) in self._known:
            return False
        return lanes.stat(layout.signature(path, sha256(data))) is None

    def sign(self, lanes: Lanes, path: str, *, data: bytes) -> None:
        """Publish the signature of a document that is about to be created.

        Raises:
            ConfigError: this process has no key, or not the lead's; nothing was written.
            SignatureRefused: another key's signature of the same bytes is there.
        """
        if not _signed(path):
            return
        signer = self._require_signer(path)
        envelope = signer.sign(data, place=f"{lanes.run_id}/{path}")
        to = layout.signature(path, sha256(data))
        try:
            lanes.write(to, envelope, mode="create")
        except (AlreadyExists, OutcomeUnknown):
            there = lanes.read(to, limit=MAX_BYTES)
            if there is None:
                raise
            if there[1] != envelope:
                raise SignatureRefused(
                    f"{to} is there already, made with another key",
                    hint="If the key here was replaced: let the lead ask for a redo of this pass.",
                ) from None
        self._known[path, sha256(data)] = (signer.fingerprint, envelope)

    def check(self, lanes: Lanes, path: str, *, data: bytes) -> bytes | None:
        """Refuse a document that its lane's owner did not sign.

        Args:
            lanes: where the signature lies, and the rosters, should a key be new.
            path: the document's.
            data: its exact bytes.

        Returns:
            The signature's bytes; None for what is never signed.

        Raises:
            SignatureRefused: unsigned, wrongly signed, or signed by a key that is not listed.
            BadDocument, UnsupportedKind: the signature cannot be read.
        """
        if not _signed(path):
            return None
        digest = sha256(data)
        if (path, digest) in self._known:
            return self._known[path, digest][1]
        got = lanes.read(layout.signature(path, digest), limit=MAX_BYTES)
        if got is None:
            raise SignatureRefused(f"{path} is not signed")
        from stitch.rounds.signing import signer_of  # noqa: PLC0415  only runs that sign load cryptography

        by = signer_of(got[1], data, place=f"{lanes.run_id}/{path}")
        lane = layout.lane_of(path)
        if by not in self._trusted(lane):
            self._read_rosters(lanes, lane)
        trusted = self._trusted(lane)
        if not trusted:
            raise SignatureRefused(
                f"{path}: no key of {layout.lane_site(lane)} is on the roster",
                hint="At the lead: clif-stitch sites add ID --key FINGERPRINT.",
            )
        if by not in trusted:
            raise SignatureRefused(f"{path} is signed by another key ({by[:12]}...) than its lane's owner's")
        self._known[path, digest] = (by, got[1])
        return got[1]

    def _trusted(self, lane: str) -> set[str]:
        site = layout.lane_site(lane)
        if site is None:
            return {self.lead_key}
        trusted = set(self._keys.get(site, ()))
        if site == self.lead:
            trusted.add(self.lead_key)
        if site == self.site and self.signer is not None:
            trusted.add(self.signer.fingerprint)
        return trusted

    def _read_rosters(self, lanes: Lanes, lane: str) -> None:
        """Walk to the newest roster: each says who is who, and is the lead's own word."""
        while lane != GLOBAL:
            path = layout.roster(self._rosters + 1)
            got = lanes.read(path, limit=MAX_BYTES)
            if got is None:
                return
            roster = Roster.parse(got[1], source=path)
            self.check(lanes, path, data=got[1])
            if roster.run_id != lanes.run_id or roster.number != self._rosters + 1:
                return
            self.learn(roster)

    def _require_signer(self, path: str) -> Signs:
        if self.signer is None:
            raise ConfigError(
                "this run is signed and there is no signing key here",
                hint="Make one, `clif-stitch keys init`, and tell the lead its fingerprint.",
            )
        if layout.lane_of(path) == GLOBAL and self.signer.fingerprint != self.lead_key:
            raise ConfigError(
                f"the key here ({self.signer.fingerprint[:12]}...) is not [security] lead_key",
                hint="Bring back the lead's key, or begin a new run_id with the new one.",
            )
        return self.signer


def _signed(path: str) -> bool:
    key = layout.parse(path)
    return key is not None and layout.is_signed(key)
