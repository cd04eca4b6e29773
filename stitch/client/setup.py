"""What an actor is built from where it is not built from its project folder."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from stitch.client.journal import Listener
from stitch.clock import Clock, SystemClock
from stitch.hooks.call import HookCall, HookResult
from stitch.mirror import Mirror
from stitch.store.lanes import Lanes
from stitch.sync.heart import Heart


class Runner(Protocol):
    """Runs a hook: `HookRunner` in a child process, `FunctionRunner` in this one."""

    def run(
        self,
        call: HookCall,
        *,
        stop: threading.Event | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> HookResult:
        """Run the hook and check what it gave back."""
        ...

    def end_survivor(self, work_dir: Path) -> bool:
        """End a hook that an earlier process left running there; whether there was one."""
        ...


@dataclass(slots=True)
class Setup:
    """What an actor is built from where it is not built from its project folder.

    Attributes:
        clock: this machine's clocks.
        stop: set to end waits, transfers' retries and running hooks.
        listeners: told of every note.
        lanes: opened stores, instead of those of the settings' URLs.
        runner: runs hooks.
        mirror: the mirror to work in, instead of the settings' folder.
        heart: makes what beats for a lane; `Heart` has a thread of its own.
        readers: how many lanes the lead looks at side by side.
        host: this machine's name, one half of who we are (law 10).
        take_over: claim lanes that somebody seems to hold.
        one_turn: this process ends after a turn, and the next one goes on: a scheduler's.
        environ: the process environment, for reading `.env` anew.
    """

    clock: Clock = field(default_factory=SystemClock)
    stop: threading.Event = field(default_factory=threading.Event)
    listeners: Sequence[Listener] = ()
    lanes: Lanes | None = None
    runner: Runner | None = None
    mirror: Mirror | None = None
    heart: Callable[..., Heart] = Heart
    readers: int = 8
    host: str = field(default_factory=platform.node)
    take_over: bool = False
    one_turn: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
