"""Runs every check that the one before it left possible, in the order in which a person mends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from stitch.cli import (
    checks_classes,
    checks_privacy,
    checks_project,
    checks_rounds,
    checks_signing,
    checks_store,
)
from stitch.cli.checks import Check, fail, ok
from stitch.clock import Clock
from stitch.config import load_settings, require_urls
from stitch.config.settings import Settings
from stitch.errors import ConfigError, StitchError
from stitch.store.lanes import Lanes

LanesOf = Callable[[Settings, Clock], Lanes]


def examine(
    root: Path, environ: Mapping[str, str], *, clock: Clock, lanes_of: LanesOf = checks_store.doctor_lanes
) -> list[Check]:
    """Check the project at `root` for the site it is set up for. Never raises a `StitchError`.

    Args:
        root: the project folder.
        environ: the process environment.
        clock: this machine's clocks.
        lanes_of: how the stores are opened.
    """
    root = root.absolute()
    found: list[Check] = []
    try:
        settings = load_settings(root, environ)
    except ConfigError as error:
        return [fail("configuration", error), *checks_project.place(root), *checks_project.secret_file(root)]
    role = "lead" if settings.is_lead else "site"
    found.append(
        ok("configuration", f"{role} {settings.site} of {len(settings.sites)}, run {settings.run_id}")
    )
    for check in (
        lambda: checks_project.environment(settings, environ),
        lambda: checks_project.secret_file(root),
        lambda: checks_project.data_folder(settings),
        lambda: checks_project.hooks(settings),
        lambda: checks_rounds.stale_passes(settings),
        lambda: checks_classes.classes(settings),
        lambda: checks_classes.initial_model(settings),
        lambda: checks_project.pins(settings),
        lambda: checks_signing.key(settings),
        lambda: checks_privacy.budget(settings),
        lambda: checks_project.model_format(settings),
        lambda: checks_project.disk(settings),
        lambda: checks_project.place(root),
        lambda: checks_project.portable(root),
        lambda: checks_project.long_paths(settings),
        lambda: _stores(settings, clock, lanes_of),
    ):
        found += _caught(check)
    return found


def _caught(check: Callable[[], Iterable[Check]]) -> list[Check]:
    """The check's findings; an error ends it and is the last of them."""
    found: list[Check] = []
    try:
        found.extend(check())
    except StitchError as error:
        found.append(fail("store", error))
    return found


def _stores(settings: Settings, clock: Clock, lanes_of: LanesOf) -> Iterable[Check]:
    require_urls(settings)
    places = list(checks_store.places(settings))
    yield from places
    if any(check.exit_code == ConfigError.exit_code for check in places):
        return  # a URL or a proxy that cannot be used: there is nothing to ask
    lanes = lanes_of(settings, clock)
    try:
        ticks = list(checks_store.clocks(lanes, clock))
        now = lanes.now("global")
    except StitchError:
        ticks, now = [], clock.now()  # why the store does not answer is said lane by lane below
    yield from checks_store.tokens(settings, now)
    yield from checks_store.reach(settings, lanes)
    yield from checks_signing.listed(settings, lanes)
    yield from ticks
