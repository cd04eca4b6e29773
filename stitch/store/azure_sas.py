"""What a SAS token says about itself, read without asking Azure and without ever showing its signature."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import parse_qsl

Need = Literal["read", "list", "create", "overwrite"]

_NEEDS: dict[Need, tuple[str, str]] = {
    "read": ("r", "reading files needs r"),
    "list": ("l", "listing needs l"),
    "create": ("cw", "creating files needs c (large ones on an emulator w)"),
    "overwrite": ("w", "overwriting the heartbeat needs w"),
}
_SCOPES = {
    "c": "one container",
    "b": "a single file",
    "d": "one folder",
    "bs": "a snapshot",
    "bv": "a version",
}


@dataclass(frozen=True, slots=True)
class SasFacts:
    """A token's readable fields. It holds no signature.

    Attributes:
        expires: end of validity; None when a stored access policy on the container says it.
        starts: begin of validity, when given.
        permissions: letters such as "rcwl"; "" when a stored access policy says them.
        scope: what it covers, in words.
        https_only: whether plain HTTP is refused.
        addresses: the IP range it is bound to, or "".
        policy: the name of the stored access policy, or "".
    """

    expires: datetime | None
    starts: datetime | None
    permissions: str
    scope: str
    https_only: bool
    addresses: str
    policy: str

    def allows(self, need: Need) -> bool | None:
        """Whether the permissions suffice; None when a stored policy holds them."""
        if not self.permissions:
            return None
        return any(letter in self.permissions for letter in _NEEDS[need][0])


def read_sas(token: str) -> SasFacts | None:
    """Takes a SAS token apart, or returns None when it is none."""
    fields = dict(parse_qsl(token.lstrip("?"), keep_blank_values=True))
    if "sig" not in fields:
        return None
    account_wide = "ss" in fields
    return SasFacts(
        expires=_when(fields.get("se", "")),
        starts=_when(fields.get("st", "")),
        permissions=fields.get("sp", ""),
        scope="the whole account" if account_wide else _SCOPES.get(fields.get("sr", ""), "unknown"),
        https_only=fields.get("spr", "") == "https",
        addresses=fields.get("sip", ""),
        policy=fields.get("si", ""),
    )


def explain_refusal(token: str, *, at: datetime, need: Need, code: str) -> tuple[str, str]:
    """Why Azure most likely answered 401 or 403: (cause, hint).

    Azure answers an expired, a not yet valid, a mistyped and a foreign token alike, so the
    token's own fields and the store's clock tell them apart.

    Args:
        token: the SAS token in use; "" with an account key or a sign-in.
        at: the store's time of the refusal.
        need: what was tried.
        code: Azure's error code.
    """
    facts = read_sas(token)
    if facts is None:
        return (
            f"the store refused the credential ({code})",
            "Check the account key, or the role of the sign-in.",
        )
    if facts.expires and at >= facts.expires:
        return (
            f"the SAS token expired at {_minute(facts.expires)}; the store's clock says {_minute(at)}",
            "Ask the lead for a new store URL and put it into .env.",
        )
    if facts.starts and at < facts.starts:
        return (
            f"the SAS token is valid from {_minute(facts.starts)} on; the store's clock says {_minute(at)}",
            "Wait until then, or ask the lead for a token without a start time.",
        )
    if code == "AuthorizationProtocolMismatch":
        return "the SAS token allows HTTPS only", "Use the https:// form of the store URL."
    if code == "AuthorizationSourceIPMismatch":
        return (
            f"the SAS token is bound to the addresses {facts.addresses or '(unknown)'}, and ours is another",
            "Ask the lead for a token for this site's outgoing address.",
        )
    if code == "AuthorizationPermissionMismatch" or facts.allows(need) is False:
        return (
            f"the SAS token permits '{facts.permissions or facts.policy}', but {_NEEDS[need][1]}",
            "Ask the lead for a store URL with that permission.",
        )
    if facts.policy:
        return (
            f"the SAS token's access policy {facts.policy!r} ended or was withdrawn ({code})",
            "Ask the lead for a new store URL and put it into .env.",
        )
    return (
        f"the SAS token's signature is wrong, or it was made for another container ({code})",
        "Copy the whole store URL again, in quotes; if it fails again ask the lead for a new one.",
    )


def _minute(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _when(text: str) -> datetime | None:
    """A SAS time: a date alone, minutes, or seconds, always UTC."""
    if not re.match(r"\d{4}-\d{2}-\d{2}", text):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
