"""What the sealed globals say of the passes that a buffered round meets: used, recorded, asked for again."""

from __future__ import annotations

from stitch import layout
from stitch.client.record import RecordVerbs
from stitch.layout import PassRef
from stitch.rounds import Attempt, Buffer
from stitch.wire import RoundRecord, Seal, Verdict


class Buffers:
    """Reads each global's record once; nothing is remembered that is not in the files (law 4).

    The globals that a pass of the round can have been trained from or used by are taken from the store, never
    from the mirror alone, which may hold a candidate that lost.

    Args:
        client: the lead's.
    """

    def __init__(self, client: RecordVerbs) -> None:
        self._client = client
        self._read = 0
        self._used: dict[str, set[int]] = {}
        self._recorded: set[str] = set()
        self._attempts: dict[int, Attempt] = {}

    def of(self, attempt: Attempt) -> Buffer:
        """The buffer of the round under way.

        Raises:
            DigestMismatch: a global that a pass can have been trained from is not whole in the store.
        """
        self._account(attempt.pass_id)
        oldest = max(1, attempt.pass_id - self._client.settings.policy.oldest)
        before = {number: self._attempts[number] for number in range(oldest, attempt.pass_id)}
        used = {site: max(numbers) for site, numbers in self._used.items()}
        return Buffer({**before, attempt.pass_id: attempt}, used)

    def used(self, ref: PassRef) -> bool:
        """Whether a global was made of this site's pass of that number."""
        return ref.number in self._used.get(str(ref.site), ())

    def recorded(self, metrics_sha256: str) -> bool:
        """Whether a global has recorded that none will be made of the pass with this seal."""
        return metrics_sha256 in self._recorded

    def _account(self, below: int) -> None:
        oldest = below - self._client.settings.policy.oldest
        for number in range(self._read + 1, below):
            record = self._record(number, trusted=number < oldest)
            for one in record.inputs if record else ():
                self._used.setdefault(one.site, set()).add(one.pass_id)
            self._recorded.update(one.metrics_sha256 for one in (record.late if record else ()))
            self._attempts[number] = self._attempt(number, record.attempt if record else 0)
            self._read = number

    def _record(self, number: int, *, trusted: bool) -> RoundRecord | None:
        """What a global says of its round; the mirror's word is enough for one too old to be a base."""
        path = PassRef(number).seal
        data = self._client.mirror.read(path) if trusted else None
        if data is not None:
            return Seal.parse(data, source=path).round
        return self._client.require_global(number).seal.round

    def _attempt(self, number: int, counted: int) -> Attempt:
        """The attempt that a closed round's global was made by; what was asked for after it came too late."""
        attempt = Attempt(number)
        for earlier in range(counted):
            stored = self._client.documents.read(layout.verdict(number, earlier), Verdict)
            if stored is not None:
                attempt = attempt.after(redo=stored.doc.redo, at=stored.entry.modified)
        return attempt
