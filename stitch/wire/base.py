"""One JSON document a file: UTF-8, with its `kind`, unknown fields kept, newer majors refused.

Bytes in, frozen values out, and back. No file or store is touched here.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StringConstraints,
    ValidationError,
)

from stitch.errors import BadDocument, UnsupportedKind

MAX_BYTES = 4 * 1024 * 1024
"""A document above this is refused unread: hundreds of sites fit with room."""

MAX_DEPTH = 32
"""Deeper nesting than this is refused: no document of ours needs more than eight."""

MAX_VALUES = 100_000
"""More commas and opening brackets than this are refused: 4 MiB of `[],` would fill 100 MiB of memory."""

_KIND = re.compile(r"stitch\.([a-z_]{1,40})/([1-9][0-9]{0,8})")
_SHOWN = 120
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def _text(value: object) -> object:
    if not isinstance(value, str | datetime):
        raise ValueError("a time is text, as in 2026-01-31T12:00:00Z")  # noqa: TRY004  pydantic's contract
    return value


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time needs its zone, as in 2026-01-31T12:00:00Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time outside the years 1 to 9999") from None


Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""Lower-case hex SHA-256 of exact bytes."""

Time = Annotated[datetime, BeforeValidator(_text), AfterValidator(_utc)]
"""RFC 3339, UTC."""

SiteId = Annotated[str, StringConstraints(pattern=r"^[a-z](?:-?[a-z0-9])*$", max_length=40)]
"""1-40 of a-z0-9-, starting with a letter, no trailing or double hyphen."""


class Part(BaseModel):
    """A piece of a document: frozen, finite, keeping fields it does not know."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


class Document(Part):
    """One file. Subclasses set `NAME` and `MAJOR`; `kind` is "stitch.<name>/<major>"."""

    NAME: ClassVar[str] = ""
    MAJOR: ClassVar[int] = 1

    kind: str = ""

    @classmethod
    def make(cls, **fields: Any) -> Self:
        """Build a document of our own, with its `kind` filled in.

        Raises:
            BadDocument: a field is missing or wrong; here it is our own mistake.
        """
        return cls._validate({"kind": f"stitch.{cls.NAME}/{cls.MAJOR}", **fields}, "own document")

    @classmethod
    def parse(cls, data: bytes, *, source: str) -> Self:
        """Read a document.

        Args:
            data: the file's bytes; a UTF-8 BOM is accepted.
            source: the path, for error messages.

        Raises:
            BadDocument: not JSON, too large, too deep, or a field is missing or wrong.
            UnsupportedKind: a newer major version, or another document.
        """
        raw = _load(data, source)
        kind = raw.get("kind")
        found = _KIND.fullmatch(kind) if isinstance(kind, str) else None
        if found is None:
            raise BadDocument(f"{source}: no `kind` like stitch.{cls.NAME}/{cls.MAJOR}")
        if found[1] != cls.NAME:
            raise UnsupportedKind(f"{source}: is a stitch.{found[1]}, expected a stitch.{cls.NAME}")
        if int(found[2]) > cls.MAJOR:
            raise UnsupportedKind(f"{source}: {found[0]} is newer than this version reads (/{cls.MAJOR})")
        return cls._validate(raw, source)

    @classmethod
    def _validate(cls, raw: dict[str, Any], source: str) -> Self:
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(_shown(part) for part in first["loc"][:8]) or "document"
            raise BadDocument(f"{source}: {where}: {first['msg'][:_SHOWN]}") from None

    def dump(self) -> bytes:
        """The file's bytes: indented for a person's eyes, fields in the documented order."""
        text = json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False, allow_nan=False)
        return text.encode("utf-8") + b"\n"

    def agrees(self, other: Document) -> bool:
        """Equal outside `created_at`: what makes a repeated create of a singleton a success (law 1)."""
        return self.model_dump(mode="json", exclude={"created_at"}) == other.model_dump(
            mode="json", exclude={"created_at"}
        )


def sha256(data: bytes) -> str:
    """Lower-case hex SHA-256."""
    return hashlib.sha256(data).hexdigest()


def _load(data: bytes, source: str) -> dict[str, Any]:
    if len(data) > MAX_BYTES:
        raise BadDocument(f"{source}: {len(data)} bytes, more than a document may have ({MAX_BYTES})")
    if data.count(b",") + data.count(b"{") + data.count(b"[") > MAX_VALUES:
        raise BadDocument(f"{source}: more than {MAX_VALUES} values")
    if _depth(data) > MAX_DEPTH:
        raise BadDocument(f"{source}: nested deeper than {MAX_DEPTH}")
    try:
        text = data.decode("utf-8-sig")
        raw = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_once)
        if _ESCAPED_SURROGATE.search(data):
            json.dumps(raw, ensure_ascii=False).encode("utf-8")  # half a character: no writer could write it
    except UnicodeEncodeError:
        raise BadDocument(f"{source}: text with half a character (a lone surrogate)") from None
    except UnicodeDecodeError:
        raise BadDocument(f"{source}: not UTF-8") from None
    except (json.JSONDecodeError, RecursionError, ValueError) as error:
        raise BadDocument(f"{source}: not valid JSON, perhaps cut short ({_brief(error)})") from None
    if not isinstance(raw, dict):
        raise BadDocument(f"{source}: a JSON object was expected")
    return raw


def _depth(data: bytes) -> int:
    """An upper bound of the nesting, counted without parsing: brackets in strings count too."""
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return 0
    depth = deepest = 0
    in_string = escaped = False
    for byte in data:
        if in_string:
            escaped, in_string = byte == 0x5C and not escaped, byte != 0x22 or escaped
        elif byte == 0x22:
            in_string = True
        elif byte in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"}]":
            depth -= 1
    return deepest


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """A member given twice would mean one thing to us and another to the next reader."""
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("a name is given twice in one object")
    return found


def _finite(text: str) -> float:
    """1e999 would be read as infinity, which no writer could write again."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number beyond what a double holds")
    return value


def _shown(part: object) -> str:
    """A field's name as far as a line has room for it, and as a terminal can take it."""
    return str(part)[:_SHOWN].encode("unicode_escape").decode("ascii")[:_SHOWN]


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _brief(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}"
    return str(error)[:120].replace("\n", " ")
