"""From a closed verdict to a published global: inputs, aggregate, look, seal, upload."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from stitch import layout
from stitch.client import Client
from stitch.client.aggregation import lay_aggregation
from stitch.client.calls import diagnose_call, with_evaluations
from stitch.client.carried import Carried, forget_carried, read_carried
from stitch.client.ended import run_hook
from stitch.client.late import LatePasses
from stitch.client.leftover import Leftovers
from stitch.client.one_draw import require_first_draw
from stitch.client.releasing import transform_inputs
from stitch.errors import (
    DiskError,
    EgressRefused,
    HookError,
    NonDeterministicAggregation,
    ProtocolError,
)
from stitch.files import disk
from stitch.hooks.call import HookCall, HookResult
from stitch.layout import GLOBAL, PassRef
from stitch.loops.round import Round
from stitch.mirror import Sealed, Stage
from stitch.rounds import Attempt, RoundState, Turn
from stitch.sync.documents import Stored
from stitch.wire import Attachment, Input, RoundRecord, Verdict

NON_DETERMINISTIC = "non_deterministic_aggregation"


@dataclass(frozen=True, slots=True)
class _Made:
    """A finished aggregation, not sealed yet."""

    stage: Stage
    result: HookResult
    carried: Carried


class Making:
    """Makes the global of a closed round.

    Args:
        client: the lead's.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        buffered = client.settings.policy.buffered
        self._late = Leftovers(client, client.buffers) if buffered else LatePasses(client)

    def make(self, now: Round, verdict: Stored[Verdict]) -> Turn:
        """From the verdict to the published global; a candidate that is sealed here is taken up again.

        Raises:
            HookError: the aggregate hook failed.
            NonDeterministicAggregation: it gave other bytes from the same inputs; the attempt is given up.
            ProtocolError: an input is not what the verdict names.
            PrivacyError: these inputs were told before, with other noise.
        """
        client, ref = self._client, PassRef(now.number)
        candidate = client.mirror.sealed(ref)
        if candidate is not None and not (
            _made_by(candidate, verdict) and client.mirror.has_attachments(candidate)
        ):
            client.mirror.set_aside(ref)
            candidate = None
        if candidate is None:
            self._move(now, RoundState.AGGREGATING)
            inputs = self._inputs_of(now, verdict.doc)
            if inputs is None:
                return Turn("waiting", f"round {now.number}: an input is not whole in the store", ref.number)
            candidate = self._aggregate(now, inputs=inputs, verdict=verdict)
        else:
            now.machine.adopt(RoundState.COMMITTING)
        if self._overtaken(now):
            return Turn("acted", f"round {now.number} was ended meanwhile", ref.number)
        if now.machine.state is not RoundState.COMMITTING:
            self._move(now, RoundState.COMMITTING)
        client.publish_global(candidate)
        now.machine.to(RoundState.CLOSED)
        return Turn("acted", f"published global {ref.number}", ref.number)

    def _move(self, now: Round, state: RoundState) -> None:
        """One edge of the state machine, published: the sites' people see what the lead does."""
        if state is RoundState.AGGREGATING:
            now.machine.adopt(RoundState.COLLECTING)  # a verdict implies it
        if now.machine.state is not state:
            now.machine.to(state)
        status = dict.fromkeys(now.expected, "completed")
        verdict = now.verdict.doc if now.verdict else None
        used = {one.site for one in verdict.inputs} if verdict else set()
        self._client.publish_orchestration(
            now.view({site: word for site, word in status.items() if site in used})
        )

    def _overtaken(self, now: Round) -> bool:
        """Whether the attempt was given up, or the run ended, while the candidate was made."""
        documents = self._client.documents
        return documents.exists(layout.abort(now.number, now.attempt.attempt)) or documents.exists(
            layout.done()
        )

    def _inputs_of(self, now: Round, verdict: Verdict) -> list[Sealed] | None:
        """Exactly the passes that the verdict names, by their hashes; None while one is not whole."""
        inputs = []
        for wanted in verdict.inputs:
            ref = self._place_of(now, wanted)
            sealed = self._client.mirror.sealed(ref)
            if sealed is None or sealed.sha256 != wanted.metrics_sha256:
                _, sealed = self._client.pull_site(ref)
            if sealed is None:
                return None
            if sealed.sha256 != wanted.metrics_sha256 or sealed.seal.model_sha256 != wanted.model_sha256:
                raise ProtocolError(
                    f"{ref.folder} is not what the verdict of round {verdict.pass_id} names",
                    hint="The store was altered: keep it as it is and show it to the lead's IT.",
                )
            inputs.append(sealed)
        return inputs

    def _place_of(self, now: Round, wanted: Input) -> PassRef:
        """Where a pass lies: the attempts of its own round say in which folder."""
        if wanted.pass_id == now.number:
            return now.attempt.ref(wanted.site)
        attempts = self._client.buffers.of(now.attempt).attempts
        return attempts.get(wanted.pass_id, Attempt(wanted.pass_id)).ref(wanted.site)

    # -- the hooks -------------------------------------------------------------------------------

    def _aggregate(self, now: Round, *, inputs: list[Sealed], verdict: Stored[Verdict]) -> Sealed:
        client, ref, base = self._client, PassRef(now.number), now.base
        client.pins(ref.number)  # before the hook's time is spent on what may not be sealed
        require_first_draw(client, now.attempt, verdict=verdict)
        client.drop_stage(ref)
        stage = client.stage(ref)
        older, seed = self._older(now, inputs), client.seed(ref.number)
        laid = lay_aggregation(client, stage, base=base, older=older, inputs=inputs, seed=seed)
        call = with_evaluations(laid.call, client.evaluation_results(base))
        client.seat(GLOBAL).tell("aggregating", ref.number)
        client.journal.note(GLOBAL, "aggregate", text=f"round {ref.number}: {len(inputs)} inputs")
        try:
            run = partial(run_hook, client)
            transform_inputs(client.settings, stage, inputs=inputs, bases=laid.bases, run=run)
            made = self._reproduced(now, call, stage=stage)
        except (HookError, DiskError) as error:
            self.failed(error, stage, phase="aggregating")
            raise
        now.machine.to(RoundState.ALIGNING)
        made = self._diagnosed(now, made)
        late = self._late.find(now.attempt, [entry.site for entry in now.roster.sites], used=inputs)
        stop, config = made.result.should_stop, made.carried.config
        record = client.record_of(verdict, base, inputs=inputs, should_stop=stop, late=late, config=config)
        sealed = self.seal(
            made.stage, made.result, base=base, record=record, attachments=made.carried.attachments
        )
        text = f"global {ref.number}: {made.result.seconds:.1f} s"
        client.journal.note(GLOBAL, "seal", text=text, pass_id=ref.number, seconds=made.result.seconds)
        return sealed

    def _older(self, now: Round, inputs: Sequence[Sealed]) -> list[Sealed]:
        """Globals before the one that is replaced, which inputs were trained from."""
        numbers = {one.ref.number - 1 for one in inputs} - {now.base.ref.number}
        return [self._client.require_global(number) for number in sorted(numbers)]

    def _once(self, call: HookCall, stage: Stage) -> tuple[_Made, tuple[object, ...]]:
        """Run the hook; what it made, and all of it that another run must make alike."""
        client = self._client
        result = run_hook(client, call)
        carried = read_carried(call, client.mirror)
        model = call.out_path and client.mirror.digest(call.out_path)
        return _Made(stage, result, carried), (model, carried.outer_sha256, carried.config)

    def _reproduced(self, now: Round, call: HookCall, *, stage: Stage) -> _Made:
        """Run the hook; when asked, again in a fresh process, until two runs agree or two pairs did not.

        Raises:
            NonDeterministicAggregation: they did not agree, and that aborts.
        """
        client = self._client
        wanted = client.settings.integrity.reproduce
        made, first = self._once(call, stage)
        if wanted == "off" or call.out_path is None:
            return made
        for _ in range(2):
            with disk(call.out_path):
                call.out_path.unlink()
            forget_carried(call)
            made, second = self._once(call, stage)
            if second == first:
                return made
            text = f"round {now.number}: the aggregate hook made {_told(first)}, then {_told(second)}"
            client.journal.note(GLOBAL, "warn", text=text, pass_id=now.number)
            first = second
        if wanted == "warn":
            return made
        client.drop_stage(stage.ref)
        client.give_up(now.attempt, code=NON_DETERMINISTIC)
        now.machine.to(RoundState.ABORTED)
        client.publish_orchestration(now.view())
        raise NonDeterministicAggregation(
            f"round {now.number}: the aggregate hook gives other bytes each time from the same inputs",
            hint="Fix its order of summation, threads or random numbers, then run again (docs/hooks.md).",
        )

    def _diagnosed(self, now: Round, made: _Made) -> _Made:
        """Let the diagnose hook read a copy of the candidate; its numbers are sealed as `diagnose.<name>`.

        It cannot change the candidate, and what fails in it stops nothing.
        """
        client, spec = self._client, self._client.settings.hooks.diagnose
        if spec is None:
            return made
        model = made.stage.model_path(client.settings.hooks.model_ext)
        copy = made.stage.work_dir / f"candidate{model.suffix}"
        with disk(copy):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(model, copy)
        call = diagnose_call(
            client.settings,
            made.stage,
            spec=spec,
            candidate=copy,
            base=now.base.model,
            pass_id=now.number,
        )
        try:
            found = run_hook(client, call).metrics
        except HookError as error:
            text = f"round {now.number}: the diagnose hook failed: {error}"
            client.journal.note(GLOBAL, "warn", text=text, pass_id=now.number)
            return made
        shown = ", ".join(f"{name} {value:g}" for name, value in sorted(found.items()))
        client.journal.note(GLOBAL, "aggregate", text=f"diagnose: {shown}", pass_id=now.number)
        numbers = {f"diagnose.{name}"[:64]: value for name, value in found.items()}
        return replace(made, result=replace(made.result, metrics={**made.result.metrics, **numbers}))

    def seal(
        self,
        stage: Stage,
        result: HookResult,
        *,
        base: Sealed | None,
        record: RoundRecord,
        attachments: Sequence[Attachment] = (),
    ) -> Sealed:
        """Seal within the rules of least egress: these hooks can see the lead's data (law 8).

        Raises:
            EgressRefused: it rests on too few samples; nothing was sealed.
        """
        try:
            return self._client.seal_global(
                stage,
                base=base,
                n_samples=result.n_samples,
                metrics=result.metrics,
                record=record,
                attachments=attachments,
            )
        except EgressRefused as error:
            self.failed(error, stage, phase="sealing")
            raise

    def failed(self, error: HookError | EgressRefused | DiskError, stage: Stage, *, phase: str) -> None:
        """Leave behind what a person needs to see why."""
        client = self._client
        model: Path | None = stage.model_path(client.settings.hooks.model_ext)
        if isinstance(error, DiskError):
            client.drop_stage(stage.ref)  # half a model on a full disk helps nobody
            model = None
        client.trail.last_error(error, pass_id=stage.ref.number, phase=phase, model_path=model)
        client.journal.note(GLOBAL, "error", text=str(error), pass_id=stage.ref.number)


def _told(made: tuple[object, ...]) -> str:
    """The beginnings of the hashes of a model and a state, for people; a config counts as its text."""
    return ", ".join(str(part)[:12] for part in made if part)


def _made_by(candidate: Sealed, verdict: Stored[Verdict]) -> bool:
    """A candidate is valid only if it was made from exactly this verdict."""
    record = candidate.seal.round
    return record is not None and record.verdict_sha256 == verdict.sha256
