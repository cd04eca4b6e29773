"""What `clif-stitch commitment` shows: the data beside what was declared, and the opening of one leaf."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping

from stitch.layout import PassRef
from stitch.rounds.merkle import Opening

KIND = "stitch.opening/1"
"""Fields may be added under this number; none is renamed, removed or given another meaning."""


def standing_lines(root: str, declared: Mapping[PassRef, str]) -> Iterator[str]:
    """One line a declared pass: whether its data are those that are here now."""
    yield f"the data as they are now: {root}"
    for ref, said in declared.items():
        redo = f" (asked for again, {ref.attempt})" if ref.attempt else ""
        yield f"pass {ref.number}{redo}: " + ("the same data" if said == root else f"OTHER data, {said}")
    if not declared:
        yield "no pass of this site has declared any data yet"


def opening_json(opening: Opening) -> str:
    """The opening for an auditor; docs/protocol.md says how it is checked."""
    found = {
        "kind": KIND,
        "root": opening.root,
        "name": os.fsdecode(opening.name),
        "sha256": opening.content.hex(),
        "salt": opening.salt.hex(),
        "path": [{"side": side, "hash": beside.hex()} for side, beside in opening.path],
        "leaves": opening.count,
    }
    return json.dumps(found, indent=2) + "\n"
