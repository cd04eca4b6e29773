"""The verbs by which every actor looks at the run and takes its globals, verified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stitch import layout
from stitch.client.presence import Presence
from stitch.errors import ProtocolError
from stitch.layout import GLOBAL, PassRef
from stitch.mirror import Sealed
from stitch.sync.status import Status
from stitch.views import words
from stitch.wire import Done, Orchestration


class GlobalVerbs(Presence):
    """`pull_global` and what stands around it."""

    # -- paths and settings, as the seed names them ----------------------------------------------

    @property
    def num_passes(self) -> int:
        """How many passes the run has, beyond pass 0."""
        return self.settings.num_passes

    @property
    def data_dir(self) -> Path:
        """The site's data; nothing in it ever leaves."""
        return self.settings.data_dir

    def model_path(self, pass_id: int) -> Path:
        """Where this site's model of a pass is: the sealed one, else the staging path to write to."""
        return self._model_path(PassRef(pass_id, self.site))

    def metrics_path(self, pass_id: int) -> Path:
        """Where this site's `metrics.json` of a pass is, or will be when it is sealed."""
        return self.mirror.path(PassRef(pass_id, self.site).seal)

    def global_model_path(self, pass_id: int) -> Path:
        """Where global `pass_id` is: the sealed one to read; at the lead, until then, the one to write."""
        return self._model_path(PassRef(pass_id)) if self.settings.is_lead else self._sealed_path(pass_id)

    def _sealed_path(self, pass_id: int) -> Path:
        return self.mirror.path(PassRef(pass_id).mirror_model(self.settings.hooks.model_ext))

    def _model_path(self, ref: PassRef) -> Path:
        sealed = self.mirror.sealed(ref)
        return sealed.model if sealed else self.stage(ref).model_path(self.settings.hooks.model_ext)

    # -- looking ---------------------------------------------------------------------------------

    def done(self) -> Done | None:
        """The end marker, once the lead has written it."""
        if not self.documents.exists(layout.done()):
            return None
        stored = self.documents.read(layout.done(), Done)
        return stored.doc if stored else None

    def newest_global(self) -> int:
        """The number of the newest global in the store; -1 before pass 0."""
        self._newest = self.passes.newest(GLOBAL, at_least=self._newest)
        return self._newest

    def read_orchestration(self) -> dict[str, Any]:
        """The lead's published view as a map; empty before the lead has begun."""
        stored = self.documents.read(layout.orchestration(), Orchestration)
        return stored.doc.model_dump(mode="json") if stored else {}

    def has_local_model(self, pass_id: int) -> bool:
        """Whether this site's pass is sealed here and its model hashes to the seal."""
        return self.mirror.sealed(PassRef(pass_id, self.site)) is not None

    def has_global_model(self, pass_id: int) -> bool:
        """Whether global `pass_id` is sealed in the store."""
        return self.passes.stat_seal(PassRef(pass_id)) is not None

    def read_local_metrics(self, pass_id: int) -> dict[str, Any]:
        """What the sealed pass reports back: `model_sha256`, `n_samples`, `metrics`.

        Raises:
            ProtocolError: the pass is not sealed here.
        """
        sealed = self.mirror.sealed(PassRef(pass_id, self.site))
        if sealed is None:
            raise ProtocolError(f"pass {pass_id} is not sealed here", hint="Train it first.")
        seal = sealed.seal
        return {
            "model_sha256": seal.model_sha256,
            "n_samples": seal.n_samples,
            "metrics": dict(seal.metrics),
        }

    def resume_point(self) -> int:
        """The pass this site works on next: one beyond the newest it has sealed, here or in the store."""
        here = [ref.number for ref in self.mirror.passes(self.lane) if self.mirror.sealed(ref)]
        return max([0, self.passes.newest(self.lane), *here]) + 1

    # -- down ------------------------------------------------------------------------------------

    def pull_global(self, pass_id: int) -> Status:
        """Bring global `pass_id` into the mirror, verified.

        Returns:
            DOWNLOADED or ALREADY_SYNCED; NO_NEW_PASS while it is not there; RUN_COMPLETE when the
            run ended before that pass; FAILED when the store stayed away through all retries.

        Raises:
            ProtocolError: its bytes do not match its seal, or another global is here under its number.
        """
        return self.attempt(lambda: self._pull_global(pass_id), what=f"global {pass_id}")

    def _pull_global(self, pass_id: int) -> Status:
        if not self.has_global_model(pass_id) and (done := self.done()) is not None:
            final = -1 if done.final_pass is None else done.final_pass
            return Status.RUN_COMPLETE if pass_id > final else Status.NO_NEW_PASS
        return self.fetch_global(pass_id)[0]

    def fetch_global(self, pass_id: int) -> tuple[Status, Sealed | None]:
        """`pull_global` without looking at the end marker; gives the pass as well.

        Raises:
            ProtocolError: as for `pull_global`.
        """
        ref = PassRef(pass_id)
        progress = self.progress(self.lane, "pull", pass_id=pass_id)
        status, sealed, aside = self.passes.adopt(ref, progress=progress)
        if aside is not None:  # the lead's own candidate that lost, or a store that was swapped
            text = f"global {pass_id}: another seal is published; {aside}"
            self.journal.note(self.lane, "set_aside", text=text)
        if status is Status.DOWNLOADED and sealed is not None:
            size = sealed.seal.model_bytes
            text = f"global {pass_id}: {words.size(size)}, sha256 {sealed.seal.model_sha256[:12]}"
            self.journal.note(self.lane, "pull", text=text, pass_id=pass_id, done=size, total=size)
        if sealed is not None:
            self._check_chain(sealed)
        return status, sealed

    def _check_chain(self, sealed: Sealed) -> None:
        """A global must continue the one before it, as far as this mirror has it.

        Raises:
            ProtocolError: it continues another one.
        """
        number = sealed.ref.number
        if not self._continues(sealed) and number and self.settings.is_lead:
            # Law 2: what the lead has may be a candidate that lost while it was down; the store's seal holds.
            self.fetch_global(number - 1)
        if not self._continues(sealed):
            raise ProtocolError(
                f"global {number} does not continue global {number - 1} as this mirror has it",
                hint="The store was altered: keep it as it is and show this line to the lead.",
            )

    def _continues(self, sealed: Sealed) -> bool:
        number, record = sealed.ref.number, sealed.seal.round
        before = self.mirror.sealed(PassRef(number - 1)) if number else None
        wanted = self.manifest_sha256 if not number else (before.sha256 if before else "")
        return record is None or not wanted or record.prev_metrics_sha256 == wanted

    def wait_for_global(self, pass_id: int) -> Status:
        """Poll until global `pass_id` is here or the run is over; for notebooks, `run` steps instead."""
        while True:
            status = self.pull_global(pass_id)
            if status not in (Status.NO_NEW_PASS, Status.FAILED) or self.stop.wait(
                self.settings.poll_seconds
            ):
                return status
