"""One actor as a process of its own, as `clif-stitch run` is, with named points in its stores and mirror."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import threading
from pathlib import Path
from typing import cast
from unittest import mock

from stitch.client import Client, Setup
from stitch.client.lanes import open_lanes
from stitch.clock import SystemClock
from stitch.config import load_settings
from stitch.errors import StitchError
from stitch.loops.drive import drive
from stitch.store.lanes import Lanes
from stitch.store.retry import RetryingStore
from tests.e2e.breaking import Break, BreakingStore, Breaks


def main() -> int:
    """Work in the current folder until the run ends; the exit code that `run` would have."""
    wanted = argparse.ArgumentParser()
    wanted.add_argument("--break", dest="breaks", action="append", type=Break.parse, default=[])
    wanted.add_argument("--host", default=platform.node())
    wanted.add_argument("--take-over", action="store_true")
    args = wanted.parse_args()
    clock, stop = SystemClock(), threading.Event()
    settings = load_settings(Path.cwd(), os.environ)
    lanes = open_lanes(settings, clock=clock, stop=stop)
    breaks = Breaks(args.breaks)
    _break(lanes, breaks)
    setup = Setup(clock=clock, stop=stop, lanes=lanes, host=args.host, take_over=args.take_over)
    client = Client(settings, setup)
    with _landing(client, breaks):
        try:
            finished = drive(client)
        except StitchError as error:
            print(f"error: {error} ({error.hint})")
            return error.exit_code
    print(finished)
    return 0 if finished else 1


def _break(lanes: Lanes, breaks: Breaks) -> None:
    """Lay the named points beneath the retries of every store, once where lanes share one."""
    stores = {id(store): store for store in (*lanes.stores.values(), *lanes.heartbeats.values())}
    for store in stores.values():
        retrying = cast(RetryingStore, store)
        retrying._store = BreakingStore(retrying._store, breaks)


def _landing(client: Client, breaks: Breaks) -> mock._patch[object]:
    """The named points around the rename that makes a pass appear in the mirror."""
    land = client.mirror._land

    def landing(folder: Path, target: Path) -> None:
        breaks.at("land", target.as_posix(), when="before")
        land(folder, target)
        breaks.at("land", target.as_posix(), when="after")

    return mock.patch.object(client.mirror, "_land", landing)


if __name__ == "__main__":
    sys.exit(main())
