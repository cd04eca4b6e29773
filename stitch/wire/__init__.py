"""The documents of the protocol, one a file. See docs/protocol.md."""

from stitch.wire.base import MAX_BYTES, Document, sha256
from stitch.wire.documents import (
    Directive,
    Done,
    EventDoc,
    Heartbeat,
    Join,
    Manifest,
    Orchestration,
    Phase,
    Roster,
    RosterSite,
    Term,
)
from stitch.wire.seal import (
    Abort,
    Attachment,
    Evaluated,
    Excluded,
    Input,
    RoundRecord,
    Scalar,
    Score,
    Seal,
    Verdict,
    is_config_name,
)
from stitch.wire.signature import Signature

__all__ = [
    "MAX_BYTES",
    "Abort",
    "Attachment",
    "Directive",
    "Document",
    "Done",
    "Evaluated",
    "EventDoc",
    "Excluded",
    "Heartbeat",
    "Input",
    "Join",
    "Manifest",
    "Orchestration",
    "Phase",
    "Roster",
    "RosterSite",
    "RoundRecord",
    "Scalar",
    "Score",
    "Seal",
    "Signature",
    "Term",
    "Verdict",
    "is_config_name",
    "sha256",
]
