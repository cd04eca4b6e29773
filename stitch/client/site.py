"""The verbs that every site uses, the lead's own training included."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from stitch import layout
from stitch.client.admission import require_fit
from stitch.client.calls import train_call
from stitch.client.commitment import commitment
from stitch.client.ended import run_hook
from stitch.client.inspection import require_admitted
from stitch.client.outbox import Outbox
from stitch.client.presence import Presence
from stitch.client.releasing import release
from stitch.client.spending import charge
from stitch.errors import ConfigError, HookOutput, ProtocolError
from stitch.hooks.inline import check_map
from stitch.layout import GLOBAL, PassRef
from stitch.mirror import Sealed, Stage
from stitch.sync.egress import check_counts, narrow
from stitch.sync.status import Status
from stitch.version import __version__
from stitch.views import words
from stitch.wire import Done, Orchestration, Seal


class SiteVerbs(Presence):
    """`pull_global`, `push_local_model` and what stands around them."""

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

    # -- up --------------------------------------------------------------------------------------

    @property
    def outbox(self) -> Outbox:
        """What waits for a person before it leaves."""
        return Outbox(self.settings, self.mirror, clock=self.clock)

    def push_local_model(self, pass_id: int, metrics: Mapping[str, Any] | None = None) -> Status:
        """Seal the model at `model_path(pass_id)` and publish it; a sealed pass is pushed as it is.

        FAILED leaves the pass sealed here: the same call pushes it later.

        Args:
            pass_id: the site pass.
            metrics: must hold `n_samples`; not needed when the pass is sealed here already.

        Raises:
            HookOutput: the metrics or the model cannot be used.
            EgressRefused: they may not leave; nothing was sealed.
            ConfigError: there is nothing to push.
        """
        return self.attempt(lambda: self._push_local_model(pass_id, metrics), what=f"pass {pass_id}")

    def _push_local_model(self, pass_id: int, metrics: Mapping[str, Any] | None) -> Status:
        ref = PassRef(pass_id, self.site)
        sealed = self.mirror.sealed(ref)
        if sealed is None:
            if metrics is None:
                raise ConfigError(f"pass {pass_id} is not sealed here", hint="Give its metrics.")
            base = self._base(pass_id)
            stage = self.stage(ref)
            call = train_call(self.settings, stage, base=base.model, pass_id=pass_id, seed=self.seed(pass_id))
            checked = check_map(call, metrics)
            attempt = max(1, self.events.last_attempt(pass_id))
            sealed = self.seal_site_pass(
                stage, base, attempt=attempt, n_samples=checked.n_samples, metrics=checked.metrics
            )
        return self.publish_site_pass(sealed)

    def seal_site_pass(
        self, stage: Stage, base: Sealed, *, attempt: int, n_samples: int, metrics: Mapping[str, float]
    ) -> Sealed:
        """Seal what the train hook made; the first seal of a pass wins.

        Raises:
            EgressRefused: too few samples, or a model that may not leave; nothing was sealed.
            CommitmentMismatch, PinMismatch: data or a pinned file changed meanwhile; nothing was sealed.
            HookOutput: the lead would not admit it; nothing was sealed.
            TransformDegenerate: it cannot be made fit to leave; nothing was sealed.
        """
        check_counts(n_samples, self.settings.egress)
        model = stage.model_path(self.settings.hooks.model_ext)
        if not model.is_file():
            raise HookOutput(f"no model was written to {model.name}", hint="Write it to model_path(pass_id).")
        transforms = release(self.settings, stage, base=base.model, run=partial(run_hook, self))
        started, root = commitment(self, stage.ref, attempt=attempt)
        seal = Seal.make(
            lane=stage.ref.lane,
            attempt=attempt,
            dataset_root=root,
            base_pass=base.ref.number,
            base_sha256=base.seal.model_sha256,
            n_samples=n_samples,
            metrics=narrow(metrics, self.settings.egress.metrics),
            round_seed=self.seed(stage.ref.number),
            transforms=transforms,
            **self.model_fields(stage),
        )
        require_fit(self, seal, ref=stage.ref, started=started)
        require_admitted(self, seal, ref=stage.ref, model=model, base=base.model)
        sealed = self.mirror.seal(stage, seal)
        self._stages.pop(stage.ref, None)
        return sealed

    def model_fields(self, stage: Stage) -> dict[str, Any]:
        """The fields of a seal that every lane fills alike."""
        ext = self.settings.hooks.model_ext
        model = stage.model_path(ext)
        digest = self.mirror.digest(model)
        return {
            "run_id": self.settings.run_id,
            "pass_id": stage.ref.number,
            "model_file": layout.stored_name("model", digest, ext=ext),
            "model_sha256": digest,
            "model_bytes": model.stat().st_size,
            "hooks_sha256": self.hooks_sha256,
            "config_sha256": self.config_sha256,
            "pins": self.pins(stage.ref.number),
            "created_at": self.clock.now(),
            "stitch_version": __version__,
        }

    def publish_site_pass(self, sealed: Sealed) -> Status:
        """Push a sealed pass and report it back; adopts the seal that is there already.

        HELD where a person must look at it first and did not yet: nothing was sent.

        Raises:
            PrivacyError: the data set's budget does not hold it, or its journal cannot be believed.
        """
        number = sealed.ref.number
        if self.outbox.holds(sealed) and self.passes.stat_seal(sealed.ref) is None:
            return Status.HELD
        charge(self, sealed)
        seat = self.seats.get(self.lane)
        begun = self.clock.monotonic()
        status = self.passes.push(
            sealed,
            before_seal=seat.still if seat else lambda: None,
            progress=self.progress(self.lane, "push", pass_id=number),
        )
        if status is Status.CONFLICT:
            return self.adopt_site_pass(sealed.ref)
        if status is Status.UPLOADED:
            size, seconds = sealed.seal.model_bytes, self.clock.monotonic() - begun
            text = f"pass {number}: {words.size(size)} in {seconds:.1f} s, n_samples {sealed.seal.n_samples}"
            self.journal.note(
                self.lane, "push", text=text, pass_id=number, done=size, total=size, seconds=seconds
            )
        else:
            self.journal.note(self.lane, "already_synced", text=f"pass {number}", pass_id=number)
        self.report(sealed.seal)
        return status

    def adopt_site_pass(self, ref: PassRef) -> Status:
        """Take over the seal that the store holds for our own pass, setting other work aside.

        Returns:
            ALREADY_SYNCED, or NO_NEW_PASS while the sealed model is not whole in the store.
        """
        status, sealed, aside = self.passes.adopt(ref)
        if aside is not None:
            text = f"pass {ref.number}: the store has another; {aside}"
            self.journal.note(self.lane, "set_aside", text=text)
        if sealed is None:
            return status
        self.report(sealed.seal)
        return Status.ALREADY_SYNCED

    def _base(self, pass_id: int) -> Sealed:
        _, base = self.fetch_global(pass_id - 1)
        if base is None:
            raise ConfigError(
                f"global {pass_id - 1} is not in the store yet", hint="Pull it first: wait_for_global."
            )
        return base
