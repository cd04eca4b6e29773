"""A federation that closes rounds over two of three, and looks at what it wrote."""

from __future__ import annotations

from stitch import layout
from stitch.config.policy import Policy
from stitch.layout import PassRef
from stitch.testing.federation import Federation
from stitch.wire import Orchestration, RoundRecord, Verdict

OPEN_S, COLLECT_S = 600.0, 1800.0
TWO_OF_THREE = Policy(
    "quorum", min_participants=2, open_timeout=OPEN_S, collect_timeout=COLLECT_S, retry_budget=1
)


def elastic(federation: Federation) -> Federation:
    """The same, with that policy."""
    federation.changes["policy"] = TWO_OF_THREE
    return federation


def settle(federation: Federation, *, turns: int = 40) -> None:
    """Turns of everybody, until nobody acts any more; no time passes."""
    for _ in range(turns):
        turns_taken = [turn for one in federation.alive() for turn in one.turns()]
        if not any(turn is not None and turn.state == "acted" for turn in turns_taken):
            return
    raise AssertionError("they go on for ever")


def record_of(federation: Federation, number: int) -> RoundRecord:
    """The record of a global's round."""
    seal = federation.seal(PassRef(number))
    assert seal is not None
    assert seal.round is not None
    return seal.round


def verdict_of(federation: Federation, number: int, attempt: int) -> Verdict | None:
    """The verdict of an attempt, if there is one."""
    path = layout.verdict(number, attempt)
    data = federation.read(path)
    return None if data is None else Verdict.parse(data, source=path)


def published(federation: Federation) -> Orchestration:
    """What the lead published last."""
    return Orchestration.parse(federation.read(layout.orchestration()) or b"", source="orchestration")


def pass_time(federation: Federation, seconds: float) -> None:
    """Time, with turns in between as `drive` takes them."""
    for _ in range(int(seconds / 60)):
        federation.advance(60)
        settle(federation)


def inputs(record: RoundRecord) -> list[str]:
    """The sites that a round used."""
    return [one.site for one in record.inputs]


def start(federation: Federation, *sites: str) -> None:
    """A process of each, and turns until nobody acts."""
    for site in sites:
        federation.start(site)
    settle(federation)
