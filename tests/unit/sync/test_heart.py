"""A heart beats on through whatever keeps one beat from being written, and stops when the lane is lost."""

from __future__ import annotations

import pytest

from stitch.errors import LaneLost, StitchError, StoreUnavailable
from stitch.sync.heart import Heart


class Lease:
    """Fails at each beat as it is told to."""

    lane = "sites/nu"

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def beat(self, state: str, pass_id: int | None) -> None:
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("error", "goes_on", "told"),
    [
        (None, True, None),
        (StoreUnavailable("no answer"), True, StoreUnavailable),
        (OSError(28, "No space left on device"), True, StoreUnavailable),
        (LaneLost("another term"), False, LaneLost),
    ],
)
def test_a_beat_that_fails_is_told_and_ends_nothing_but_a_lost_lane(
    error: Exception | None, goes_on: bool, told: type[StitchError] | None
) -> None:
    troubles: list[StitchError] = []
    heart = Heart(Lease(error), 60.0, on_trouble=troubles.append)  # type: ignore[arg-type]  # all a heart asks of it
    assert heart.beat() is goes_on
    assert [type(one) for one in troubles] == ([told] if told else [])
