"""What Azure's answers say about a blob, as our entries."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from azure.core.exceptions import HttpResponseError

from stitch.store.base import Entry

DIGEST_NAME = "sha256"
"""The metadata name under which each blob carries the hash of its content."""


def entry_of(key: str, found: Any) -> Entry:
    """The entry of a blob's properties."""
    return Entry(
        key=key,
        size=int(found.size),
        etag=plain(found.etag),
        modified=found.last_modified.astimezone(UTC),
        digest=(found.metadata or {}).get(DIGEST_NAME),
    )


def written_entry(key: str, *, size: int, digest: str, answer: dict[str, Any]) -> Entry:
    """The entry of a blob that was just written."""
    return Entry(
        key=key,
        size=size,
        etag=plain(answer["etag"]),
        modified=answer["last_modified"].astimezone(UTC),
        digest=digest,
    )


def plain(etag: str) -> str:
    """An etag without quotes: lists give it bare, other answers quoted."""
    return etag.removeprefix("W/").strip('"')


def error_code(error: HttpResponseError) -> str:
    """The service's own name for what went wrong, or ""."""
    response: Any = error.response
    headers = response.headers if response is not None else {}
    return str(headers.get("x-ms-error-code") or getattr(error, "error_code", "") or "")
