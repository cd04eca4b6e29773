"""What `verify` says of a federation's record, and a hand that alters it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from stitch.proof.transcript import Transcript
from stitch.proof.verify import Verification
from stitch.testing.federation import RUN_ID, Federation
from stitch.views.proof import Proof


def prove(federation: Federation) -> Proof:
    """`verify` holds the record to all that the protocol says."""
    return Verification(Transcript(federation.lanes())).run()


def alter(federation: Federation, path: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Somebody who can write the store changes a document."""
    raw = json.loads(federation.read(path) or b"")
    change(raw)
    held = federation.folder / "altered.json"
    held.write_text(json.dumps(raw), encoding="utf-8")
    federation.record.inner.push(held, f"{RUN_ID}/{path}", mode="replace")
