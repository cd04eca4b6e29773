"""The loops: idempotent steps of a site and of the lead, and the one place that waits between them."""

from stitch.loops.drive import Finished, run, run_lead, run_local, step
from stitch.loops.lead import Lead
from stitch.loops.local import Local

__all__ = ["Finished", "Lead", "Local", "run", "run_lead", "run_local", "step"]
