"""Rounds: pure decisions. Values in, values out; no clock, file or store is touched here."""

from stitch.rounds.policies import AllExpected, ClosePolicy, close_policy
from stitch.rounds.seeds import root_seed_of, round_seed
from stitch.rounds.states import RoundFiles, RoundState, derive
from stitch.rounds.verdict import Abort, Close, Done, Turn, Verdict, Wait
from stitch.rounds.view import RoundView

__all__ = [
    "Abort",
    "AllExpected",
    "Close",
    "ClosePolicy",
    "Done",
    "RoundFiles",
    "RoundState",
    "RoundView",
    "Turn",
    "Verdict",
    "Wait",
    "close_policy",
    "derive",
    "root_seed_of",
    "round_seed",
]
