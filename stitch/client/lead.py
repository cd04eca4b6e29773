"""The verbs that the lead alone uses: it is the one writer of the global lane."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from stitch import layout
from stitch.client.buffers import Buffers
from stitch.client.calls import aggregate_call, train_call
from stitch.client.lead_view import LeadView
from stitch.client.record import RecordVerbs, input_of
from stitch.client.releasing import global_transforms
from stitch.client.round_file import round_json
from stitch.client.watch import Ready, SiteWatch
from stitch.errors import ConfigError, RoundError, StoreUnavailable
from stitch.files import disk
from stitch.hooks.inline import check_map
from stitch.layout import GLOBAL, PassRef
from stitch.mirror import Sealed, Stage
from stitch.rounds import Attempt
from stitch.sync.egress import check_counts, narrow
from stitch.sync.status import Status
from stitch.views import words
from stitch.wire import Attachment, RoundRecord, Seal


class LeadVerbs(RecordVerbs):
    """`pull_sites`, `push_global_model`, `write_end_marker` and what stands around them."""

    _watch: SiteWatch | None = None
    _buffers: Buffers | None = None

    # -- the sites -------------------------------------------------------------------------------

    @property
    def watch(self) -> SiteWatch:
        """The lead's look at the sites."""
        if self._watch is None or self._watch.lanes is not self.lanes:
            minutes, readers = self.settings.heartbeat_minutes, self.readers
            self._watch = SiteWatch(
                self.lanes,
                self.clock,
                heartbeat_minutes=minutes,
                readers=readers,
                seen=self.mirror.watched,
            )
        return self._watch

    @property
    def buffers(self) -> Buffers:
        """What the sealed globals say of the sites' passes."""
        if self._buffers is None:
            self._buffers = Buffers(self)
        return self._buffers

    def ready(self, round_: Attempt, expected: Iterable[str]) -> Ready:
        """Which of the sites have a sealed pass that the round can use."""
        buffer = self.buffers.of(round_) if self.settings.policy.buffered else None
        return self.watch.ready(round_, expected, buffer=buffer)

    def all_completed(self, pass_id: int, expected: Iterable[str]) -> bool:
        """Whether every expected site has sealed its pass in the store (a seal implies `completed`)."""
        expected = list(expected)
        return set(expected) <= self.ready(self.attempt_of(pass_id)[0], expected).sealed.keys()

    def refresh_site_status(self, pass_id: int) -> dict[str, str]:
        """Roll events and heartbeats up into orchestration's `site_status`."""
        roster = self.roster()
        round_, _ = self.attempt_of(pass_id)
        ready = self.ready(round_, roster.expected_in(pass_id, round_.attempt))
        status = self.watch.status(roster.expected_in(pass_id, round_.attempt), ready=ready)
        self.publish_orchestration(LeadView(roster, pass_id - 1, status, attempt=round_.attempt))
        return status

    def wait_for_all_expected(self, pass_id: int) -> list[Status]:
        """Poll until every expected site has sealed its pass, then pull them all; for notebooks."""
        while True:
            status = self.refresh_site_status(pass_id)
            if all(word == "completed" for word in status.values()):
                return self.pull_sites(pass_id)
            if self.stop.wait(self.settings.poll_seconds):
                return [Status.NO_NEW_PASS for _ in status]

    def pull_sites(self, pass_id: int) -> list[Status]:
        """Bring every expected site's sealed pass into the mirror and `sites_pass_dir`, verified.

        Raises:
            ConfigError: rounds are buffered: a round's inputs are not those of one number.
        """
        self._require_whole_rounds()
        outcomes = []
        inputs = []
        try:
            round_, _ = self.attempt_of(pass_id)
            expected = self.roster().expected_in(pass_id, round_.attempt)
        except StoreUnavailable:
            return [Status.FAILED for _ in self.settings.sites]
        for site in expected:
            ref = round_.ref(site)
            outcomes.append(self.attempt(partial(self._pull_one, ref), what=ref.folder))
            sealed = self.mirror.sealed(ref)
            inputs += [sealed] if sealed else []
        self.lay_inputs(self.stage(PassRef(pass_id)), inputs)
        return outcomes

    def _require_whole_rounds(self) -> None:
        if self.settings.policy.buffered:
            raise ConfigError(
                "these verbs bring the passes of one round; a buffered round takes those of several",
                hint='Use `clif-stitch run`, or Coordinator, for [policy] require = "buffered".',
            )

    def _pull_one(self, ref: PassRef) -> Status:
        return self.pull_site(ref)[0]

    def sites_pass_dir(self, pass_id: int) -> Path:
        """A folder of verified inputs only: `<site>/pass_NNN/{model.ext,metrics.json}`."""
        return self.stage(PassRef(pass_id)).inputs_dir

    def pull_site(self, ref: PassRef) -> tuple[Status, Sealed | None]:
        """Bring one site's pass into the mirror, verified; another one under its name is set aside.

        Raises:
            DigestMismatch, BadDocument: its bytes or its seal cannot be believed.
        """
        progress = self.progress(GLOBAL, "pull", pass_id=ref.number)
        status, sealed = self.passes.pull(ref, progress=progress)
        own = self.seats.get(self.lane) if ref.site == self.site else None
        if status is Status.CONFLICT and own is not None and own.term:
            return status, None  # our own training's work: the local loop, which holds the lane, adopts
        if status is Status.CONFLICT:
            status, sealed, _ = self.passes.adopt(ref, progress=progress)
        if status is Status.DOWNLOADED and sealed is not None:
            size = sealed.seal.model_bytes
            text = f"{ref.site} pass {ref.number}: {words.size(size)}, n_samples {sealed.seal.n_samples}"
            self.journal.note(GLOBAL, "pull", text=text, pass_id=ref.number, done=size, total=size)
        return status, sealed

    def lay_inputs(self, stage: Stage, inputs: Sequence[Sealed]) -> None:
        """Fill `stage.inputs_dir` with exactly these passes, each with its `round.json` (docs/hooks.md)."""
        with disk(stage.inputs_dir):
            shutil.rmtree(stage.inputs_dir, ignore_errors=True)
            for sealed in inputs:
                folder = stage.inputs_dir / str(sealed.ref.site) / layout.pass_name(sealed.ref.number)
                folder.mkdir(parents=True)
                _lay(sealed.model, folder / sealed.model.name)
                (folder / "metrics.json").write_bytes(sealed.data)
                said = round_json(
                    sealed.seal, input_of(sealed, stage.ref.number, policy=self.settings.policy)
                )
                (folder / "round.json").write_bytes(said)

    def lay_bases(self, stage: Stage, bases: Iterable[Sealed]) -> Path:
        """A folder with the globals that the inputs were trained from: `pass_NNN/model.ext`."""
        folder = stage.folder / "bases"
        with disk(folder):
            for base in bases:
                target = folder / layout.pass_name(base.ref.number) / base.model.name
                target.parent.mkdir(parents=True, exist_ok=True)
                if not target.exists():
                    _lay(base.model, target)
        return folder

    # -- the global ------------------------------------------------------------------------------

    def seal_global(
        self,
        stage: Stage,
        *,
        base: Sealed | None,
        n_samples: int,
        metrics: Mapping[str, float],
        record: RoundRecord,
        attachments: Sequence[Attachment] = (),
    ) -> Sealed:
        """Seal global `stage.ref` in the mirror; the candidate that is published next.

        Raises:
            EgressRefused: it rests on too few samples; nothing was sealed.
        """
        check_counts(n_samples, self.settings.egress)
        last = stage.ref.number >= self.settings.num_passes
        record = record.model_copy(update={"final": record.should_stop or last})
        seal = Seal.make(
            lane=GLOBAL,
            attempt=record.attempt,
            base_pass=base.ref.number if base else None,
            base_sha256=base.seal.model_sha256 if base else None,
            n_samples=n_samples,
            metrics=narrow(metrics, self.settings.egress.metrics),
            attachments=tuple(attachments),
            round_seed=record.seed,
            round=record,
            transforms=global_transforms(self.settings) if base else (),
            **self.model_fields(stage),
        )
        sealed = self.mirror.seal(stage, seal)
        self._stages.pop(stage.ref, None)
        return sealed

    def publish_global(self, sealed: Sealed) -> Status:
        """Push a sealed global; of two, the first in the store wins, and the other is set aside."""
        number = sealed.ref.number
        seat = self.seats.get(GLOBAL)
        status = self.passes.push(
            sealed,
            before_seal=seat.still if seat else lambda: None,
            progress=self.progress(GLOBAL, "publish", pass_id=number),
        )
        if status is Status.CONFLICT:
            _, _, aside = self.passes.adopt(sealed.ref)
            self.journal.note(GLOBAL, "set_aside", text=f"global {number}: another one is published; {aside}")
        size = sealed.seal.model_bytes
        text = f"global {number}: {words.size(size)}, sha256 {sealed.seal.model_sha256[:12]}"
        self.journal.note(GLOBAL, "publish", text=text, pass_id=number, done=size, total=size)
        return status

    def push_global_model(self, pass_id: int, metrics: Mapping[str, Any]) -> Status:
        """Seal the aggregate at `global_model_path(pass_id)`, publish it and advance orchestration.

        The inputs are those that `pull_sites` brought. `loops.Lead` does the same in steps that
        survive a crash anywhere.

        Raises:
            HookOutput: the metrics or the model cannot be used.
            RoundError: a pass that the policy waits for is not here, or no site contributed a sample.
            ConfigError: rounds are buffered, or the lead adds noise by itself.
        """
        self.require_lead()
        self._require_whole_rounds()
        if pass_id and self.settings.privacy.mode == "central":
            raise ConfigError(
                "a global of this run is sealed as one with noise, and nobody adds that by hand",
                hint='Use `clif-stitch run`, or Coordinator, for [privacy] mode = "central".',
            )
        return self.attempt(lambda: self._push_global_model(pass_id, metrics), what=f"global {pass_id}")

    def _push_global_model(self, pass_id: int, metrics: Mapping[str, Any]) -> Status:
        self.begin()
        ref = PassRef(pass_id)
        sealed = self.mirror.sealed(ref)
        if sealed is None:
            sealed = self._seal_by_hand(ref, metrics)
        status = self.publish_global(sealed)
        if not sealed.seal.final:
            self.publish_orchestration(LeadView(self.roster(), pass_id))
        return status

    def _seal_by_hand(self, ref: PassRef, metrics: Mapping[str, Any]) -> Sealed:
        stage = self.stage(ref)
        if ref.number == 0:
            call = train_call(self.settings, stage, base=None, pass_id=0, seed=self.seed(0))
            checked = check_map(call, metrics)
            return self.seal_global(
                stage,
                base=None,
                n_samples=checked.n_samples,
                metrics=checked.metrics,
                record=self.first_record(),
            )
        base = self.require_global(ref.number - 1)
        roster = self.roster()
        round_, closed = self.attempt_of(ref.number)
        here = [
            self.mirror.sealed(round_.ref(site)) for site in roster.expected_in(ref.number, round_.attempt)
        ]
        inputs = [one for one in here if one]
        if closed is None:
            self._require_inputs(ref.number, inputs, missing=len(here) - len(inputs))
        verdict = closed or self.close_attempt(round_, roster, inputs=inputs, excluded={})
        named = {one.metrics_sha256 for one in verdict.doc.inputs}
        n_samples = sum(one.n_samples for one in verdict.doc.inputs)
        call = aggregate_call(
            self.settings,
            stage,
            base=base.model,
            bases=stage.folder,
            pass_id=ref.number,
            seed=self.seed(ref.number),
            n_samples=n_samples,
        )
        checked = check_map(call, metrics)
        used = [one for one in inputs if one.sha256 in named]
        record = self.record_of(verdict, base, inputs=used, should_stop=checked.should_stop)
        return self.seal_global(
            stage, base=base, n_samples=checked.n_samples, metrics=checked.metrics, record=record
        )

    def _require_inputs(self, number: int, inputs: Sequence[Sealed], *, missing: int) -> None:
        """No verdict over nothing, and none without somebody whom the policy waits for (law 7)."""
        policy = self.settings.policy
        least = policy.min_participants if policy.require == "quorum" else len(inputs) + missing
        if len(inputs) < least or not sum(one.seal.n_samples for one in inputs):
            raise RoundError(
                f"round {number}: {len(inputs)} of {len(inputs) + missing} passes are here",
                hint="No verdict was made. Pull them first: wait_for_all_expected. They need samples.",
            )


def _lay(source: Path, target: Path) -> None:
    """Link a file that is whole in the store as well, so that a hook that alters it loses nothing."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
