"""Builds the one SDK client of a store: credential, proxy, trust and the pinned service version."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from azure.core.credentials import AzureSasCredential
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import ContainerClient, ContainerSasPermissions, generate_container_sas

from stitch.errors import ConfigError
from stitch.store.azure_read import Reader, Signed
from stitch.store.disk import CHUNK
from stitch.store.location import connection_fields
from stitch.store.tls import proxy_for, seen_issuer, trust, trusting_session

API_VERSION = "2026-06-06"
"""The newest service version that Azurite 3.37 answers too. Azure keeps old versions."""

_SCOPE = "https://storage.azure.com/.default"
_READ_TOKEN_LIFE = timedelta(days=1)
_CONNECT_TIMEOUT = 20
_READ_TIMEOUT = 60


@dataclass(frozen=True, slots=True)
class Connection:
    """A client and what to say about it when it fails.

    Attributes:
        container: the SDK's client of one container.
        reader: streams its blobs.
        token: the SAS token in use, or "".
        proxy: the proxy in use, without its password, or "".
        issuer: finds who issued the certificate that the address shows.
    """

    container: ContainerClient
    reader: Reader
    token: str = field(repr=False)
    proxy: str
    issuer: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Wires:
    """How requests leave: for every client of this process that speaks to Azure.

    Attributes:
        transport: trusts what it was told to, and reads no environment.
        proxies: by scheme, or None.
        proxy: the proxy in use, without its password, or "".
    """

    transport: RequestsTransport
    proxies: dict[str, str] | None = field(repr=False)
    proxy: str


@dataclass(frozen=True, slots=True)
class _Identity:
    endpoint: str
    credential: Any = field(repr=False)
    signed: Signed
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
    identity = _identify(endpoint, container, token, environment)
    wires = wire(identity.endpoint, environment, ca_bundle=ca_bundle, connections=connections)
    client = ContainerClient(
        identity.endpoint,
        container,
        credential=identity.credential,
        api_version=API_VERSION,
        transport=wires.transport,
        proxies=wires.proxies,
        retry_total=0,  # store/retry.py repeats: two layers would multiply
        raw_response_hook=lambda answer: heard(answer.http_response),
    )
    return Connection(
        container=client,
        reader=Reader(wires.transport, wires.proxies, identity.signed, API_VERSION, heard),
        token=identity.token,
        proxy=wires.proxy,
        issuer=lambda: issuer_seen(identity.endpoint, wires),
    )


def wire(endpoint: str, environment: Mapping[str, str], *, ca_bundle: Path | None, connections: int) -> Wires:
    """Proxy and trust for an endpoint.

    Args:
        endpoint: the account's URL.
        environment: where proxies and REQUESTS_CA_BUNDLE are named.
        ca_bundle: PEM file to trust instead of the operating system's store.
        connections: kept open at most.

    Raises:
        ConfigError: an unreadable `ca_bundle`.
    """
    bundle = ca_bundle or _path(environment.get("REQUESTS_CA_BUNDLE", ""))
    proxy = proxy_for(endpoint, environment)
    _quieten_loggers()
    transport = RequestsTransport(
        session=trusting_session(trust(bundle), connections=connections + 2),
        connection_timeout=_CONNECT_TIMEOUT,
        read_timeout=_READ_TIMEOUT,
        connection_data_block_size=CHUNK,
    )
    return Wires(transport, {"https": proxy, "http": proxy} if proxy else None, _without_password(proxy))


def issuer_seen(endpoint: str, wires: Wires) -> str:
    """Who issued the certificate that an endpoint shows us; "" when it cannot be found out."""
    return seen_issuer(endpoint, proxy=(wires.proxies or {}).get("https", ""))


def _identify(endpoint: str, container: str, token: str, environment: Mapping[str, str]) -> _Identity:
    """The first of: the URL's token, a token, a key, a connection string, a sign-in."""
    account = account_of(endpoint)
    named = connection_fields(environment)
    if named.get("AccountName", account) != account:
        named = {}
    endpoint = named.get("BlobEndpoint", "").rstrip("/") or endpoint
    token = token or environment.get("AZURE_STORAGE_SAS_TOKEN", "").strip().lstrip("?")
    key = environment.get("AZURE_STORAGE_KEY", "").strip() or named.get("AccountKey", "")
    token = token or ("" if key else named.get("SharedAccessSignature", "").lstrip("?"))
    if token:
        return _Identity(endpoint, AzureSasCredential(token), Signed(lambda: token, dict), token)
    if key:
        by_key = Signed(lambda: _read_token(account, container, key), dict)
        return _Identity(endpoint, {"account_name": account, "account_key": key}, by_key)
    person = sign_in()
    by_person = Signed(str, lambda: {"Authorization": f"Bearer {person.get_token(_SCOPE).token}"})
    return _Identity(endpoint, person, by_person)


def _read_token(account: str, container: str, key: str) -> str:
    """A token for reading, made with the account's key: our own GETs need no other signature."""
    try:
        return generate_container_sas(
            account,
            container,
            account_key=key,
            permission=ContainerSasPermissions(read=True),
            expiry=datetime.now(UTC) + _READ_TOKEN_LIFE,
        )
    except ValueError:
        raise ConfigError(
            "the Azure account key is not base64", hint="Copy AZURE_STORAGE_KEY again."
        ) from None


def sign_in() -> Any:
    """The credential of whoever is signed in to Azure on this machine.

    Raises:
        ConfigError: the extra that finds it is not installed.
    """
    try:
        from azure.identity import DefaultAzureCredential  # noqa: PLC0415  an extra, slow to import
    except ImportError:
        raise ConfigError(
            "the Azure store has no credential",
            hint="Put the container SAS URL into .env, or AZURE_STORAGE_KEY, or install clif-stitch[entra].",
        ) from None
    return DefaultAzureCredential(exclude_interactive_browser_credential=True)


def account_of(endpoint: str) -> str:
    """The account's name in its URL, an emulator's included."""
    parts = urlsplit(endpoint)
    return parts.path.strip("/") or (parts.hostname or "").partition(".")[0]


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
