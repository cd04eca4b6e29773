"""Builds the one SDK client of a store: credential, proxy, trust and the pinned service version."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from azure.core.credentials import AzureSasCredential
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import ContainerClient

from stitch.errors import ConfigError
from stitch.store.tls import proxy_for, seen_issuer, trust, trusting_session

API_VERSION = "2026-06-06"
"""The newest service version that Azurite 3.37 answers too. Azure keeps old versions."""

FIRST_GET = 8 * 1024 * 1024
"""Bytes asked for with the first request of a download: small files need no second one."""

_CONNECT_TIMEOUT = 20
_READ_TIMEOUT = 60
_NETWORK_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Connection:
    """A client and what to say about it when it fails.

    Attributes:
        container: the SDK's client of one container.
        token: the SAS token in use, or "".
        proxy: the proxy in use, without its password, or "".
        issuer: finds who issued the certificate that the address shows.
    """

    container: ContainerClient
    token: str = field(repr=False)
    proxy: str
    issuer: Callable[[], str]


@dataclass(frozen=True, slots=True)
class _Identity:
    endpoint: str
    credential: Any = field(repr=False)
    token: str = field(default="", repr=False)


def connect(
    *,
    endpoint: str,
    container: str,
    token: str,
    environment: Mapping[str, str],
    ca_bundle: Path | None,
    connections: int,
    heard: Callable[[Any], None],
) -> Connection:
    """Builds the client without sending anything.

    Args:
        endpoint: the account's URL.
        container: its container.
        token: a SAS token that came with the URL, or "".
        environment: where other credentials and proxies are named.
        ca_bundle: PEM file to trust instead of the operating system's store.
        connections: kept open at most.
        heard: called with each answer, for its `Date`.

    Raises:
        ConfigError: no usable credential, or an unreadable `ca_bundle`.
    """
    identity = _identify(endpoint, token, environment)
    bundle = ca_bundle or _path(environment.get("REQUESTS_CA_BUNDLE", ""))
    proxy = proxy_for(identity.endpoint, environment)
    _quieten_loggers()
    client = ContainerClient(
        identity.endpoint,
        container,
        credential=identity.credential,
        api_version=API_VERSION,
        transport=RequestsTransport(
            session=trusting_session(trust(bundle), connections=connections + 2),
            connection_timeout=_CONNECT_TIMEOUT,
            read_timeout=_READ_TIMEOUT,
            connection_data_block_size=_NETWORK_CHUNK,
        ),
        proxies={"https": proxy, "http": proxy} if proxy else None,
        retry_total=0,  # store/retry.py repeats: two layers would multiply
        max_single_get_size=FIRST_GET,
        max_chunk_get_size=FIRST_GET,
        raw_response_hook=heard,
    )
    return Connection(
        container=client,
        token=identity.token,
        proxy=_without_password(proxy),
        issuer=lambda: seen_issuer(identity.endpoint, proxy=proxy),
    )


def _identify(endpoint: str, token: str, environment: Mapping[str, str]) -> _Identity:
    """The first of: the URL's token, a token, a key, a connection string, a sign-in."""
    account = _account(endpoint)
    named = _connection_string(environment.get("AZURE_STORAGE_CONNECTION_STRING", ""))
    if named.get("AccountName", account) != account:
        named = {}
    endpoint = named.get("BlobEndpoint", "").rstrip("/") or endpoint
    token = token or environment.get("AZURE_STORAGE_SAS_TOKEN", "").strip().lstrip("?")
    key = environment.get("AZURE_STORAGE_KEY", "").strip() or named.get("AccountKey", "")
    token = token or ("" if key else named.get("SharedAccessSignature", "").lstrip("?"))
    if token:
        return _Identity(endpoint, AzureSasCredential(token), token)
    if key:
        return _Identity(endpoint, {"account_name": account, "account_key": key})
    return _Identity(endpoint, _sign_in())


def _sign_in() -> Any:
    try:
        from azure.identity import DefaultAzureCredential  # noqa: PLC0415  an extra, slow to import
    except ImportError:
        raise ConfigError(
            "the Azure store has no credential",
            hint="Put the container SAS URL into .env, or AZURE_STORAGE_KEY, or install clif-stitch[entra].",
        ) from None
    return DefaultAzureCredential(exclude_interactive_browser_credential=True)


def _account(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    return parts.path.strip("/") or (parts.hostname or "").partition(".")[0]


def _connection_string(text: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(";") if "=" in part)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def _without_password(proxy: str) -> str:
    parts = urlsplit(proxy)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if proxy else ""


def _quieten_loggers() -> None:
    """urllib3 logs whole URLs, signatures included, at DEBUG; the SDK logs every request at INFO."""
    for name, level in (("urllib3", logging.INFO), ("azure", logging.WARNING)):
        logger = logging.getLogger(name)
        if logger.getEffectiveLevel() < level:
            logger.setLevel(level)
