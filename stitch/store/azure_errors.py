"""What the Azure SDK and the network raise, told as one of our errors with a cause and a cure."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
)
from urllib3.exceptions import NameResolutionError

from stitch.errors import (
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    StoreDenied,
    StoreError,
    StoreMissing,
    StoreUnavailable,
)
from stitch.store.azure_sas import Need, explain_refusal
from stitch.store.secrets_filter import redact

_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_MAYBE_DONE = frozenset({408, 500, 502, 504})
"""Answers after which a write may have been carried out all the same; 429 and 503 say it was not."""
_MISSING_CONTAINER = frozenset({"ContainerNotFound", "ContainerBeingDeleted", "ContainerDisabled"})
_TAKEN = frozenset({"BlobAlreadyExists", "BlobImmutableDueToPolicy", "UnauthorizedBlobOverwrite"})


@dataclass(frozen=True, slots=True)
class Scene:
    """What was going on when a request failed.

    Attributes:
        what: the act and key, for people: "push run/global/DONE.json".
        need: the permission it needs.
        place: account, container and prefix, without the token.
        container: its name.
        host: the address that was called.
        proxy: the proxy in use, without its password, or "".
        token: the SAS token in use, never shown.
        api_version: the service version we ask for.
        visible_write: the request, if carried out, changed what readers see.
        issuer: finds who issued the certificate the address shows.
    """

    what: str
    need: Need
    place: str
    container: str
    host: str
    proxy: str
    token: str
    api_version: str
    issuer: Callable[[], str]
    visible_write: bool = False


def translate(error: BaseException, scene: Scene) -> StoreError:
    """The error to raise instead of what the SDK raised."""
    if isinstance(error, HttpResponseError) and getattr(error.response, "status_code", None):
        return _from_answer(error, scene)
    if isinstance(error, ClientAuthenticationError):
        return StoreDenied(
            f"{scene.what}: the sign-in to Azure failed: {_first_line(error)}",
            hint="Run `az login`, or put a store URL with a SAS token into .env.",
        )
    return _from_network(error, scene)


def _from_answer(error: HttpResponseError, scene: Scene) -> StoreError:
    response: Any = error.response
    status = int(response.status_code)
    code = str(response.headers.get("x-ms-error-code") or getattr(error, "error_code", "") or status)
    said = f"{scene.what}: {status} {code}"
    if status == 407:
        return _proxy_wants_login(scene)
    if status == 412 or (status in (403, 409) and code in _TAKEN):
        return AlreadyExists(f"{scene.what}: already in the store, or not the version that was read")
    if status in (401, 403):
        cause, hint = explain_refusal(scene.token, at=_answered_at(response), need=scene.need, code=code)
        return StoreDenied(f"{scene.what}: {cause}", hint=hint)
    if code in _MISSING_CONTAINER or (status == 404 and code in ("404", "ResourceNotFound")):
        return StoreMissing(
            f"the container {scene.container} does not exist in {scene.place}",
            hint="Check the container's name in the store URL; the lead creates the container once.",
        )
    if status == 404:
        return NotFound(f"{scene.what}: not in the store")
    if status in _BUSY:
        if scene.visible_write and status in _MAYBE_DONE:
            return OutcomeUnknown(f"{said}: it may have been carried out")
        return StoreUnavailable(said, retry_after=_retry_after(response))
    if code in ("Md5Mismatch", "Crc64Mismatch"):
        return StoreUnavailable(f"{said}: the bytes were damaged on their way")
    if code == "InvalidHeaderValue" and scene.api_version in _text(error):
        return StoreError(
            f"{scene.place} does not speak the Azure Storage version {scene.api_version}",
            hint="An emulator: update it (Azurite 3.37 or newer). A proxy or gateway: ask its owner.",
        )
    return StoreError(redact(f"{said}: {_first_line(error)}"))


def _from_network(error: BaseException, scene: Scene) -> StoreError:
    chain = list(_chain(error))
    text = " ".join(str(link) for link in chain)
    if any(isinstance(link, ssl.SSLCertVerificationError) for link in chain):
        return _untrusted(chain, scene)
    if "407" in text and "roxy" in text:
        return _proxy_wants_login(scene)
    if scene.proxy and ("Unable to connect to proxy" in text or "Tunnel connection failed" in text):
        return StoreUnavailable(
            f"{scene.what}: the proxy {scene.proxy} does not let us through: {_last_words(chain)}",
            hint="Check HTTPS_PROXY, and that the proxy allows " + scene.host + ".",
        )
    if any(isinstance(link, NameResolutionError | socket.gaierror) for link in chain):
        return StoreUnavailable(
            f"{scene.what}: the name {scene.host} cannot be resolved",
            hint="Check the account in the store URL, the network, and if a proxy is needed (HTTPS_PROXY).",
        )
    if any(isinstance(link, ConnectionRefusedError) for link in chain):
        return StoreUnavailable(
            f"{scene.what}: {scene.host} refuses connections",
            hint="Is the address right, and does the firewall allow it? A proxy may be needed (HTTPS_PROXY).",
        )
    never_sent = isinstance(error, ServiceRequestError)
    if scene.visible_write and not never_sent:
        return OutcomeUnknown(f"{scene.what}: the connection broke before the answer came")
    return StoreUnavailable(redact(f"{scene.what}: the connection broke: {_last_words(chain)}"))


def _untrusted(chain: list[BaseException], scene: Scene) -> StoreError:
    issuer = scene.issuer() or "an unknown issuer"
    return StoreError(
        f"{scene.what}: the certificate of {scene.host} was issued by {issuer}, "
        f"which this machine does not trust ({_reason(chain)})",
        hint="A proxy that opens TLS? Ask IT for its root certificate (PEM) and set ca_bundle to that file.",
    )


def _proxy_wants_login(scene: Scene) -> StoreError:
    return StoreDenied(
        f"{scene.what}: the proxy {scene.proxy or 'in between'} asks for a login (407)",
        hint="Set HTTPS_PROXY=http://user:password@host:port in .env, or ask IT for a way without a login.",
    )


def _reason(chain: list[BaseException]) -> str:
    for link in chain:
        if isinstance(link, ssl.SSLCertVerificationError) and link.verify_message:
            return link.verify_message
    return "verification failed"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what it was made from, through causes, arguments and what libraries attach."""
    waiting, seen = [error], set[int]()
    while waiting:
        link = waiting.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        named = (getattr(link, name, None) for name in ("inner_exception", "reason"))
        inner = (link.__cause__, link.__context__, *named, *link.args)
        waiting += [other for other in inner if isinstance(other, BaseException)]


def _last_words(chain: list[BaseException]) -> str:
    return redact(_first_line(chain[-1]))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _text(error: HttpResponseError) -> str:
    details = getattr(error, "additional_info", None) or {}
    return f"{error} {details}"


def _answered_at(response: Any) -> datetime:
    return response_date(response) or datetime.now(UTC)


def response_date(response: Any) -> datetime | None:
    """The `Date` of an answer: the store's clock, in whole seconds."""
    return _http_date(response.headers.get("Date", ""))


def _http_date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except (TypeError, ValueError):
        return None


def _retry_after(response: Any) -> float | None:
    """`Retry-After` in seconds, from a number or a date."""
    text = response.headers.get("Retry-After", "") or ""
    if text.isdigit():
        return float(text)
    until = _http_date(text)
    return max(0.0, (until - _answered_at(response)).total_seconds()) if until else None


__all__ = ["AzureError", "Scene", "response_date", "translate"]
