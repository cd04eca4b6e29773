"""Making a global again from its stored inputs, in a folder that is gone afterwards; the run is only read."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from stitch.client import Client, Runner, Setup
from stitch.client.aggregation import lay_aggregation
from stitch.client.carried import read_carried
from stitch.client.releasing import transform_inputs
from stitch.config import Settings, config_facts, config_sha256, differences
from stitch.config.hooks import HookSpec
from stitch.errors import ConfigError, DigestMismatch, ProtocolError, Stopped
from stitch.files import disk, file_sha256, scratch
from stitch.hooks.call import HookResult
from stitch.layout import PassRef
from stitch.mirror import Mirror, Sealed
from stitch.rounds import round_seed
from stitch.store.lanes import Lanes
from stitch.wire import Manifest, Scalar


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a global is made of: stored passes, each with the hash of its seal.

    Attributes:
        number: the global.
        base: the global that is replaced.
        bases: older globals that inputs were trained from.
        inputs: the site passes.
        log: takes what the hook prints.
        keep: where the model goes, without its extension; None keeps only its hash.
    """

    number: int
    base: tuple[PassRef, str]
    inputs: Sequence[tuple[PassRef, str]]
    log: Path
    keep: Path | None = None
    bases: Sequence[tuple[PassRef, str]] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """What came out: what the hook said, its model's hash and size in bytes, and who ran it.

    Attributes:
        outer_sha256: of the state that the hook left for the next aggregation; None if it left none.
        config: what it has the next pass trained with.
    """

    result: HookResult
    model_sha256: str
    model_bytes: int
    hooks_sha256: str | None
    outer_sha256: str | None = None
    config: Mapping[str, Scalar] = field(default_factory=dict)


class Workbench:
    """Runs the project's aggregate hook as the lead does, on passes pulled and hashed anew.

    One round's inputs lie on this disk at a time.

    Args:
        settings: this project's.
        lanes: where the run is.
        manifest: of that run.
        aggregate: another hook instead of the project's.
        stop: ends a running hook.
        runner: runs the hook; by default in a child process.

    Raises:
        ConfigError: the run was begun with other settings than this project has.
    """

    def __init__(
        self,
        settings: Settings,
        lanes: Lanes,
        *,
        manifest: Manifest,
        aggregate: HookSpec | None = None,
        stop: threading.Event | None = None,
        runner: Runner | None = None,
    ) -> None:
        if config_sha256(settings) != manifest.config_sha256:
            differing = differences(manifest.settings, config_facts(settings))
            raise ConfigError(
                f"run {settings.run_id} was begun with other settings: {differing}",
                hint="Use the stitch.toml that the run was begun with.",
            )
        if aggregate is not None:
            settings = replace(settings, hooks=replace(settings.hooks, aggregate=aggregate))
        self._settings = settings
        self._lanes = lanes
        self._manifest = manifest
        self._stop = stop or threading.Event()
        self._runner = runner

    def make(self, recipe: Recipe) -> Made:
        """Aggregate; the same call as the lead's, with the seed of that round.

        Raises:
            HookError: the hook failed.
            ProtocolError: an input or the base is not whole, or not the one of the recipe.
        """
        ref = PassRef(recipe.number)
        with scratch() as folder:
            mirror = Mirror(folder)
            setup = Setup(lanes=self._lanes, mirror=mirror, stop=self._stop, runner=self._runner)
            client = Client(self._settings, setup)
            base = self._pull(client, *recipe.base)
            older = [self._pull(client, one, digest) for one, digest in recipe.bases]
            inputs = [self._pull(client, one, digest) for one, digest in recipe.inputs]
            stage = client.stage(ref)
            seed = round_seed(self._manifest.root_seed, ref.number)
            laid = lay_aggregation(client, stage, base=base, older=older, inputs=inputs, seed=seed)
            run = partial(client.runner.run, stop=self._stop)
            transform_inputs(client.settings, stage, inputs=inputs, bases=laid.bases, run=run)
            result = client.runner.run(replace(laid.call, log_path=recipe.log), stop=self._stop)
            carried = read_carried(laid.call)
            ext = client.settings.hooks.model_ext
            model = stage.model_path(ext)
            if recipe.keep is not None:
                with disk(recipe.keep):
                    shutil.copyfile(model, recipe.keep.with_name(f"{recipe.keep.name}.{ext}"))
            return Made(
                result,
                file_sha256(model),
                model.stat().st_size,
                client.hooks_sha256,
                outer_sha256=carried.outer_sha256,
                config=carried.config,
            )

    def _pull(self, client: Client, ref: PassRef, digest: str) -> Sealed:
        """One pass, hashed on its way, and the one that the record names."""
        _, sealed = client.passes.pull(ref, progress=self._go_on)
        if sealed is None:
            raise ProtocolError(f"{ref.folder} is not whole in the store")
        if sealed.sha256 != digest:
            raise DigestMismatch(f"{ref.seal} is not the seal that was verified")
        return sealed

    def _go_on(self, done: int, total: int) -> None:  # noqa: ARG002  the shape of a progress callback
        if self._stop.is_set():
            raise Stopped
