"""Trying again: the one place where a store request is repeated, and where a lost reply is settled."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import tenacity

from stitch.errors import AlreadyExists, NotFound, OutcomeUnknown, StoreUnavailable
from stitch.files import scratch
from stitch.store.base import Entry, Match, Mode, Progress, Store, Traits
from stitch.store.disk import sha256_file

_log = logging.getLogger("stitch.store")
_Answer = TypeVar("_Answer")

_LONGEST = 60.0
"""Seconds between two tries at most, unless the store itself asks for more."""
_LONGEST_ASKED = 600.0
"""Seconds: a longer `Retry-After` is cut to this, so that `run` keeps showing life."""


class _Effort:
    """Counts the tries of one call since it last got further than ever before."""

    def __init__(self, max_retries: int, progress: Progress | None = None) -> None:
        self._max_retries = max_retries
        self._progress = progress
        self._furthest = self._counted = 0
        self._before = 0

    def hear(self, done: int, total: int) -> None:
        """Takes a transfer's progress and passes it on."""
        self._furthest = max(self._furthest, done)
        if self._progress:
            self._progress(done, total)

    def tries(self, state: tenacity.RetryCallState) -> int:
        """Failed tries that count, the one just made included."""
        if self._furthest > self._counted:
            self._counted = self._furthest
            self._before = state.attempt_number - 1
        return state.attempt_number - self._before

    def exhausted(self, state: tenacity.RetryCallState) -> bool:
        """Whether there is no try left."""
        return self.tries(state) > self._max_retries


class RetryingStore:
    """Repeats what may succeed later, and nothing else.

    `StoreUnavailable` is retried with exponential backoff and full jitter, or after what the
    store asked for. A push whose outcome is unknown is read back first (law 5). Refusals
    (`StoreDenied`, `NotFound`, `AlreadyExists`) pass through at once. A transfer that got further
    than ever before starts its budget anew: a long one over a bad line must not run out of tries.

    Args:
        store: the backend.
        max_retries: tries after the first one.
        backoff_seconds: the first pause; it doubles up to a minute. 0: no pause.
        stop: when set, a pause ends and the last error is raised.
    """

    def __init__(
        self,
        store: Store,
        *,
        max_retries: int = 5,
        backoff_seconds: float = 1.0,
        stop: threading.Event | None = None,
    ) -> None:
        self._store = store
        self._max_retries = max_retries
        self._backoff = backoff_seconds
        self._stop = stop or threading.Event()

    @property
    def traits(self) -> Traits:
        """The backend's."""
        return self._again("traits", lambda: self._store.traits)

    def stat(self, key: str) -> Entry | None:
        """See `Store.stat`."""
        return self._again(key, lambda: self._store.stat(key))

    def list(self, prefix: str) -> Iterator[Entry]:
        """See `Store.list`; read to its end before the first entry is given."""
        return iter(self._again(prefix, lambda: tuple(self._store.list(prefix))))

    def pull(self, key: str, to: Path, *, unless: str = "", progress: Progress | None = None) -> Entry:
        """See `Store.pull`."""
        effort = _Effort(self._max_retries, progress)
        return self._again(
            key, lambda: self._store.pull(key, to, unless=unless, progress=effort.hear), effort
        )

    def push(
        self, src: Path, key: str, *, mode: Mode, digest: str = "", progress: Progress | None = None
    ) -> Entry:
        """See `Store.push`. Finding our own bytes after our own failed try is success."""
        failed = unsettled = False
        effort = _Effort(self._max_retries, progress)

        def attempt() -> Entry:
            nonlocal failed, unsettled
            if unsettled:
                landed = self._read_back(src, key, mode)
                unsettled = False
                if landed:
                    return landed
            try:
                return self._store.push(src, key, mode=mode, digest=digest, progress=effort.hear)
            except OutcomeUnknown:
                failed = unsettled = True
                raise
            except StoreUnavailable:
                failed = True
                raise
            except AlreadyExists:
                landed = self._same_bytes(src, key) if failed else None
                if landed:
                    return landed
                raise

        try:
            return self._again(key, attempt, effort)
        except OutcomeUnknown:
            landed = self._again(key, lambda: self._read_back(src, key, mode))
            if landed:
                return landed
            raise

    def now(self) -> datetime:
        """See `Store.now`."""
        return self._again("now", self._store.now)

    def _again(self, what: str, act: Callable[[], _Answer], effort: _Effort | None = None) -> _Answer:
        effort = effort or _Effort(self._max_retries)

        def tell(state: tenacity.RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            pause = state.next_action.sleep if state.next_action else 0.0
            said = f"{what}: {error}" if "/" in what and what not in str(error) else str(error)
            _log.info("%s; trying again in %.0f s", said, pause, extra={"pause_s": pause})

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type((StoreUnavailable, OutcomeUnknown)),
            stop=lambda state: effort.exhausted(state) or self._stop.is_set(),
            wait=lambda state: self._pause(state, effort.tries(state)),
            sleep=tenacity.sleep_using_event(self._stop),
            before_sleep=tell,
            reraise=True,
        )
        return retrying(act)

    def _pause(self, state: tenacity.RetryCallState, tries: int) -> float:
        ceiling = min(_LONGEST, self._backoff * 2.0 ** min(tries - 1, 16))
        pause = random.uniform(ceiling / 2, ceiling)  # noqa: S311  spreads load, hides nothing
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, StoreUnavailable) else None
        return max(pause, min(asked, _LONGEST_ASKED)) if asked else pause

    def _read_back(self, src: Path, key: str, mode: Mode) -> Entry | None:
        """What a push with a lost reply did: the entry if it landed, None if it may be sent again.

        Raises:
            AlreadyExists: somebody else's bytes are there.
        """
        landed = self._same_bytes(src, key)
        if landed or mode == "replace":
            return landed
        present = self._store.stat(key)
        if mode == "create" and present:
            raise AlreadyExists(f"{key} is already in the store, with other bytes")
        if isinstance(mode, Match) and (present is None or present.etag != mode.etag):
            raise AlreadyExists(f"{key} is not the version that was read")
        return None

    def _same_bytes(self, src: Path, key: str) -> Entry | None:
        """The stored entry if it holds exactly the bytes of `src`."""
        present = self._store.stat(key)
        if present is None or present.size != src.stat().st_size:
            return None
        if present.digest is None:
            with scratch() as folder:
                try:
                    present = self._store.pull(key, folder / "read-back")
                except NotFound:
                    return None
        return present if present.digest == sha256_file(src) else None
