"""A round's state follows from its files alone."""

from __future__ import annotations

import itertools

import pytest

from stitch.errors import RoundError
from stitch.rounds import EDGES, RoundFiles, RoundMachine, RoundState, derive


@pytest.mark.parametrize(
    ("files", "state"),
    [
        (RoundFiles(), RoundState.OPEN),
        (RoundFiles(started=1, needed=2), RoundState.OPEN),
        (RoundFiles(started=2, needed=2), RoundState.COLLECTING),
        (RoundFiles(started=2, closed=True), RoundState.AGGREGATING),
        (RoundFiles(closed=True, candidate=True), RoundState.COMMITTING),
        (RoundFiles(closed=True, candidate=True, sealed=True), RoundState.CLOSED),
        (RoundFiles(aborted=True), RoundState.ABORTED),
        (RoundFiles(closed=True, candidate=True, aborted=True), RoundState.ABORTED),
    ],
)
def test_the_state_is_what_the_files_say(files: RoundFiles, state: RoundState) -> None:
    assert derive(files) is state


def test_a_sealed_global_overrules_everything_else() -> None:
    """Law 2: also an abort of its round."""
    for aborted, closed, candidate in itertools.product((False, True), repeat=3):
        files = RoundFiles(sealed=True, aborted=aborted, closed=closed, candidate=candidate)
        assert derive(files) is RoundState.CLOSED


def test_a_candidate_without_a_verdict_is_no_progress() -> None:
    """It was made for an attempt that is over, or by another process."""
    assert derive(RoundFiles(candidate=True)) is RoundState.OPEN


FORWARD = [state for state in RoundState if state is not RoundState.ABORTED]
LEGAL = {*itertools.pairwise(FORWARD), *((state, RoundState.ABORTED) for state in FORWARD[:-1])}


def test_the_happy_path_visits_every_state_but_one() -> None:
    machine = RoundMachine(1, 0)
    for state in FORWARD[1:]:
        assert not machine.ended
        machine.to(state)
    assert machine.ended


@pytest.mark.parametrize(("here", "there"), list(itertools.product(RoundState, RoundState)))
def test_only_the_edges_of_the_rfc_can_be_walked(here: RoundState, there: RoundState) -> None:
    machine = RoundMachine(4, 2, state=here)
    if (here, there) in LEGAL:
        machine.to(there)
        assert machine.state is there
    else:
        with pytest.raises(RoundError, match="round 4, attempt 2"):
            machine.to(there)
        assert machine.state is here


def test_nothing_follows_what_has_ended() -> None:
    assert [state for state in RoundState if not EDGES[state]] == [RoundState.CLOSED, RoundState.ABORTED]


@pytest.mark.parametrize(("here", "there"), list(itertools.product(RoundState, RoundState)))
def test_what_another_process_did_is_adopted_and_never_undone(here: RoundState, there: RoundState) -> None:
    machine = RoundMachine(1, 0, state=here)
    machine.adopt(there)
    assert machine.state is max(here, there, key=list(RoundState).index)
