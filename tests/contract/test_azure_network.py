"""Proxies, certificates and names: each way of not reaching the store has its own words."""

import base64
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stitch.errors import ConfigError, StoreDenied, StoreError, StoreUnavailable
from stitch.store import StoreOptions, open_store
from stitch.store.tls import proxy_for, seen_issuer
from stitch.testing.azurite import Azurite
from tests.contract.certificates import ISSUER


class _Relay(socketserver.ThreadingTCPServer):
    """A forward proxy: CONNECT and absolute GET/PUT/HEAD, with a login if wanted; or a TLS front."""

    daemon_threads = True

    def __init__(self, *, login: str = "", front: ssl.SSLContext | None = None, to: int = 0) -> None:
        self.login, self.front, self.to = login, front, to
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _RelayHandler)
        self.port = int(self.server_address[1])


class _RelayHandler(socketserver.BaseRequestHandler):
    server: _Relay

    def handle(self) -> None:
        client: socket.socket = self.request
        if self.server.front:
            try:
                client = self.server.front.wrap_socket(client, server_side=True)
            except OSError:
                return
            with client:
                self._pipe(client, socket.create_connection(("127.0.0.1", self.server.to)), b"")
            return
        head = b""
        while b"\r\n\r\n" not in head:
            piece = client.recv(65536)
            if not piece:
                return
            head += piece
        line = head.split(b"\r\n", 1)[0].decode()
        self.server.asked.append(line)
        wanted = base64.b64encode(self.server.login.encode()).decode()
        if self.server.login and f"Basic {wanted}" not in head.decode("latin-1"):
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        host = line.split(" ")[1]
        if line.startswith("CONNECT"):
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            self._pipe(client, socket.create_connection(("127.0.0.1", int(host.rpartition(":")[2]))), b"")
            return
        port = int(host.split("/")[2].rpartition(":")[2])
        self._pipe(client, socket.create_connection(("127.0.0.1", port)), _as_origin(head))

    def _pipe(self, client: socket.socket, upstream: socket.socket, first: bytes) -> None:
        with upstream:
            upstream.sendall(first)
            back = threading.Thread(target=_copy, args=(upstream, client), daemon=True)
            back.start()
            _copy(client, upstream)
            back.join(5)


def _as_origin(head: bytes) -> bytes:
    """Turns `PUT http://host:port/path` into `PUT /path` and asks for one answer a connection."""
    line, _, rest = head.partition(b"\r\n")
    verb, target, version = line.split(b" ")
    path = b"/" + target.split(b"/", 3)[3]
    return b" ".join([verb, path, version]) + b"\r\nConnection: close\r\n" + rest


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@contextmanager
def _running(relay: _Relay) -> Iterator[_Relay]:
    threading.Thread(target=relay.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield relay
    finally:
        relay.shutdown()
        relay.server_close()


@pytest.fixture
def tls_front(azurite: Azurite, certificates: Path) -> Iterator[_Relay]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem")
    with _running(_Relay(front=context, to=azurite.port)) as relay:
        yield relay


def _https_url(azurite: Azurite, front: _Relay) -> str:
    url = azurite.container_url(azurite.new_container())
    return url.replace(f"http://127.0.0.1:{azurite.port}", f"https://127.0.0.1:{front.port}")


def _round_trip(url: str, options: StoreOptions, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_bytes(b"through")
    store = open_store(url, options=options)
    store.push(source, "a", mode="create")
    store.pull("a", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"through"


def test_an_untrusted_issuer_is_named(azurite: Azurite, tls_front: _Relay) -> None:
    store = open_store(_https_url(azurite, tls_front), options=StoreOptions())
    with pytest.raises(StoreError, match=ISSUER) as caught:
        store.stat("a")
    assert not isinstance(caught.value, StoreUnavailable), "trying again does not help"
    assert "ca_bundle" in caught.value.hint


def test_a_ca_bundle_makes_it_trusted(
    azurite: Azurite, tls_front: _Relay, certificates: Path, tmp_path: Path
) -> None:
    _round_trip(_https_url(azurite, tls_front), StoreOptions(ca_bundle=certificates / "ca.pem"), tmp_path)


def test_the_ca_bundle_that_requests_reads_is_honoured(
    azurite: Azurite, tls_front: _Relay, certificates: Path, tmp_path: Path
) -> None:
    environment = {"REQUESTS_CA_BUNDLE": str(certificates / "ca.pem")}
    _round_trip(_https_url(azurite, tls_front), StoreOptions(environment=environment), tmp_path)


def test_an_unreadable_ca_bundle_is_a_configuration_error(azurite: Azurite, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("not PEM", encoding="utf-8")
    for path in (tmp_path / "ca.pem", tmp_path / "absent.pem"):
        with pytest.raises(ConfigError, match="cannot read certificates"):
            open_store("az://acct1/box?sig=x", options=StoreOptions(ca_bundle=path))


def test_a_tunnel_through_a_proxy_reaches_the_store(
    azurite: Azurite, tls_front: _Relay, certificates: Path, tmp_path: Path
) -> None:
    with _running(_Relay(login="ward:pass word")) as proxy:
        environment = {"HTTPS_PROXY": f"http://ward:pass%20word@127.0.0.1:{proxy.port}"}
        options = StoreOptions(environment=environment, ca_bundle=certificates / "ca.pem")
        _round_trip(_https_url(azurite, tls_front), options, tmp_path)
        assert proxy.asked[0].startswith("CONNECT 127.0.0.1")
        proxy_url = environment["HTTPS_PROXY"]
        assert ISSUER in seen_issuer(f"https://127.0.0.1:{tls_front.port}", proxy=proxy_url)


def test_an_untrusted_issuer_behind_a_proxy_is_named(azurite: Azurite, tls_front: _Relay) -> None:
    with _running(_Relay()) as proxy:
        environment = {"https_proxy": f"127.0.0.1:{proxy.port}"}
        store = open_store(_https_url(azurite, tls_front), options=StoreOptions(environment=environment))
        with pytest.raises(StoreError, match=ISSUER):
            store.stat("a")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_a_login_is_told_from_a_store_that_refuses(
    azurite: Azurite, tls_front: _Relay, scheme: str
) -> None:
    https, plain = _https_url(azurite, tls_front), azurite.container_url(azurite.new_container())
    with _running(_Relay(login="ward:right")) as proxy:
        address = f"http://ward:wrong@127.0.0.1:{proxy.port}"
        options = StoreOptions(environment={"HTTP_PROXY": address, "HTTPS_PROXY": address})
        store = open_store(https if scheme == "https" else plain, options=options)
        with pytest.raises(StoreDenied, match=r"proxy .* asks for a login \(407\)") as caught:
            store.stat("a")
    assert "wrong" not in f"{caught.value} {caught.value!r}"
    assert f"127.0.0.1:{proxy.port}" in str(caught.value)


def test_a_proxy_that_is_not_there(azurite: Azurite) -> None:
    environment = {"HTTP_PROXY": f"http://127.0.0.1:{_closed_port()}"}
    store = open_store(
        azurite.container_url(azurite.new_container()), options=StoreOptions(environment=environment)
    )
    with pytest.raises(StoreUnavailable, match=r"the proxy http://127\.0\.0\.1:"):
        store.stat("a")


def test_plain_http_goes_through_http_proxy_unless_no_proxy_names_the_host(
    azurite: Azurite, tmp_path: Path
) -> None:
    with _running(_Relay()) as proxy:
        environment = {"HTTP_PROXY": f"http://127.0.0.1:{proxy.port}"}
        url = azurite.container_url(azurite.new_container())
        _round_trip(url, StoreOptions(environment=environment), tmp_path)
        asked = len(proxy.asked)
        assert asked >= 2
        environment["NO_PROXY"] = "localhost,127.0.0.1"
        open_store(url, options=StoreOptions(environment=environment)).stat("a")
        assert len(proxy.asked) == asked


def test_the_process_environment_is_not_read(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    url = azurite.container_url(azurite.new_container())
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{_closed_port()}")
    store = open_store(url, options=StoreOptions())
    assert store.stat("a") is None


def test_a_name_that_does_not_resolve() -> None:
    store = open_store("https://acct1.blob.invalid/box?sig=x", options=StoreOptions())
    with pytest.raises(StoreUnavailable, match=r"the name acct1\.blob\.invalid cannot be resolved"):
        store.stat("a")


def test_a_refused_connection() -> None:
    url = f"http://127.0.0.1:{_closed_port()}/devstoreaccount1/box?sig=x"
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1 refuses connections"):
        open_store(url, options=StoreOptions()).stat("a")


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("https://a.b", {}, ""),
        ("https://a.b", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.b", {"https_proxy": "p:1"}, "http://p:1"),
        ("https://a.b", {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ("http://a.b", {"HTTPS_PROXY": "http://p:1"}, ""),
        ("https://x.a.b", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".a.b"}, ""),
        ("https://x.a.b", {"HTTPS_PROXY": "http://p:1", "no_proxy": "*"}, ""),
        ("https://x.a.c", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".a.b"}, "http://p:1"),
    ],
)
def test_proxies_are_chosen_as_curl_and_requests_do(
    url: str, environment: dict[str, str], proxy: str
) -> None:
    assert proxy_for(url, environment) == proxy
