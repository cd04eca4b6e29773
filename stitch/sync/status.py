"""The result of a transfer: what the loops branch on."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """What a transfer came to. Expected outcomes are one of these; exceptions need a person."""

    UPLOADED = "uploaded"
    """The push succeeded."""
    DOWNLOADED = "downloaded"
    """The pull fetched a new pass."""
    NO_NEW_PASS = "no_new_pass"
    """Nothing whole is there yet: look again later."""
    FAILED = "failed"
    """Given up after `transfer.max_retries`."""
    RUN_COMPLETE = "run_complete"
    """The end marker is there, and the wanted pass lies beyond the final one."""
    ALREADY_SYNCED = "already_synced"
    """Both sides have it: skipped."""
    HELD = "held"
    """Sealed here and not sent: a person must approve it first (`[egress] outbox = "review"`)."""
    CONFLICT = "conflict"
    """Something else is sealed under that name; nothing was overwritten."""
