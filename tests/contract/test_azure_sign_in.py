"""A store without a token in its URL: whoever is signed in to Azure reads and writes with a bearer token."""

import http.client
import itertools
import logging
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError

from stitch.errors import StoreDenied
from stitch.store import Store, StoreOptions, open_store
from stitch.testing.azurite import ACCOUNT, Azurite

SCOPE = ("https://storage.azure.com/.default",)
SECRET = "eyJ-somebody"
MIB = 1 << 20


class SignedIn:
    """Stands for azure-identity's credential: every token it gives is a new one."""

    made: list[dict[str, object]]
    asked: list[tuple[str, ...]]
    able = True

    def __init__(self, **options: object) -> None:
        self.made.append(options)
        self._numbers = itertools.count(1)

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        self.asked.append(scopes)
        if not self.able:
            raise ClientAuthenticationError("DefaultAzureCredential failed to retrieve a token")
        return AccessToken(f"{SECRET}-{next(self._numbers)}", int(time.time()) + 3600)


class Entra(ThreadingHTTPServer):
    """Azure as a signed-in person meets it: TLS, bearer tokens alone, and the emulator's answers.

    The emulator knows no sign-in over plain HTTP, so what carries a good token is passed on with a SAS.
    """

    daemon_threads = True

    def __init__(self, azurite: Azurite, container: str, certificate: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Entrance)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.port, self.to, self.sas = (
            int(self.server_address[1]),
            azurite.port,
            azurite.sas(container, "rcwl"),
        )
        self.url = f"https://127.0.0.1:{self.port}/{ACCOUNT}/{container}"
        self.carried: list[tuple[str, str, str]] = []


class _Entrance(BaseHTTPRequestHandler):
    server: Entra
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        bearer = self.headers.get("Authorization", "")
        self.server.carried.append((self.command, self.path, bearer))
        if not bearer.startswith(f"Bearer {SECRET}-"):
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        sign = "&" if "?" in self.path else "?"
        headers = {name: value for name, value in self.headers.items() if name.lower() != "authorization"}
        inner = http.client.HTTPConnection("127.0.0.1", self.server.to, timeout=60)
        inner.request(self.command, f"{self.path}{sign}{self.server.sas}", body, headers)
        answer = inner.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = answer.headers["Content-Length"] if self.command == "HEAD" else str(len(content))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(content)
        inner.close()

    do_GET = do_PUT = do_HEAD = _answer  # noqa: N815  the names that http.server looks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its name in http.server
        """Nothing is printed."""


@pytest.fixture
def signed_in(monkeypatch: pytest.MonkeyPatch) -> type[SignedIn]:
    SignedIn.made, SignedIn.asked = [], []
    identity = ModuleType("azure.identity")
    identity.DefaultAzureCredential = SignedIn  # type: ignore[attr-defined]  # a module of the test's own
    monkeypatch.setitem(sys.modules, "azure.identity", identity)
    return SignedIn


@pytest.fixture
def entra(azurite: Azurite, certificates: Path) -> Iterator[Entra]:
    container = azurite.new_container()
    with Entra(azurite, container, certificates / "server.pem") as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def store(entra: Entra, certificates: Path, signed_in: type[SignedIn]) -> Store:
    return open_store(entra.url, options=StoreOptions(ca_bundle=certificates / "ca.pem"))


@pytest.mark.parametrize("size", [1000, 20 * MIB])
def test_every_request_carries_the_token_of_whoever_is_signed_in(
    store: Store, entra: Entra, signed_in: type[SignedIn], tmp_path: Path, size: int
) -> None:
    source = tmp_path / "in"
    source.write_bytes(bytes(range(250)) * (size // 250))
    store.push(source, "run/a", mode="create")
    store.pull("run/a", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == source.read_bytes()
    assert store.stat("run/a") is not None
    assert [entry.key for entry in store.list("run/")] == ["run/a"]
    assert {verb for verb, _, _ in entra.carried} == {"PUT", "GET", "HEAD"}
    for verb, target, bearer in entra.carried:
        assert bearer.startswith(f"Bearer {SECRET}-"), (verb, target)
        assert "sig=" not in target
    assert signed_in.made == [{"exclude_interactive_browser_credential": True}]
    assert set(signed_in.asked) == {SCOPE}


def test_a_download_takes_the_token_of_its_own_hour(store: Store, entra: Entra, tmp_path: Path) -> None:
    """A run outlives a token by days: each of our own GETs asks for the present one."""
    (tmp_path / "in").write_bytes(b"x")
    store.push(tmp_path / "in", "a", mode="create")
    before = len(entra.carried)
    for number in range(2):
        store.pull("a", tmp_path / f"out{number}")
    bearers = [bearer for verb, _, bearer in entra.carried[before:] if verb == "GET"]
    assert len(bearers) == len(set(bearers)) == 2


def test_a_sign_in_that_ended_says_what_to_do(
    store: Store,
    signed_in: type[SignedIn],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "in").write_bytes(b"x")
    with caplog.at_level(logging.DEBUG):
        store.push(tmp_path / "in", "a", mode="create")
        monkeypatch.setattr(signed_in, "able", False)
        with pytest.raises(StoreDenied, match="the sign-in to Azure failed") as caught:
            store.pull("a", tmp_path / "out")
    assert "az login" in caught.value.hint
    assert SECRET not in caplog.text + str(caught.value)
