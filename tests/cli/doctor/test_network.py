"""Proxy and certificates, told apart on real sockets of this machine."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stitch.cli.checks_network import network


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A key and a self-signed certificate for localhost, as a TLS-inspecting network would show."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Hospital Inspection"),
            x509.NameAttribute(NameOID.COMMON_NAME, "Proxy CA"),
        ]
    )
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(pem, kind, plain))
    return folder / "cert.pem", folder / "key.pem"


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server on this machine that gives each connection to `answer`."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    try:
                        answer(client)
                    except OSError:
                        continue

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)


@pytest.fixture
def tls_port(certificate: tuple[Path, Path]) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def answer(client: socket.socket) -> None:
        with context.wrap_socket(client, server_side=True) as wrapped:
            wrapped.recv(1)

    with serving(answer) as port:
        yield port


def test_an_untrusted_issuer_is_named(tls_port: int) -> None:
    checks = list(network(f"https://localhost:{tls_port}", {}, ca_bundle=None))
    assert [check.name for check in checks] == ["proxy", "tls"]
    assert (checks[1].state, checks[1].exit_code) == ("fail", 21)
    assert "issuer 'CN=Proxy CA,O=Hospital Inspection' is not trusted" in checks[1].finding
    assert "ca_bundle" in checks[1].todo


def test_a_ca_bundle_makes_it_trusted(tls_port: int, certificate: tuple[Path, Path]) -> None:
    checks = list(network(f"https://localhost:{tls_port}", {}, ca_bundle=certificate[0]))
    assert checks[1].state == "ok"
    assert "issuer 'CN=Proxy CA,O=Hospital Inspection', trusted by cert.pem" in checks[1].finding


def test_a_ca_bundle_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing", encoding="utf-8")
    checks = list(network("https://localhost:1", {}, ca_bundle=tmp_path / "ca.pem"))
    assert "cannot read certificates" in checks[1].finding


def test_a_proxy_that_wants_a_login() -> None:
    def answer(client: socket.socket) -> None:
        client.recv(4096)
        client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

    with serving(answer) as port:
        environ = {"HTTPS_PROXY": f"http://user:SECRETVALUE@127.0.0.1:{port}"}
        checks = list(network("https://acct.blob.core.windows.net", environ, ca_bundle=None))
    assert "wants a login (407)" in checks[1].finding
    assert f"127.0.0.1:{port}" in checks[0].finding
    assert "SECRETVALUE" not in repr(checks)


def test_a_host_that_is_not_there_and_one_that_is_closed() -> None:
    checks = list(network("https://acct.invalid", {}, ca_bundle=None))
    assert "cannot be resolved" in checks[1].finding
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    checks = list(network(f"https://127.0.0.1:{port}", {}, ca_bundle=None))
    assert "no connection to 127.0.0.1" in checks[1].finding


def test_plain_http_is_for_this_machine_alone() -> None:
    (check,) = network("http://127.0.0.1:10000/devstoreaccount1", {}, ca_bundle=None)
    assert check.state == "ok"
    (check,) = network("http://store.example", {}, ca_bundle=None)
    assert check.state == "warn"


def test_no_proxy_is_heeded() -> None:
    environ = {"HTTPS_PROXY": "127.0.0.1:9", "NO_PROXY": "acct.invalid"}
    assert next(network("https://acct.invalid", environ, ca_bundle=None)).finding == "none for acct.invalid"
    assert next(network("https://other.invalid", environ, ca_bundle=None)).finding == "127.0.0.1:9"


def test_a_proxy_that_is_no_url() -> None:
    (check,) = network("https://acct.invalid", {"HTTPS_PROXY": "http://proxy:port"}, ca_bundle=None)
    assert check.state == "fail"
    assert "HTTPS_PROXY is no URL" in check.finding
