"""From settings, or from functions, to a driven run: what `run`, `step` and a notebook call."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from stitch import layout
from stitch.client import Client, Listener, Setup
from stitch.client.tokens import TokenWatch
from stitch.config import Settings
from stitch.errors import ConfigError
from stitch.hooks import check_files
from stitch.hooks.call import HookName
from stitch.hooks.inline import FunctionRunner, HookFunction
from stitch.hooks.runner import HookRunner
from stitch.loops.drive import Finished, drive, loops_of, warn_of_tokens
from stitch.loops.local import Local
from stitch.mirror import Mirror
from stitch.rounds import Turn


def run(
    settings: Settings,
    *,
    stop: threading.Event,
    listeners: Sequence[Listener] = (),
    take_over: bool = False,
) -> Finished | None:
    """Work until the end marker; None when `stop` was set.

    Args:
        settings: this actor's; at the lead both loops run.
        stop: set it to end the hook, release the lanes and leave a resumable state.
        listeners: told of every step and transfer.
        take_over: claim a lane that another machine seems to hold.

    Raises:
        StitchError: a person is needed, or a passing trouble lasted for `give_up_after`.
    """
    require_hooks(settings)
    setup = Setup(stop=stop, listeners=listeners, take_over=take_over)
    return drive(Client(settings, setup))


def step(settings: Settings, *, stop: threading.Event, listeners: Sequence[Listener] = ()) -> Turn:
    """One turn of each loop of this actor, for cron and schedulers; the lane is released after it.

    Raises:
        StitchError: the turn failed.
        Stopped: `stop` was set.
    """
    require_hooks(settings)
    client = Client(settings, Setup(stop=stop, listeners=listeners, one_turn=True))
    try:
        warn_of_tokens(client, TokenWatch(client.clock))
        turns = [loop.step() for loop in loops_of(client)]
    finally:
        client.close()
    for state in ("acted", "waiting"):
        for turn in turns:
            if turn.state == state:
                return turn
    return turns[0]


def run_local(
    client: Client, train_fn: HookFunction | None = None, *, evaluate_fn: HookFunction | None = None
) -> Finished | None:
    """Drive one site's loop to the end of the run.

    Args:
        client: the site's.
        train_fn: called as `train_fn(global_path=, out_path=, data_dir=)` in this process; by
            default the project's own hook, in a child process.
        evaluate_fn: called as `evaluate_fn(global_path=, data_dir=)` on each global, likewise.
    """
    _use(client, {"train": train_fn, "evaluate": evaluate_fn})
    return drive(client, loops=[Local(client)])


def run_lead(
    client: Client,
    train_fn: HookFunction | None = None,
    aggregate_fn: HookFunction | None = None,
    *,
    evaluate_fn: HookFunction | None = None,
) -> Finished | None:
    """Drive the lead's loop, and its own training beside it, to the end of the run.

    Args:
        client: the lead's.
        train_fn: as for `run_local`; called with `global_path=None` for pass 0.
        aggregate_fn: called as `aggregate_fn(site_dir=, out_path=)` in this process.
        evaluate_fn: as for `run_local`.

    Raises:
        ConfigError: one function was given without the other, or the lead adds noise by itself.
    """
    if (train_fn is None) != (aggregate_fn is None):
        raise ConfigError("run_lead needs both functions or neither", hint="Give train_fn and aggregate_fn.")
    if aggregate_fn is not None and client.settings.privacy.mode == "central":
        raise ConfigError(
            'an aggregate function of your own cannot be used with privacy.mode = "central"',
            hint="The noise is told for the plain mean that clif-stitch takes itself: give no functions.",
        )
    _use(client, {"train": train_fn, "aggregate": aggregate_fn, "evaluate": evaluate_fn})
    return drive(client)


def _use(client: Client, functions: Mapping[HookName, HookFunction | None]) -> None:
    """Call these functions in place of the project's hooks; hooks without one run as they stand."""
    given = {name: function for name, function in functions.items() if function is not None}
    if not given:
        return
    if "evaluate" in given and client.settings.hooks.evaluate is None:  # the setting says that there is one
        hooks = replace(client.settings.hooks, evaluate="evaluate_fn")
        client.settings = replace(client.settings, hooks=hooks)
    client.runner = FunctionRunner(given, otherwise=HookRunner())


def require_hooks(settings: Settings) -> None:
    """Check that the files of this actor's hooks are there, before anything begins.

    A run that this mirror knows to be over needs none.

    Raises:
        ConfigError: one is not.
    """
    if Mirror(settings.mirror_dir).read(layout.done()) is not None:
        return
    hooks = settings.hooks
    everywhere = (hooks.train, hooks.evaluate, hooks.leaves, hooks.client, settings.privacy.pre_release)
    lead = (hooks.aggregate, hooks.strategy, hooks.pre_aggregate, hooks.evaluate_central)
    for spec in (*everywhere, *(lead if settings.is_lead else ())):
        if spec is not None:
            check_files(settings.root, spec)
