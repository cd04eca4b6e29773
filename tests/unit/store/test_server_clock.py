"""The store's clock is carried on, never back, and not across a machine's sleep (law 6)."""

from datetime import UTC, datetime, timedelta

from stitch.store.server_clock import ServerClock

START = datetime(2026, 11, 29, 12, tzinfo=UTC)


class _Machine:
    """Wall and monotonic clock, apart from each other."""

    def __init__(self) -> None:
        self.wall, self.ticks = datetime(1999, 1, 1, tzinfo=UTC), 0.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.ticks

    def run(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.ticks += seconds

    def suspend(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)


def _heard() -> tuple[_Machine, ServerClock]:
    machine = _Machine()
    clock = ServerClock(machine)
    clock.hear(START)
    return machine, clock


def test_nothing_heard_nothing_known() -> None:
    assert ServerClock(_Machine()).now() is None


def test_time_passed_is_added_whatever_our_own_clock_says() -> None:
    machine, clock = _heard()
    machine.run(10.5)
    assert clock.now() == START + timedelta(seconds=10.5)


def test_a_reading_is_not_trusted_for_long() -> None:
    machine, clock = _heard()
    machine.run(61)
    assert clock.now() is None


def test_a_machine_that_slept_asks_again() -> None:
    machine, clock = _heard()
    machine.suspend(3600)
    machine.run(1)
    assert clock.now() is None


def test_a_date_cut_to_the_second_does_not_turn_time_back() -> None:
    machine, clock = _heard()
    machine.run(10.7)
    clock.hear(START + timedelta(seconds=10))
    assert clock.now() == START + timedelta(seconds=10.7)
    clock.hear(START + timedelta(seconds=5))
    assert clock.now() == START + timedelta(seconds=5), "a clock that was set back is believed"
