"""clif-stitch: hospitals train one model together, through files in a store nobody has to run.

from stitch import Client, Status, run_local, run_lead

The names are found when they are asked for (PEP 562): a hook that imports `stitch.learning` in its own
process must not pay for stores, documents and a terminal that it never uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stitch.client import Client
    from stitch.loops import Coordinator, Participant, run_lead, run_local
    from stitch.sync.status import Status
    from stitch.version import __version__

__all__ = ["Client", "Coordinator", "Participant", "Status", "__version__", "run_lead", "run_local"]

_HOMES = {
    "Client": "stitch.client",
    "Coordinator": "stitch.loops",
    "Participant": "stitch.loops",
    "Status": "stitch.sync.status",
    "__version__": "stitch.version",
    "run_lead": "stitch.loops",
    "run_local": "stitch.loops",
}


if not TYPE_CHECKING:  # a checker that saw it would take every name for a good one

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415 - where it is needed, as everything here

        value = globals()[name] = getattr(import_module(home), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
