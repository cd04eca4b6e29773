"""Writing a range while the next one is read and computed: checksum and disk need no answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from stitch.learning.specs import Array

_AHEAD = 2
"""Ranges that may wait: they stay in memory."""


class WriteBehind:
    """One thread that writes ranges in the order in which they were given; a context manager.

    It changes when a range is written, never what. Leaving it waits until nothing is under way, so that
    the file may be closed or removed.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="stitch-write")
        self._waiting: deque[Future[None]] = deque()

    def write(self, append: Callable[[Array], None], part: Array) -> None:
        """Have a range written; the caller does not touch it again.

        Raises:
            OSError, BadModel: an earlier range could not be written.
        """
        if len(self._waiting) == _AHEAD:
            self._waiting.popleft().result()
        self._waiting.append(self._pool.submit(append, part))

    def settle(self) -> None:
        """Wait until all ranges given are written.

        Raises:
            OSError, BadModel: one could not be.
        """
        while self._waiting:
            self._waiting.popleft().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
