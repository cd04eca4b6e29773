"""A process killed in the middle of a transfer: the next one sends and fetches only what is missing."""

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from azure.storage.blob import BlobClient

from stitch.store import StoreOptions, open_store
from stitch.store.azure_client import API_VERSION
from stitch.store.azure_upload import BLOCK, left_blocks
from stitch.testing.azurite import Azurite
from stitch.testing.fault_proxy import FaultProxy, Rule

MIB = 1 << 20
SIZE = 96 * MIB

_TRANSFER = """
import sys
from pathlib import Path
from stitch.store import StoreOptions, open_store
store = open_store(sys.argv[1], options=StoreOptions())
if sys.argv[2] == "push":
    store.push(Path(sys.argv[3]), "a/model", mode="create")
else:
    store.pull("a/model", Path(sys.argv[3]))
"""


def _killed_when(reached: Callable[[], bool], arguments: list[str]) -> None:
    """Runs a transfer in a process of its own and kills it in the middle."""
    child = subprocess.Popen([sys.executable, "-c", _TRANSFER, *arguments])
    pause, deadline = threading.Event(), time.monotonic() + 60
    try:
        while not reached() and child.poll() is None and time.monotonic() < deadline:
            pause.wait(0.01)
    finally:
        child.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
        code = child.wait(20)
    assert code != 0, "it was done before it could be killed"
    assert reached()


def _kill_an_upload(proxy: FaultProxy, url: str, source: Path) -> None:
    """Two blocks arrive, the others hang when the process dies; which two, the threads decide."""
    container, _, token = url.partition("?")
    blob = BlobClient.from_blob_url(f"{container}/a/model?{token}", api_version=API_VERSION)

    def two_arrived() -> bool:
        return proxy.count("PUT", "comp=block&") >= 4 and len(left_blocks(blob) or {}) == 2

    proxy.add(Rule("stall", "PUT", containing="comp=block&", skip=2, times=1000))
    with blob:
        _killed_when(two_arrived, [url, "push", str(source)])
    proxy.clear()


def _noted(state: Path) -> int:
    """How many bytes a download in another process says it has."""
    try:
        segments = json.loads(state.read_text(encoding="utf-8"))["segments"]
    except (OSError, ValueError):
        return 0
    return sum(int(here) - int(start) for start, here, _ in segments)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.write_bytes(secrets.token_bytes(SIZE))
    return path


def test_an_upload_killed_with_sigkill_restages_only_missing_blocks(
    azurite: Azurite, source: Path, tmp_path: Path
) -> None:
    with FaultProxy(azurite.port) as proxy:
        direct = azurite.container_url(azurite.new_container())
        url = direct.replace(f":{azurite.port}/", f":{proxy.port}/")
        _kill_an_upload(proxy, url, source)
        store = open_store(url, options=StoreOptions())
        assert store.stat("a/model") is None, "nothing is visible before the whole is"
        before = proxy.count("PUT", "comp=block&")
        entry = store.push(source, "a/model", mode="create")
        assert proxy.count("PUT", "comp=block&") - before == SIZE // BLOCK - 2
        assert entry.digest == hashlib.sha256(source.read_bytes()).hexdigest()
        assert store.pull("a/model", tmp_path / "out").digest == entry.digest


def test_other_bytes_never_use_the_blocks_a_killed_upload_left(
    azurite: Azurite, source: Path, tmp_path: Path
) -> None:
    with FaultProxy(azurite.port) as proxy:
        direct = azurite.container_url(azurite.new_container())
        url = direct.replace(f":{azurite.port}/", f":{proxy.port}/")
        _kill_an_upload(proxy, url, source)
        changed = source.read_bytes()
        source.write_bytes(bytes([changed[0] ^ 1]) + changed[1:])
        store = open_store(direct, options=StoreOptions())
        store.push(source, "a/model", mode="create")
        store.pull("a/model", tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == source.read_bytes()


def test_a_download_killed_with_sigkill_continues_from_its_part(
    azurite: Azurite, source: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    with FaultProxy(azurite.port) as proxy:
        direct = azurite.container_url(azurite.new_container())
        url = direct.replace(f":{azurite.port}/", f":{proxy.port}/")
        store = open_store(url, options=StoreOptions())
        store.push(source, "a/model", mode="create")
        proxy.add(Rule("hang_reply", "GET", times=1000))
        state = target.with_name("out.part.state")
        _killed_when(lambda: _noted(state) >= 16 * MIB, [url, "pull", str(target)])
        proxy.clear()
        assert not target.exists()
        noted, heard = _noted(state), list[int]()
        store.pull("a/model", target, progress=lambda done, total: heard.append(done))
        assert heard[0] > noted
        assert target.read_bytes() == source.read_bytes()
