"""Published test kits: what a backend, a hook or a plugin outside this repository is tested with.

`stitch.testing.store_contract` needs pytest, so it is imported by its own name.
"""

from stitch.testing.faulty import Call, Crashed, Fault, FaultyStore, Plan, by_chance, once, scripted

__all__ = ["Call", "Crashed", "Fault", "FaultyStore", "Plan", "by_chance", "once", "scripted"]
