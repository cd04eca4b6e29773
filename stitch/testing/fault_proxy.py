"""An HTTP endpoint in front of a real one that breaks chosen requests the way networks do."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Self

Damage = Literal[
    "status",
    "reset_request",
    "flip_request",
    "truncate_reply",
    "flip_reply",
    "lose_reply",
    "stall",
    "hang_reply",
]
"""What happens to a request.

status: answered with `Rule.status`, never forwarded. reset_request: the connection is reset in the
middle of its body, nothing is forwarded. stall: it is read and never answered. The others are
forwarded: flip_request changes one bit of the request's body before, truncate_reply cuts the
answer's body in half, hang_reply goes silent there, flip_reply changes one bit of it, lose_reply
resets instead.
"""


@dataclass(slots=True)
class Rule:
    """Breaks some requests.

    Attributes:
        damage: how.
        method: of the requests meant.
        containing: text in their path and query.
        times: how many are broken before the rule is used up.
        skip: how many pass before the first is broken.
        status: for "status".
        headers: for "status".
    """

    damage: Damage
    method: str
    containing: str = ""
    times: int = 1
    skip: int = 0
    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)


class FaultProxy:
    """Forwards to a port of this machine. Use it as a context manager.

    Attributes:
        port: where it listens on 127.0.0.1.
        seen: each request's method and target, in order of arrival.
        statuses: the upstream's answers to forwarded requests: method, target, status.
    """

    def __init__(self, upstream_port: int) -> None:
        self._upstream = upstream_port
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self.seen: list[tuple[str, str]] = []
        self.statuses: list[tuple[str, str, int]] = []
        proxy = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    while proxy._serve(self):
                        pass

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, *rules: Rule) -> None:
        """Breaks requests from now on; the first matching rule counts."""
        with self._lock:
            self._rules += rules

    def clear(self) -> None:
        """Breaks nothing from now on."""
        with self._lock:
            self._rules.clear()

    def count(self, method: str, containing: str = "") -> int:
        """How many such requests arrived."""
        with self._lock:
            return sum(verb == method and containing in target for verb, target in self.seen)

    def _choose(self, method: str, target: str) -> Rule | None:
        with self._lock:
            self.seen.append((method, target))
            for rule in self._rules:
                if rule.method != method or rule.containing not in target or rule.times <= 0:
                    continue
                if rule.skip:
                    rule.skip -= 1
                    return None
                rule.times -= 1
                return rule
        return None

    def _serve(self, handler: socketserver.StreamRequestHandler) -> bool:
        """Answers one request; False ends the connection."""
        head = _read_head(handler.rfile)
        if not head:
            return False
        method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        length = int(_header(head, "content-length") or 0)
        rule = self._choose(method, target)
        damage = rule.damage if rule else None
        if damage == "reset_request":
            handler.rfile.read(length // 2)
            _reset(handler.connection)
            return False
        body = handler.rfile.read(length)
        if damage == "stall":
            handler.connection.recv(1)  # comes back when the client is gone
            return False
        if rule and damage == "status":
            extra = "".join(f"{name}: {value}\r\n" for name, value in rule.headers.items())
            handler.wfile.write(f"HTTP/1.1 {rule.status} Broken\r\nContent-Length: 0\r\n{extra}\r\n".encode())
            return True
        if damage == "flip_request":
            body = _flipped(body)
        answer_head, answer = self._forward(head, body)
        if answer_head.startswith(b"HTTP/"):  # else the upstream went away
            with self._lock:
                self.statuses.append((method, target, int(answer_head.split(b" ", 2)[1])))
        if damage == "lose_reply":
            _reset(handler.connection)
            return False
        if damage == "flip_reply":
            answer = _flipped(answer)
        if damage in ("truncate_reply", "hang_reply"):
            handler.wfile.write(answer_head + answer[: len(answer) // 2])
            if damage == "hang_reply":
                handler.connection.recv(1)  # comes back when the client is gone
            return False
        handler.wfile.write(answer_head + answer)
        return False

    def _forward(self, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        line, _, rest = head.partition(b"\r\n")
        kept = [part for part in rest.split(b"\r\n") if part and not part.lower().startswith(b"connection:")]
        request = b"\r\n".join([line, *kept, b"Connection: close", b"", b""])
        with socket.create_connection(("127.0.0.1", self._upstream), timeout=60) as upstream:
            upstream.sendall(request + body)
            answer = b"".join(_until_closed(upstream))
        found, _, content = answer.partition(b"\r\n\r\n")
        return found + b"\r\n\r\n", content


def _flipped(body: bytes) -> bytes:
    """The same bytes with one bit in the middle changed."""
    middle = len(body) // 2
    return body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :] if body else body


def _read_head(stream: object) -> bytes:
    lines = []
    while True:
        line: bytes = stream.readline(65_536)  # type: ignore[attr-defined]  # http.server's rfile is untyped
        if not line:
            return b""
        lines.append(line)
        if line == b"\r\n":
            return b"".join(lines)


def _header(head: bytes, name: str) -> str:
    for line in head.decode("latin-1").split("\r\n")[1:]:
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return ""


def _until_closed(connection: socket.socket) -> Iterator[bytes]:
    while piece := connection.recv(1 << 20):
        yield piece


def _reset(connection: socket.socket) -> None:
    """Closes with RST, as a firewall that forgot the connection does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
