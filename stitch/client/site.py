"""The verbs by which a site gives its passes, the lead's own training included."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from stitch import layout
from stitch.client.admission import require_fit
from stitch.client.calls import train_call
from stitch.client.commitment import commitment
from stitch.client.ended import run_hook
from stitch.client.globals import GlobalVerbs
from stitch.client.inspection import require_admitted
from stitch.client.outbox import Outbox
from stitch.client.releasing import release
from stitch.client.spending import charge
from stitch.errors import ConfigError, HookOutput
from stitch.hooks.inline import check_map
from stitch.layout import PassRef
from stitch.mirror import Sealed, Stage
from stitch.sync.egress import check_counts, narrow
from stitch.sync.status import Status
from stitch.version import __version__
from stitch.views import words
from stitch.wire import Seal


class SiteVerbs(GlobalVerbs):
    """`push_local_model` and what stands around it."""

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
