"""A store that fails on purpose, on a script or by chance, for tests of everything above it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from stitch.errors import OutcomeUnknown, StoreUnavailable
from stitch.store.base import Entry, Mode, Progress, Store, Traits
from stitch.store.disk import sha256_file

Verb = Literal["stat", "list", "pull", "push", "now"]

Fault = Literal[
    "lose_request", "lose_reply", "unavailable", "stale_list", "flip", "crash_before", "crash_after"
]
"""What can go wrong with one call.

lose_request: it never arrives, and the caller cannot know. lose_reply: it is carried out, and the
caller cannot know. unavailable: the store says 503. stale_list: a list shows what this client saw
before. flip: a pull delivers one changed bit. crash_*: the process dies before or after the call.
"""


class Crashed(BaseException):
    """This process is dead: no `except Exception` may catch it. Drop every object it held."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the store.

    Attributes:
        number: how many calls came before it through this plan's store.
        verb: the method.
        key: the key or prefix.
    """

    number: int
    verb: Verb
    key: str


Plan = Callable[[Call], Fault | None]
"""Decides each call's fate."""


def scripted(faults: Mapping[int, Fault]) -> Plan:
    """Faults by call number."""
    return lambda call: faults.get(call.number)


def once(fault: Fault, *, verb: Verb, containing: str = "") -> Plan:
    """One fault, at the first call of that verb whose key contains the text."""
    left = [fault]

    def plan(call: Call) -> Fault | None:
        if left and call.verb == verb and containing in call.key:
            return left.pop()
        return None

    return plan


def by_chance(chance: random.Random, rates: Mapping[Fault, float]) -> Plan:
    """Faults with these probabilities a call; the same seed gives the same history."""

    def plan(call: Call) -> Fault | None:  # noqa: ARG001  every call alike
        drawn = chance.random()
        for fault, rate in rates.items():
            if drawn < rate:
                return fault
            drawn -= rate
        return None

    return plan


class FaultyStore:
    """One client's view of a store, with the faults of a plan.

    Args:
        inner: the store itself, shared by all clients.
        plan: asked once a call.
    """

    def __init__(self, inner: Store, plan: Plan) -> None:
        self._inner = inner
        self._plan = plan
        self._calls = 0
        self._listed: dict[str, tuple[Entry, ...]] = {}
        self._lock = threading.Lock()

    @property
    def traits(self) -> Traits:
        """The inner store's."""
        return self._inner.traits

    def stat(self, key: str) -> Entry | None:
        """See `Store.stat`."""
        fault = self._before("stat", key)
        answer = self._inner.stat(key)
        self._after(fault, key)
        return answer

    def list(self, prefix: str) -> Iterator[Entry]:
        """See `Store.list`."""
        fault = self._before("list", prefix)
        earlier = self._listed.get(prefix, ())
        fresh = tuple(self._inner.list(prefix))
        self._after(fault, prefix)
        if fault == "stale_list":
            return iter(earlier)
        self._listed[prefix] = fresh
        return iter(fresh)

    def pull(self, key: str, to: Path, *, unless: str = "", progress: Progress | None = None) -> Entry:
        """See `Store.pull`."""
        fault = self._before("pull", key)
        entry = self._inner.pull(key, to, unless=unless, progress=progress)
        self._after(fault, key)
        if fault == "flip" and entry.etag != unless and entry.size:
            content = bytearray(to.read_bytes())
            content[len(content) // 2] ^= 1
            to.write_bytes(content)
            return Entry(entry.key, entry.size, entry.etag, entry.modified, sha256_file(to))
        return entry

    def push(
        self, src: Path, key: str, *, mode: Mode, digest: str = "", progress: Progress | None = None
    ) -> Entry:
        """See `Store.push`."""
        fault = self._before("push", key)
        if fault == "lose_request":
            raise OutcomeUnknown(f"{key}: the connection broke")
        entry = self._inner.push(src, key, mode=mode, digest=digest, progress=progress)
        if fault == "lose_reply":
            raise OutcomeUnknown(f"{key}: the connection broke")
        self._after(fault, key)
        return entry

    def now(self) -> datetime:
        """See `Store.now`."""
        fault = self._before("now", "")
        answer = self._inner.now()
        self._after(fault, "")
        return answer

    def _before(self, verb: Verb, key: str) -> Fault | None:
        with self._lock:
            call = Call(self._calls, verb, key)
            self._calls += 1
            fault = self._plan(call)
        if fault == "crash_before":
            raise Crashed(f"before {verb} {key}")
        if fault == "unavailable" or (fault == "lose_request" and verb != "push"):
            raise StoreUnavailable(f"{verb} {key}: the store is busy")
        return fault

    def _after(self, fault: Fault | None, key: str) -> None:
        if fault == "crash_after":
            raise Crashed(f"after {key}")
        if fault == "lose_reply":
            raise StoreUnavailable(f"{key}: the connection broke")
