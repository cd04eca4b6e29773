"""The work of `replay`: what is asked, where it goes, and that the run stays as it is."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from stitch.cli.sources import record_lanes
from stitch.client.keys import signing_of
from stitch.clock import SystemClock
from stitch.config import Settings
from stitch.errors import ConfigError
from stitch.hooks.runner import check_files
from stitch.proof.replay import Replay, check_apart
from stitch.proof.transcript import Transcript
from stitch.proof.workbench import Workbench
from stitch.store import parse_location

_PLAIN = re.compile(r"[^A-Za-z0-9]+")


def begin(
    settings: Settings, *, stop: threading.Event, without: str, aggregate: str, first: int, to: Path | None
) -> Replay:
    """A replay that may be run: everything that can be refused has been looked at, nothing was made.

    Raises:
        ConfigError: the question, the hook or the folder cannot be used.
        StoreError, ProtocolError: the run cannot be read.
    """
    if bool(without) == bool(aggregate):
        raise ConfigError(
            "say what to change: --without SITE, or --aggregate FILE:FN", hint="Give one of the two."
        )
    if aggregate:
        check_files(settings.root, aggregate)
    without = without.lower()
    change = f"without-{without}" if without else "with-" + _PLAIN.sub("-", aggregate).strip("-")
    folder = to.absolute() if to else settings.runs_dir / f"replay-{change}-from-{first}"
    check_apart(folder, settings.mirror_dir, *_store_folders(settings))
    lanes, _ = record_lanes(settings, clock=SystemClock(), stop=stop)
    record = Transcript(lanes, stop=stop, signing=signing_of(settings, reading=True))
    bench = Workbench(
        settings, lanes, manifest=record.chain.manifest.doc, aggregate=aggregate or None, stop=stop
    )
    work = Replay(record, bench, folder, without=without, aggregate=aggregate, first=first)
    work.check()
    return work


def _store_folders(settings: Settings) -> list[Path]:
    """Where the run lies, where a store is a folder."""
    urls = {settings.urls.global_, settings.urls.site, *settings.urls.lanes.values()} - {""}
    folders = [parse_location(url).folder for url in sorted(urls)]
    return [folder / settings.run_id for folder in folders if folder is not None]
