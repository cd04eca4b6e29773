"""Keeps credentials out of every text a person or a log file may see."""

from __future__ import annotations

import logging
import re

_SECRETS = (
    (re.compile(r"(?i)([?&;\s\"']sig=|^sig=|%26sig%3D)[^&\s\"'<>;]+"), r"\1***"),
    (re.compile(r"(?i)\b(AccountKey|SharedAccessSignature|SharedAccessKey)=[^;\s\"']+"), r"\1=***"),
    (re.compile(r"(?i)\b(SharedKey(?:Lite)?\s+[^:\s]+:)[A-Za-z0-9+/=]+"), r"\1***"),
    (re.compile(r"(?i)\b(Bearer\s+)[A-Za-z0-9._~+/=-]{8,}"), r"\1***"),
    (re.compile(r"(?i)\b(https?://)[^/\s@:]+:[^\s@]+@"), r"\1***@"),
)


def redact(text: str) -> str:
    """The text without SAS signatures, account keys, bearer tokens and proxy passwords."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


class RedactingFilter(logging.Filter):
    """Redacts a record's finished message; attach it to handlers, so that every logger passes it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always keeps the record, without its secrets."""
        record.msg = redact(record.getMessage())
        record.args = None
        if record.exc_info and not record.exc_text:
            record.exc_text = redact(logging.Formatter().formatException(record.exc_info))
        return True
