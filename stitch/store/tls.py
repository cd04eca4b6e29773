"""Proxies and certificates: whose word is taken, and who stands in between when it is not."""

from __future__ import annotations

import base64
import http.client
import ssl
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import requests
import requests.adapters
import truststore

from stitch.errors import ConfigError

_PROBE_TIMEOUT = 10.0


def trust(ca_bundle: Path | None) -> ssl.SSLContext:
    """Whom to trust: the operating system's certificate store, or only a given PEM file.

    Raises:
        ConfigError: the file cannot be read as PEM.
    """
    if ca_bundle is None:
        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return ssl.create_default_context(cafile=str(ca_bundle))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"cannot read certificates from {ca_bundle}: {error.strerror or error}",
            hint="ca_bundle must name a PEM file that holds your institution's root certificate.",
        ) from error


def proxy_for(url: str, environment: Mapping[str, str]) -> str:
    """The proxy URL for this address, or "".

    Taken from HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY in the given environment; where
    that names none, from the settings of Windows or macOS.
    """
    parts = urlsplit(url)
    named = {key.lower(): value for key, value in environment.items() if value}
    if urllib.request.proxy_bypass_environment(  # type: ignore[attr-defined]  # typeshed lacks it
        parts.netloc.rpartition("@")[2], {"no": named.get("no_proxy", "")}
    ):
        return ""
    found = named.get(f"{parts.scheme}_proxy") or named.get("all_proxy") or ""
    if not found:
        found = _system_proxies(sys.platform, parts.hostname or "").get(parts.scheme, "")
    return found if not found or "://" in found else f"http://{found}"


def _system_proxies(platform: str, host: str) -> Mapping[str, str]:
    names = {
        "win32": ("getproxies_registry", "proxy_bypass_registry"),
        "darwin": ("getproxies_macosx_sysconf", "proxy_bypass_macosx_sysconf"),
    }.get(platform)
    if names is None:
        return {}
    proxies, bypass = (getattr(urllib.request, name, None) for name in names)
    if proxies is None or (bypass and bypass(host)):
        return {}
    found: Mapping[str, str] = proxies()
    return found


class _TrustingAdapter(requests.adapters.HTTPAdapter):
    """Verifies with the given context alone; requests would add the certifi bundle."""

    def __init__(self, context: ssl.SSLContext, connections: int) -> None:
        self._context = context
        super().__init__(pool_maxsize=connections, max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, ssl_context=self._context, **kwargs)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        return super().proxy_manager_for(*args, ssl_context=self._context, **kwargs)

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:  # noqa: ARG002  its signature
        conn.cert_reqs = "CERT_REQUIRED"


def trusting_session(context: ssl.SSLContext, *, connections: int) -> requests.Session:
    """An HTTP session that reads no environment: proxies are given a request, trust is in `context`."""
    session = requests.Session()
    session.trust_env = False
    adapter = _TrustingAdapter(context, connections)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    return session


def seen_issuer(url: str, *, proxy: str = "") -> str:
    """Who issued the certificate that this address shows us, without trusting it: for messages only.

    Returns "" when it cannot be found out.
    """
    from cryptography import x509  # noqa: PLC0415  needed when something is wrong only

    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 443
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    connection = _connection(host, port, unverified, proxy)
    try:
        connection.connect()
        shown = connection.sock.getpeercert(binary_form=True)
        issuer = x509.load_der_x509_certificate(shown).issuer if shown else None
    except (OSError, http.client.HTTPException, ValueError):
        return ""
    finally:
        connection.close()
    return issuer.rfc4514_string() if issuer else ""


def _connection(host: str, port: int, context: ssl.SSLContext, proxy: str) -> http.client.HTTPSConnection:
    if not proxy:
        return http.client.HTTPSConnection(host, port, timeout=_PROBE_TIMEOUT, context=context)
    via = urlsplit(proxy)
    connection = http.client.HTTPSConnection(
        via.hostname or "", via.port or 80, timeout=_PROBE_TIMEOUT, context=context
    )
    headers = {}
    if via.username:
        account = f"{unquote(via.username)}:{unquote(via.password or '')}"
        headers["Proxy-Authorization"] = "Basic " + base64.b64encode(account.encode()).decode()
    connection.set_tunnel(host, port, headers)
    return connection
