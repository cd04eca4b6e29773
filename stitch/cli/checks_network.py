"""The way to a store over HTTPS: proxy, certificates, and who signed the certificate seen."""

from __future__ import annotations

import base64
import http.client
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import truststore

from stitch.cli.checks import Check, broken, ok, warn
from stitch.errors import StoreUnavailable

_PATIENCE_S = 10.0
_MICROSOFT = ("microsoft", "digicert")


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; `login` is never shown."""

    host: str
    port: int
    login: str

    def __str__(self) -> str:
        """Host and port."""
        return f"{self.host}:{self.port}"


def proxy_for(host: str, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy that the environment names for a host; None for a direct connection.

    Raises:
        ValueError: HTTPS_PROXY is no URL.
    """
    folded = {name.lower(): value for name, value in environ.items() if value}
    url = folded.get("https_proxy", "")
    if not url or _bypassed(host, folded.get("no_proxy", "")):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if not parts.hostname:
        raise ValueError("HTTPS_PROXY names no host")
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    return Proxy(parts.hostname, parts.port or 8080, login)


def _bypassed(host: str, no_proxy: str) -> bool:
    """Whether NO_PROXY, a comma-separated list of hosts and domains, names the host."""
    listed = (entry.strip().lower().lstrip("*").lstrip(".") for entry in no_proxy.split(","))
    return no_proxy.strip() == "*" or any(
        entry and (host == entry or host.endswith("." + entry)) for entry in listed
    )


def network(endpoint: str, environ: Mapping[str, str], *, ca_bundle: Path | None) -> Iterator[Check]:
    """Proxy and certificates on the way to `https://host[:port]`."""
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    if parts.scheme != "https":
        if re.fullmatch(r"localhost|127\..*|\[?::1\]?", host):
            yield ok("tls", f"{host} is this machine: plain HTTP")
        else:
            yield warn("tls", f"plain HTTP to {host}: anyone on the way can read it", todo="Use https://.")
        return
    try:
        proxy = proxy_for(host, environ)
    except ValueError:
        yield broken("proxy", "HTTPS_PROXY is no URL", todo="Write HTTPS_PROXY=http://host:port.")
        return
    yield ok("proxy", f"{proxy} (HTTPS_PROXY)" if proxy else f"none for {host}")
    try:
        yield _certificate(host, parts.port or 443, proxy, ca_bundle)
    except OSError as error:
        yield _unreachable(error, host, proxy)


def _certificate(host: str, port: int, proxy: Proxy | None, ca_bundle: Path | None) -> Check:
    trusted = f"trusted by {ca_bundle.name}" if ca_bundle else "trusted by the operating system"
    try:
        context: ssl.SSLContext = (
            ssl.create_default_context(cafile=ca_bundle)
            if ca_bundle
            else truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )
    except (OSError, ssl.SSLError):
        return broken(
            "tls", f"store.ca_bundle {ca_bundle} holds no certificates", todo="Give the path of a .pem file."
        )
    try:
        issuer = _issuer(host, port, proxy, context)
    except ssl.SSLCertVerificationError as error:
        blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE  # only to read who signed it
        signer = _issuer(host, port, proxy, blind)
        return broken(
            "tls",
            f"{host}: the certificate of issuer {signer!r} is not trusted ({error.verify_message})",
            todo="Ask IT for the network's root certificate as .pem and set [store] ca_bundle to it.",
            kind=StoreUnavailable,
        )
    inspected = host.endswith(".core.windows.net") and not issuer.lower().startswith(_MICROSOFT)
    return ok(
        "tls", f"{host}: issuer {issuer!r}, {trusted}" + ("; this network inspects TLS" if inspected else "")
    )


def _issuer(host: str, port: int, proxy: Proxy | None, context: ssl.SSLContext) -> str:
    """Connect and say who signed the server's certificate. Nothing is requested."""
    where = (proxy.host, proxy.port) if proxy else (host, port)
    connection = http.client.HTTPSConnection(*where, context=context, timeout=_PATIENCE_S)
    if proxy:
        login = base64.b64encode(proxy.login.encode()).decode()
        headers = {"Proxy-Authorization": f"Basic {login}"} if proxy.login else {}
        connection.set_tunnel(host, port, headers=headers)
    try:
        connection.connect()
        sock = connection.sock
        der = sock.getpeercert(binary_form=True) if isinstance(sock, ssl.SSLSocket) else None
    finally:
        connection.close()
    return _issuer_name(der or b"")


def _issuer_name(der: bytes) -> str:
    from cryptography import x509  # noqa: PLC0415  slow to import, and comes with the Azure SDK
    from cryptography.x509.oid import NameOID  # noqa: PLC0415  as above

    try:
        issuer = x509.load_der_x509_certificate(der).issuer
    except ValueError:
        return "unknown"
    parts = [
        *issuer.get_attributes_for_oid(NameOID.ORGANIZATION_NAME),
        *issuer.get_attributes_for_oid(NameOID.COMMON_NAME),
    ]
    return ", ".join(str(part.value) for part in parts) or "unknown"


def _unreachable(error: OSError, host: str, proxy: Proxy | None) -> Check:
    """Name resolution, the proxy's login and the rest told apart."""
    if isinstance(error, socket.gaierror):
        who = proxy.host if proxy else host
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
