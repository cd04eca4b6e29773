"""`round.json`: what a round says of one of its inputs, for the aggregate hook (docs/hooks.md)."""

from __future__ import annotations

import json

from stitch import layout
from stitch.wire import Input, Seal


def round_json(seal: Seal, said: Input | None = None) -> bytes:
    """The file's bytes; it lies beside the seal, which stays the site's own word byte for byte.

    Args:
        seal: of the site pass.
        said: what the round records of it; without one it is fresh and of full weight.
    """
    facts = {
        "site": layout.lane_site(seal.lane),
        "base_pass": seal.base_pass,
        "staleness": said.staleness if said else 0,
        "weight": 1.0 if said is None or said.weight is None else said.weight,
    }
    return (json.dumps(facts) + "\n").encode("utf-8")
