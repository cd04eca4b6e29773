"""The end of a run: what it must name, and hooks that need not go on (law 7: only DONE ends a run)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from stitch import layout
from stitch.client.actor import Actor
from stitch.errors import ProtocolError, Stopped, StoreError
from stitch.hooks.call import HookCall, HookResult
from stitch.mirror import Sealed
from stitch.wire import Done

_PATIENCE_S = 0.5
"""Seconds that a finished hook waits for a look at the end marker under way; it ends by itself later."""


class RunEnded(Exception):
    """The run was ended while a hook worked for it."""


class _Halt(threading.Event):
    """Set when the process is to stop, or when the run was ended."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def is_set(self) -> bool:
        return super().is_set() or self._stop.is_set()


@contextlib.contextmanager
def until_ended(client: Actor) -> Iterator[threading.Event]:
    """Look for the end marker every `poll_seconds` while the block works; what it yields is set by it.

    The event is also set when this process is to stop. Whoever works answers it with `Stopped`.

    Raises:
        RunEnded: the marker came, and the block stopped for it.
        Stopped: this process is to stop.
    """
    halt, finished = _Halt(client.stop), threading.Event()

    def watch() -> None:
        while not finished.wait(client.settings.poll_seconds):
            try:
                ended = client.documents.exists(layout.done())
            except StoreError:
                continue  # the loop meets the same trouble and tells it
            if ended:
                halt.set()
                return

    watcher = threading.Thread(target=watch, name="stitch-end-watch", daemon=True)
    watcher.start()
    try:
        yield halt
    except Stopped:
        if client.stop.is_set():
            raise
        raise RunEnded from None
    finally:
        finished.set()  # a store that hangs must not keep what was trained for hours from its seal
        watcher.join(_PATIENCE_S)


def run_hook(client: Actor, call: HookCall) -> HookResult:
    """Run a hook, and end it when the run was ended.

    Raises:
        RunEnded: the end marker came; the hook was ended.
        Stopped: this process is to stop.
        HookError: the hook failed.
    """
    with until_ended(client) as halt:
        return client.runner.run(call, stop=halt)


def check_end(done: Done, final: Sealed) -> None:
    """The end marker and the final global must agree.

    Raises:
        ProtocolError: the marker names another seal.
    """
    if done.final_metrics_sha256 != final.sha256:
        raise ProtocolError(
            f"the end marker names another global {final.ref.number} than the one in the store",
            hint="The store was altered: keep it as it is and show this line to the lead.",
        )
