"""The loops: idempotent steps of a site and of the lead, and the one place that waits between them."""

from stitch.loops.drive import Finished
from stitch.loops.entrances import run, run_lead, run_local, step
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.loops.roles import Coordinator, Participant

__all__ = [
    "Coordinator",
    "Finished",
    "Lead",
    "Local",
    "Participant",
    "run",
    "run_lead",
    "run_local",
    "step",
]
