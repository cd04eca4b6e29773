"""A store that does not answer, told while it is asked again: a person must not look at an empty screen."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from stitch.cli.progress import STORE
from stitch.client import Listener
from stitch.client.journal import Note
from stitch.store.secrets_filter import RedactingFilter

_LOGGER = "stitch.store"
_WORTH_S = 1.0
"""Seconds of a pause: a shorter one is over before its line is read."""


class _Teller(logging.Handler):
    """Hands each line on a coming pause to a person."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._tell = tell
        self.addFilter(RedactingFilter())

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        if getattr(record, "pause_s", 0.0) >= _WORTH_S:
            self._tell(record.getMessage())


@contextmanager
def retries_told(tell: Callable[[str], None]) -> Iterator[None]:
    """As long as it lasts, `tell` gets a line for every pause of a second or more before another try.

    Whoever was told before is told again afterwards.

    Args:
        tell: called from any thread.
    """
    logger = logging.getLogger(_LOGGER)
    level, others = logger.level, [one for one in logger.handlers if isinstance(one, _Teller)]
    teller = _Teller(tell)
    for one in others:
        logger.removeHandler(one)
    logger.addHandler(teller)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(teller)
        for one in others:
            logger.addHandler(one)


def to_listener(listener: Listener) -> Callable[[str], None]:
    """A `tell` that shows its lines where the work is shown."""
    return lambda text: listener(Note(datetime.now(UTC), STORE, "retry", text))
