"""A hook run that leaves nothing behind but a scratch folder: no store, no lease, no seal in the mirror."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from stitch import layout
from stitch.client.calls import aggregate_call, train_call
from stitch.client.carried import OUTER_STATE, Carried, read_carried
from stitch.client.hook_state import carry_state
from stitch.client.inspection import look_into, not_admitted
from stitch.client.releasing import release, transform_inputs
from stitch.client.round_file import round_json
from stitch.clock import SystemClock
from stitch.config import Settings, config_sha256
from stitch.config.pins import pins_in_force
from stitch.errors import ConfigError, EgressRefused, HookError, HookOutput
from stitch.files import disk, file_sha256
from stitch.hooks.call import HookCall, HookResult
from stitch.hooks.runner import HookRunner
from stitch.layout import GLOBAL, PassRef
from stitch.mirror import Mirror, Sealed, Stage
from stitch.rounds import round_seed
from stitch.sync.egress import check_counts, check_model, narrow
from stitch.version import __version__
from stitch.wire import Seal

OnLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Trial:
    """What a hook gave back, and what of it would leave.

    Attributes:
        started_from: what it worked on, for people.
        folder: the scratch folder: `pass/model.<ext>`, `pass/metrics.json` and the log.
        log: everything the hook printed.
        result: as the hook returned it, checked.
        seal: `metrics.json` as it would leave.
        withheld: names of metrics that `[egress] metrics` keeps here.
        evaluates: whether `run` first scores the global that this was trained from.
        refused: why nothing would leave at all; None when it may.
    """

    ref: PassRef
    started_from: str
    folder: Path
    log: Path
    result: HookResult
    seal: Seal
    withheld: tuple[str, ...]
    evaluates: bool
    refused: EgressRefused | HookOutput | None

    @property
    def model(self) -> Path:
        """The model that the hook wrote."""
        return self.folder / "pass" / f"model.{self.seal.ext}"


class Bench:
    """Tries a project's hooks in `runs/<run_id>/try/`.

    Args:
        settings: the project's; no store is needed.
        stop: ends the hook.
        on_line: called with each line the hook prints, and with a line before a hook that runs first.
    """

    def __init__(self, settings: Settings, *, stop: threading.Event, on_line: OnLine) -> None:
        self._settings = settings
        self._mirror = Mirror(settings.mirror_dir)
        self._stop = stop
        self._on_line = on_line
        self._folder = settings.runs_dir / "try"
        self._started: Trial | None = None

    def train(self, pass_id: int | None) -> Trial:
        """Train pass `pass_id`, by default the one this site would train next.

        Where its base is not in the mirror, a starting model is made here first; 0 makes only that.

        Raises:
            HookError: the hook failed.
            ConfigError: a pass was asked for whose base is not here.
        """
        wanted = self._next_pass() if pass_id is None else pass_id
        if wanted == 0:
            return self._start()
        base, started_from = self._base(wanted)
        stage = self._stage("train", PassRef(wanted, self._settings.site))
        carry_state(self._mirror, stage)
        before = self._mirror.sealed(PassRef(wanted - 1))
        call = train_call(
            self._settings,
            stage,
            base=base,
            pass_id=wanted,
            seed=self._seed(wanted),
            said=before.seal.next_config if before else None,
        )
        return self._trial(stage, call, started_from=started_from, base=base)

    def aggregate(self, pass_id: int | None) -> Trial:
        """Aggregate the inputs that lie in the mirror; where there are none, one that is trained now.

        Raises:
            HookError: a hook failed.
            ConfigError: a pass was asked for whose inputs are not here.
        """
        wanted = self._newest_with_inputs() if pass_id is None else pass_id
        inputs = self._inputs(wanted) if wanted else []
        if pass_id is not None and not inputs:
            raise ConfigError(
                f"no site pass {pass_id} is in this mirror",
                hint="Leave out --pass: then the newest inputs are used, or one that is trained now.",
            )
        if not inputs:
            self._on_line("(no site pass is here yet: the train hook makes one first)")
            return self._round(
                [self.train(None)], started_from=f"a pass of {self._settings.site} trained now"
            )
        return self._round(
            inputs, started_from=", ".join(f"pass {one.ref.number} of {one.ref.site}" for one in inputs)
        )

    # -- what they start from --------------------------------------------------------------------

    def _next_pass(self) -> int:
        newest = self._mirror.passes(GLOBAL)[-1:]
        sealed = self._mirror.sealed(newest[0]) if newest else None
        if sealed is None:
            return 1
        number = sealed.ref.number  # nobody trains from a final global
        return number if sealed.seal.final and number else number + 1

    def _base(self, pass_id: int) -> tuple[Path, str]:
        """The global that pass `pass_id` is trained from, and what it is."""
        sealed = self._mirror.sealed(PassRef(pass_id - 1))
        if sealed is not None:
            return sealed.model, f"global {pass_id - 1}"
        if pass_id > 1:
            raise ConfigError(
                f"global {pass_id - 1} is not in this mirror", hint="Leave out --pass to try the next one."
            )
        if self._started is None:
            self._on_line("(no global is here yet: the train hook makes a starting model first)")
            self._started = self._start()
        return self._started.model, "a starting model made now"

    def _start(self) -> Trial:
        """The starting model, as the lead makes it in pass 0."""
        stage = self._stage("start", PassRef(0))
        call = train_call(self._settings, stage, base=None, pass_id=0, seed=self._seed(0))
        return self._trial(stage, call, started_from="nothing: this is the starting model")

    def _newest_with_inputs(self) -> int | None:
        others = (site for site in self._settings.sites if site != self._settings.site)
        passes = (ref for site in others for ref in self._mirror.passes(layout.site_lane(site)))
        return max((ref.number for ref in passes), default=None)

    def _inputs(self, pass_id: int) -> list[Sealed]:
        found = (self._mirror.sealed(PassRef(pass_id, site)) for site in sorted(self._settings.sites))
        return [sealed for sealed in found if sealed is not None]

    # -- running ---------------------------------------------------------------------------------

    def _round(self, inputs: Sequence[Sealed | Trial], *, started_from: str) -> Trial:
        number = inputs[0].ref.number
        base, _ = self._base(number)
        stage = self._stage("aggregate", PassRef(number))
        with disk(stage.folder):
            for one in inputs:
                folder = stage.inputs_dir / str(one.ref.site) / layout.pass_name(one.ref.number)
                folder.mkdir(parents=True)
                shutil.copyfile(one.model, folder / one.model.name)
                (folder / "metrics.json").write_bytes(one.seal.dump())
                (folder / "round.json").write_bytes(round_json(one.seal))
            bases = stage.folder / "bases"
            (bases / layout.pass_name(number - 1)).mkdir(parents=True)
            shutil.copyfile(base, bases / layout.pass_name(number - 1) / base.name)
        run = partial(HookRunner().run, stop=self._stop, on_line=self._on_line)
        transform_inputs(self._settings, stage, inputs=inputs, bases=stage.folder / "bases", run=run)
        call = aggregate_call(
            self._settings,
            stage,
            base=base,
            bases=bases,
            pass_id=number,
            seed=self._seed(number),
            n_samples=sum(one.seal.n_samples for one in inputs),
            outer=self._outer(number - 1),
        )
        return self._trial(stage, call, started_from=started_from)

    def _outer(self, number: int) -> Path | None:
        """The state that a global carries, where this mirror has it: the lead's."""
        sealed = self._mirror.sealed(PassRef(number))
        if sealed is None or not self._mirror.has_attachments(sealed):
            return None
        files = [one.file for one in sealed.seal.attachments if one.name == OUTER_STATE]
        return self._mirror.path(f"{sealed.ref.folder}/{files[0]}") if files else None

    def _stage(self, name: str, ref: PassRef) -> Stage:
        stage = Stage(ref, self._folder / name)
        with disk(stage.folder):
            shutil.rmtree(stage.folder, ignore_errors=True)
            stage.pass_dir.mkdir(parents=True)
            stage.work_dir.mkdir()
        return stage

    def _seed(self, pass_id: int) -> int:
        return round_seed(self._settings.root_seed or 0, pass_id)

    def _trial(self, stage: Stage, call: HookCall, *, started_from: str, base: Path | None = None) -> Trial:
        """Run a hook; with the base of a site's pass, also what happens to its model before it may leave."""
        settings = self._settings
        transforms: tuple[str, ...] = ()
        log = stage.folder / f"{call.hook}.log"
        run = partial(HookRunner().run, stop=self._stop, on_line=self._on_line)
        try:
            result = run(replace(call, log_path=log))
            if base is not None:
                transforms = release(settings, stage, base=base, run=run)
        except HookError as error:
            if error.hint == error.default_hint:
                words = log.relative_to(settings.root)
                error.hint = f"Its words are above and in {words}: correct the hook, then try again."
            raise
        carried = read_carried(call)  # what else it wrote is judged as well
        metrics = narrow(result.metrics, settings.egress.metrics)
        seal = self._seal(stage, result, metrics=metrics, transforms=transforms, carried=carried)
        with disk(stage.pass_dir):
            (stage.pass_dir / "metrics.json").write_bytes(seal.dump())
        refused: EgressRefused | HookOutput | None = _refusal(settings, stage, result)
        if refused is None and base is not None:
            refused = self._not_admitted(stage, seal, base=base, run=run)
        return Trial(
            ref=stage.ref,
            started_from=started_from,
            folder=stage.folder,
            log=log,
            result=result,
            seal=seal,
            withheld=tuple(sorted(set(result.metrics) - set(metrics))),
            evaluates=_evaluates(settings),
            refused=refused,
        )

    def _not_admitted(
        self, stage: Stage, seal: Seal, *, base: Path, run: Callable[[HookCall], object]
    ) -> HookOutput | None:
        """What `run` would refuse for what the model holds, before it seals."""
        model = stage.model_path(seal.ext)
        reason = look_into(self._settings, stage, seal=seal, model=model, base=base, run=run)
        return None if reason is None else not_admitted(stage.ref, reason)

    def _seal(
        self,
        stage: Stage,
        result: HookResult,
        *,
        metrics: dict[str, float],
        transforms: tuple[str, ...],
        carried: Carried,
    ) -> Seal:
        """`metrics.json` as far as a trial can know it: the base's hash and the round are the real run's."""
        ext = self._settings.hooks.model_ext
        model = stage.model_path(ext)
        digest = file_sha256(model)
        number = stage.ref.number
        return Seal.make(
            run_id=self._settings.run_id,
            lane=stage.ref.lane,
            pass_id=number,
            attempt=1 if stage.ref.site else 0,
            base_pass=number - 1 if number else None,
            base_sha256=None,
            model_file=layout.stored_name("model", digest, ext=ext),
            model_sha256=digest,
            model_bytes=model.stat().st_size,
            n_samples=result.n_samples,
            metrics=metrics,
            attachments=carried.attachments,
            transforms=transforms,
            config_sha256=config_sha256(self._settings),
            pins={name: pin.sha256 for name, pin in pins_in_force(self._settings.pins, number).items()},
            round_seed=self._seed(number),
            created_at=SystemClock().now(),
            stitch_version=__version__,
        )


def _evaluates(settings: Settings) -> bool:
    asked = settings.hooks.evaluate is not None and settings.evaluation.when == "always"
    return asked and not settings.egress.reviewed


def _refusal(settings: Settings, stage: Stage, result: HookResult) -> EgressRefused | None:
    """Why the pass may not leave, by the same rules that `run` keeps (law 8)."""
    ext = settings.hooks.model_ext
    try:
        check_counts(result.n_samples, settings.egress)
        check_model(stage.model_path(ext), ext=ext, max_bytes=settings.transfer.max_bytes)
    except EgressRefused as error:
        return error
    return None
