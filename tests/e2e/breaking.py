"""Named points at which an actor is killed or frozen, or its store refuses, without a flag in the product."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from stitch.errors import StoreUnavailable
from stitch.store.base import Entry, Mode, Progress, Store, Traits


@dataclass(frozen=True, slots=True)
class Break:
    """One named point, and what happens there.

    Attributes:
        verb: the store's method, or "land": a sealed pass folder is renamed into the mirror.
        key: a regular expression found in the key, which begins with the run's id.
        when: before or after the call.
        nth: which of the calls that match, from 1.
        do: kill: SIGKILL to this process. freeze: SIGSTOP to it, as a lid that is closed. refuse:
            this and later matching calls, `times` in all, find the store unavailable.
        times: see `refuse`.
    """

    verb: Literal["stat", "list", "pull", "push", "land"]
    key: str
    when: Literal["before", "after"] = "before"
    nth: int = 1
    do: Literal["kill", "freeze", "refuse"] = "kill"
    times: int = 10**9

    def dump(self) -> str:
        """For a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Break:
        """`dump`, read back."""
        return cls(**json.loads(text))


class Breaks:
    """Counts the calls that match each named point, over all lanes and threads."""

    def __init__(self, breaks: list[Break]) -> None:
        self._breaks = breaks
        self._met = [0] * len(breaks)
        self._lock = threading.Lock()

    def at(self, verb: str, key: str, *, when: str) -> None:
        """Told of every call, before and after it."""
        with self._lock:
            due = [spot for n, spot in enumerate(self._breaks) if self._meets(n, verb, key, when)]
        for spot in due:
            if spot.do == "refuse":
                raise StoreUnavailable(f"{key}: the line is down")
            os.kill(os.getpid(), signal.SIGKILL if spot.do == "kill" else signal.SIGSTOP)

    def _meets(self, number: int, verb: str, key: str, when: str) -> bool:
        spot = self._breaks[number]
        if (spot.verb, spot.when) != (verb, when) or not re.search(spot.key, key):
            return False
        self._met[number] += 1
        met = self._met[number]
        return spot.nth <= met < spot.nth + (spot.times if spot.do == "refuse" else 1)


class BreakingStore:
    """A store whose calls pass the named points; it lies beneath the retries."""

    def __init__(self, inner: Store, breaks: Breaks) -> None:
        self._inner = inner
        self._breaks = breaks

    @property
    def traits(self) -> Traits:
        """The inner store's."""
        return self._inner.traits

    def stat(self, key: str) -> Entry | None:
        """See `Store.stat`."""
        self._breaks.at("stat", key, when="before")
        answer = self._inner.stat(key)
        self._breaks.at("stat", key, when="after")
        return answer

    def list(self, prefix: str) -> Iterator[Entry]:
        """See `Store.list`."""
        self._breaks.at("list", prefix, when="before")
        answer = tuple(self._inner.list(prefix))
        self._breaks.at("list", prefix, when="after")
        return iter(answer)

    def pull(self, key: str, to: Path, *, unless: str = "", progress: Progress | None = None) -> Entry:
        """See `Store.pull`."""
        self._breaks.at("pull", key, when="before")
        entry = self._inner.pull(key, to, unless=unless, progress=progress)
        self._breaks.at("pull", key, when="after")
        return entry

    def push(
        self, src: Path, key: str, *, mode: Mode, digest: str = "", progress: Progress | None = None
    ) -> Entry:
        """See `Store.push`."""
        self._breaks.at("push", key, when="before")
        entry = self._inner.push(src, key, mode=mode, digest=digest, progress=progress)
        self._breaks.at("push", key, when="after")
        return entry

    def now(self) -> datetime:
        """See `Store.now`."""
        return self._inner.now()
