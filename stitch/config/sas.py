"""What a SAS token says about itself, read from the URL without asking anyone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qs, unquote, urlsplit

_RESOURCES = {"c": "container", "b": "one blob", "d": "directory", "bs": "snapshot", "bv": "blob version"}


@dataclass(frozen=True, slots=True)
class SasFacts:
    """A store URL's place and what its token allows. Holds no part of the signature.

    Attributes:
        host: the service's host, "" for a folder.
        container: the container's name, "" when the URL names none.
        prefix: the rest of the path.
        signed: whether there is a token at all.
        starts: not valid before; None when it does not say.
        expires: not valid after; None when it does not say (a stored policy does).
        permissions: letters such as "rcl"; "" when a stored policy says.
        scope: "container", "one blob", "directory", "account", ….
        protocol: "https" or "https,http".
        ip: the address or range it is bound to, "" for any.
        policy: the stored policy's name, "" for none.
        delegated: signed with a user's key (Entra) instead of the account's.
    """

    host: str = ""
    container: str = ""
    prefix: str = ""
    signed: bool = False
    starts: datetime | None = None
    expires: datetime | None = None
    permissions: str = ""
    scope: str = ""
    protocol: str = ""
    ip: str = ""
    policy: str = ""
    delegated: bool = False

    def lacks(self, needed: str) -> str:
        """The letters of `needed` that the token lacks; write includes create. "" if a policy decides."""
        if not self.signed or not self.permissions:
            return ""
        held = self.permissions + ("c" if "w" in self.permissions else "")
        return "".join(letter for letter in needed if letter not in held)


def describe_sas(url: str) -> SasFacts:
    """Take a store URL apart. An unsigned URL or a folder gives facts with `signed` false."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https", "az"):
        return SasFacts()
    pieces = [unquote(piece) for piece in parts.path.split("/") if piece]
    if pieces and pieces[0] == "devstoreaccount1":  # an emulator has the account in the path
        pieces.pop(0)
    fields = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return SasFacts(
        host=(parts.hostname or "").lower(),
        container=pieces[0] if pieces else "",
        prefix="/".join(pieces[1:]),
        signed="sig" in fields,
        starts=_time(fields.get("st", "")),
        expires=_time(fields.get("se", "")),
        permissions=fields.get("sp", ""),
        scope="account" if "srt" in fields else _RESOURCES.get(fields.get("sr", ""), fields.get("sr", "")),
        protocol=fields.get("spr", ""),
        ip=fields.get("sip", ""),
        policy=fields.get("si", ""),
        delegated="skoid" in fields,
    )


def _time(text: str) -> datetime | None:
    """A SAS time, which may be a date alone or lack seconds; UTC."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
