"""The way to a store over HTTPS: proxy, certificates, and who signed the certificate seen."""

from __future__ import annotations

import base64
import http.client
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from stitch.cli.checks import Check, broken, fail, ok, warn
from stitch.errors import ConfigError, StoreUnavailable
from stitch.store.tls import proxy_for, seen_issuer, trust

_PATIENCE_S = 10.0
_MICROSOFT = ("microsoft", "digicert")


def network(endpoint: str, environ: Mapping[str, str], *, ca_bundle: Path | None) -> Iterator[Check]:
    """Proxy and certificates on the way to `https://host[:port]`."""
    host = urlsplit(endpoint).hostname or ""
    if urlsplit(endpoint).scheme != "https":
        if re.fullmatch(r"localhost|127\..*|::1", host):
            yield ok("tls", f"{host} is this machine: plain HTTP")
        else:
            yield warn("tls", f"plain HTTP to {host}: anyone on the way can read it", todo="Use https://.")
        return
    proxy = proxy_for(endpoint, environ)
    if proxy and not _is_url(proxy):
        yield broken("proxy", "HTTPS_PROXY is no URL", todo="Write HTTPS_PROXY=http://host:port.")
        return
    yield ok("proxy", _shown(proxy) if proxy else f"none for {host}")
    try:
        context = trust(ca_bundle)
    except ConfigError as error:
        yield fail("tls", error)
        return
    yield _certificate(endpoint, proxy, context, ca_bundle)


def _is_url(proxy: str) -> bool:
    try:
        return bool(urlsplit(proxy).hostname and urlsplit(proxy).port is not False)
    except ValueError:
        return False


def _shown(proxy: str) -> str:
    """The proxy without its login."""
    return urlsplit(proxy).netloc.rpartition("@")[2]


def _certificate(endpoint: str, proxy: str, context: ssl.SSLContext, ca_bundle: Path | None) -> Check:
    host = urlsplit(endpoint).hostname or ""
    try:
        _handshake(endpoint, proxy, context)
    except ssl.SSLCertVerificationError as error:
        issuer = seen_issuer(endpoint, proxy=proxy) or "unknown"
        return broken(
            "tls",
            f"{host}: the certificate of issuer {issuer!r} is not trusted ({error.verify_message})",
            todo="Ask IT for the network's root certificate as .pem and set [store] ca_bundle to it.",
            kind=StoreUnavailable,
        )
    except (OSError, http.client.HTTPException) as error:
        return _unreachable(error, host, _shown(proxy))
    issuer = seen_issuer(endpoint, proxy=proxy) or "unknown"
    trusted = f"trusted by {ca_bundle.name}" if ca_bundle else "trusted by the operating system"
    foreign = host.endswith(".core.windows.net") and not any(name in issuer.lower() for name in _MICROSOFT)
    inspected = "; this network inspects TLS" if foreign else ""
    return ok("tls", f"{host}: issuer {issuer!r}, {trusted}{inspected}")


def _handshake(endpoint: str, proxy: str, context: ssl.SSLContext) -> None:
    """Connect as the store will, and request nothing."""
    to, via = urlsplit(endpoint), urlsplit(proxy)
    where = (via.hostname or "", via.port or 80) if proxy else (to.hostname or "", to.port or 443)
    connection = http.client.HTTPSConnection(*where, context=context, timeout=_PATIENCE_S)
    if proxy:
        login = base64.b64encode(f"{unquote(via.username or '')}:{unquote(via.password or '')}".encode())
        headers = {"Proxy-Authorization": f"Basic {login.decode()}"} if via.username else {}
        connection.set_tunnel(to.hostname or "", to.port or 443, headers=headers)
    try:
        connection.connect()
    finally:
        connection.close()


def _unreachable(error: Exception, host: str, proxy: str) -> Check:
    """Name resolution, the proxy's login and the rest told apart."""
    if isinstance(error, socket.gaierror):
        who = proxy or host
        finding, todo = f"the host {who} cannot be resolved", "Check the URL, the VPN, and HTTPS_PROXY."
    elif "407" in str(error):
        finding, todo = (
            f"the proxy {proxy} wants a login (407)",
            "Set HTTPS_PROXY=http://user:password@host:port.",
        )
    elif "Tunnel connection failed" in str(error):
        finding, todo = f"the proxy {proxy} refuses {host}", f"Ask IT to allow {host}, port 443."
    else:
        finding = f"no connection to {proxy or host} ({type(error).__name__})"
        todo = f"Ask IT whether {host}, port 443 is allowed, and for a proxy (HTTPS_PROXY)."
    return broken("tls", finding, todo=todo, kind=StoreUnavailable)
