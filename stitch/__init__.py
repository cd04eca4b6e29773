"""clif-stitch: hospitals train one model together, through files in a store nobody has to run.

from stitch import Client, Status, run_local, run_lead
"""

from stitch.client import Client
from stitch.loops import Coordinator, Participant, run_lead, run_local
from stitch.sync.status import Status
from stitch.version import __version__

__all__ = ["Client", "Coordinator", "Participant", "Status", "__version__", "run_lead", "run_local"]
