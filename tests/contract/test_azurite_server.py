"""The Azurite that tests start ends with them, whatever kills them."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from stitch.testing.azurite import azurite

LOCK_FOLDER = Path(__file__).parents[1] / "services" / "azurite"

_KILLED = """
import sys, threading
from pathlib import Path
from stitch.testing.azurite import azurite
with azurite(Path(sys.argv[1])) as server:
    print(server.port, flush=True)
    threading.Event().wait()
"""


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _ends(port: int) -> bool:
    pause, deadline = threading.Event(), time.monotonic() + 20
    while _listens(port) and time.monotonic() < deadline:
        pause.wait(0.02)
    return not _listens(port)


def test_a_server_of_ones_own_is_gone_after_its_block(tmp_path: Path) -> None:
    with azurite(LOCK_FOLDER, location=tmp_path) as server:
        container = server.new_container()
        assert _listens(server.port)
        assert "sig=" in server.container_url(container)
        assert server.account_key not in repr(server)
    assert not _listens(server.port)


def test_a_server_does_not_outlive_a_test_run_killed_with_sigkill() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(LOCK_FOLDER)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout
    with child.stdout:
        port = int(child.stdout.readline())
        assert _listens(port)
        child.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
        child.wait(20)
    assert _ends(port)


def test_the_lockfile_names_no_registry() -> None:
    text = (LOCK_FOLDER / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in text
    assert '"integrity"' in text
