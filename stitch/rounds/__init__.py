"""Rounds: pure decisions. Values in, values out; no clock, file or store is touched here."""

from stitch.rounds.admission import NO_SAMPLES, Code, Reason, Started, Terms, unfit, unsigned, unused
from stitch.rounds.attempts import Attempt
from stitch.rounds.best import Best, Goal
from stitch.rounds.buffer import Buffer
from stitch.rounds.merkle import dataset_root, numbered
from stitch.rounds.policies import LATE, UNKNOWN, AllExpected, Buffered, ClosePolicy, Quorum, close_policy
from stitch.rounds.scores import weighted_means
from stitch.rounds.seeds import root_seed_of, round_seed
from stitch.rounds.states import EDGES, RoundFiles, RoundMachine, RoundState, derive
from stitch.rounds.verdict import Abort, Close, Done, Turn, Verdict, Wait
from stitch.rounds.view import RoundView

__all__ = [
    "EDGES",
    "LATE",
    "NO_SAMPLES",
    "UNKNOWN",
    "Abort",
    "AllExpected",
    "Attempt",
    "Best",
    "Buffer",
    "Buffered",
    "Close",
    "ClosePolicy",
    "Code",
    "Done",
    "Goal",
    "Quorum",
    "Reason",
    "RoundFiles",
    "RoundMachine",
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
    "unsigned",
    "unused",
    "weighted_means",
]
