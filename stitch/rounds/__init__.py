"""Rounds: pure decisions. Values in, values out; no clock, file or store is touched here."""

from stitch.rounds.admission import Code, Reason, Started, Terms, unfit, unused
from stitch.rounds.merkle import dataset_root, numbered
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
    "Code",
    "Done",
    "Reason",
    "RoundFiles",
    "RoundState",
    "RoundView",
    "Started",
    "Terms",
    "Turn",
    "Verdict",
    "Wait",
    "close_policy",
    "dataset_root",
    "derive",
    "numbered",
    "root_seed_of",
    "round_seed",
    "unfit",
    "unused",
]
