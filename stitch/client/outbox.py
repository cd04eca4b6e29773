"""The review before anything leaves: sealed passes wait for a person's word (docs/security.md).

An approval names the hash of one seal, and the seal names the hashes of all that leaves with it. So
another model, another number or another attempt needs another approval. Approvals lie in the mirror's
`local/outbox/`, which is never synced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stitch import layout
from stitch.client.keys import signing_of
from stitch.clock import Clock
from stitch.config.settings import Settings
from stitch.errors import ConfigError, EgressRefused
from stitch.files import disk, write_file
from stitch.layout import Event, PassRef
from stitch.mirror import Mirror, Sealed
from stitch.wire import sha256

State = Literal["held", "approved", "sent"]
"""Waits for a person; may leave; has left."""

_SHOW = "Look first: `clif-stitch outbox show`."


@dataclass(frozen=True, slots=True)
class Leaving:
    """One file that leaves with a pass: its key in the store, its size in bytes, its SHA-256."""

    path: str
    size: int
    sha256: str


class Outbox:
    """The sealed passes of this site's lane, and what a person said of them.

    Args:
        settings: this site's.
        mirror: holds the passes, and the approvals in `local/outbox/`.
        clock: dates an approval, for people.
    """

    def __init__(self, settings: Settings, mirror: Mirror, *, clock: Clock) -> None:
        self._settings = settings
        self._mirror = mirror
        self._clock = clock

    def holds(self, sealed: Sealed) -> bool:
        """Whether the pass may not leave yet."""
        reviewed = self._settings.egress.reviewed and sealed.ref.site is not None
        return reviewed and not self._noted("approved", sealed)

    def waits(self, sealed: Sealed) -> bool:
        """Whether a held pass still waits: nobody approved it, and nobody set it aside."""
        return self.holds(sealed) and self._mirror.read(sealed.ref.seal) == sealed.data

    def state(self, sealed: Sealed) -> State:
        """What became of a sealed pass, as far as this machine knows."""
        number, attempt = sealed.ref.number, max(1, sealed.seal.attempt)
        report = layout.event(self._settings.site, number, name=Event.COMPLETED, attempt=attempt)
        if self._mirror.read(report) is not None or self._noted("sent", sealed):
            return "sent"
        return "held" if self.holds(sealed) else "approved"

    def passes(self) -> Iterator[Sealed]:
        """This site's sealed passes, by number."""
        for ref in self._mirror.passes(layout.site_lane(self._settings.site)):
            sealed = self._mirror.sealed(ref)
            if sealed is not None:
                yield sealed

    def held(self) -> list[Sealed]:
        """The passes that wait for a person."""
        return [sealed for sealed in self.passes() if self.state(sealed) == "held"]

    def find(self, number: int) -> Sealed:
        """The newest sealed pass of that number.

        Raises:
            ConfigError: none is sealed here.
        """
        found = [sealed for sealed in self.passes() if sealed.ref.number == number]
        if not found:
            waiting = ", ".join(str(sealed.ref.number) for sealed in self.held()) or "none"
            raise ConfigError(
                f"pass {number} is not sealed here; waiting for review: {waiting}",
                hint="`clif-stitch outbox show` lists what waits.",
            )
        return found[-1]

    # -- what a person does ------------------------------------------------------------------------

    def mark_shown(self, sealed: Sealed) -> None:
        """Remember that a person was shown exactly this pass."""
        self._note("shown", sealed)

    def approve(self, sealed: Sealed) -> None:
        """Let the pass leave; durable before this returns.

        Raises:
            ConfigError: nobody looked at this very pass.
        """
        number = sealed.ref.number
        if not self._noted("shown", sealed):
            raise ConfigError(f"pass {number}, as it is sealed now, was not shown to anybody yet", hint=_SHOW)
        self._note("approved", sealed)

    def refuse(self, sealed: Sealed) -> Path:
        """Set the pass aside, unsent; it is trained again. Gives the folder it lies in now.

        Raises:
            EgressRefused: it was approved or sent: what has left cannot be called back.
        """
        number, state = sealed.ref.number, self.state(sealed)
        aside = self._mirror.set_aside(sealed.ref) if state == "held" else None
        if aside is None:
            raise EgressRefused(
                f"pass {number} does not wait for review: it is {state}",
                hint="What has left cannot be called back: tell the lead which pass must not be used.",
            )
        return aside

    # -- notes -------------------------------------------------------------------------------------

    def mark_sent(self, sealed: Sealed) -> None:
        """Remember that the pass came from the store: a mirror that was rebuilt has nothing to review."""
        if sealed.ref.site is not None and self._settings.egress.reviewed:
            self._note("sent", sealed)

    def _file(self, what: str, ref: PassRef) -> Path:
        return self._mirror.root / "local" / "outbox" / f"{ref.folder.replace('/', '-')}.{what}.json"

    def _noted(self, what: str, sealed: Sealed) -> bool:
        try:
            note = json.loads(self._file(what, sealed.ref).read_text(encoding="utf-8"))
            return bool(note["seal_sha256"] == sealed.sha256)
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _note(self, what: str, sealed: Sealed) -> None:
        note = {
            "pass": sealed.ref.number,
            "seal_sha256": sealed.sha256,
            "model_sha256": sealed.seal.model_sha256,
            "at": self._clock.now().isoformat(),
        }
        file = self._file(what, sealed.ref)
        with disk(file):
            write_file(file, json.dumps(note, indent=2).encode("utf-8"), durable=True)


def leaving(sealed: Sealed, settings: Settings) -> list[Leaving]:
    """Every file that leaves with a pass once it is approved, but for the report of the same numbers.

    Raises:
        ConfigError: the run signs and there is no usable key here.
    """
    seal, ref = sealed.seal, sealed.ref
    files = [Leaving(ref.model(seal.model_sha256, seal.ext), seal.model_bytes, seal.model_sha256)]
    files += [Leaving(f"{ref.folder}/{one.file}", one.bytes, one.sha256) for one in seal.attachments]
    signing = signing_of(settings)
    if signing is not None and signing.signer is not None:
        envelope = signing.signer.sign(sealed.data, place=f"{settings.run_id}/{ref.seal}")
        files.append(Leaving(layout.signature(ref.seal, sealed.sha256), len(envelope), sha256(envelope)))
    return [*files, Leaving(ref.seal, len(sealed.data), sealed.sha256)]
