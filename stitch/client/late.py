"""Passes that came after their round had closed: recorded, never used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stitch import layout
from stitch.client.record import input_of
from stitch.client.site import SiteVerbs
from stitch.errors import BadDocument, ProtocolError, StoreError
from stitch.layout import PassRef, What
from stitch.mirror import Sealed
from stitch.rounds import LATE, UNKNOWN, Attempt
from stitch.wire import Input, RoundRecord, Seal


class LatePasses:
    """Looks for passes that closed rounds did without.

    Only lanes of sites that a closed round lacked are looked at; which those are is read from the
    seals of the globals, so that a fresh process knows it as well.

    Args:
        client: the lead's.
    """

    def __init__(self, client: SiteVerbs) -> None:
        self._client = client
        self._read = 0
        self._lacking: dict[str, set[int]] = {}

    def find(
        self,
        now: Attempt,
        sites: Iterable[str],
        *,
        used: Sequence[Sealed] = (),  # noqa: ARG002  never those of an earlier round
    ) -> tuple[Input, ...]:
        """Passes of earlier rounds that no global has used or recorded, by site and number.

        Args:
            now: the round that is being sealed.
            sites: everybody on the roster.
            used: the inputs of that round.
        """
        for number in range(self._read + 1, now.pass_id):
            self._account(number, sites)
        self._read = max(self._read, now.pass_id - 1)
        return tuple(
            found
            for site in sorted(self._lacking)
            if self._lacking[site]
            for found in self._look(site, self._lacking[site])
        )

    def _account(self, number: int, sites: Iterable[str]) -> None:
        record = self._record(number)
        if record is None:  # it may have recorded any of them: none is recorded twice
            self._lacking.clear()
            return
        met = {one.site for one in record.inputs}
        met |= {one.site for one in record.excluded if one.reason not in (LATE, UNKNOWN)}
        for site in sites:
            if site not in met:
                self._lacking.setdefault(site, set()).add(number)
        for one in record.late:
            self._lacking.get(one.site, set()).discard(one.pass_id)

    def _record(self, number: int) -> RoundRecord | None:
        """A global's record; from the store where the mirror could not be rebuilt."""
        data = self._client.mirror.read(PassRef(number).seal)
        if data is not None:
            return Seal.parse(data, source=PassRef(number).seal).round
        try:
            stored = self._client.passes.read_seal(PassRef(number))
        except ProtocolError:
            return None
        return stored.doc.round if stored is not None else None

    def _look(self, site: str, lacking: set[int]) -> list[Input]:
        try:
            keys = [layout.parse(entry.key) for entry in self._client.lanes.list(f"sites/{site}/pass_")]
        except StoreError:
            return []  # unknown now: the next round looks again
        refs = {key.ref for key in keys if key is not None and key.ref and key.what is What.SEAL}
        wanted = sorted((ref for ref in refs if ref.number in lacking), key=by_number)
        found = (seal_of(self._client, ref) for ref in wanted if self._owed(ref))
        return [one for one in found if one is not None]

    def _owed(self, ref: PassRef) -> bool:
        """Whether its round waited for this pass, and not for a newer one that a redo asked for."""
        return ref == self._client.attempt_of(ref.number)[0].ref(str(ref.site))


def seal_of(client: SiteVerbs, ref: PassRef) -> Input | None:
    """What a record says of a pass that no round uses; None where its seal cannot be told."""
    try:
        stored = client.passes.read_seal(ref)
    except (BadDocument, ProtocolError, StoreError):
        return None  # it cannot be believed, and no round needs it
    if stored is None or stored.doc.base_pass != ref.number - 1:
        return None  # a site may write anything there; what names no base of its round cannot be told
    sealed = Sealed(ref, stored.doc, stored.data, client.mirror.path(ref.folder))
    return input_of(sealed, ref.number)


def by_number(ref: PassRef) -> tuple[int, int]:
    """The order of a site's passes."""
    return ref.number, ref.attempt
