"""Published test kits: what a backend, a hook or a plugin outside this repository is tested with.

`stitch.testing.store_contract` needs pytest, so it is imported by its own name.
"""

from stitch.testing.clocks import FakeClock
from stitch.testing.faulty import Call, Crashed, Fault, FaultyStore, Plan, by_chance, once, scripted
from stitch.testing.federation import AddOne, Federation
from stitch.testing.lines import Line, Record
from stitch.testing.processes import Delivery, Process

__all__ = [
    "AddOne",
    "Call",
    "Crashed",
    "Delivery",
    "FakeClock",
    "Fault",
    "FaultyStore",
    "Federation",
    "Line",
    "Plan",
    "Process",
    "Record",
    "by_chance",
    "once",
    "scripted",
]
