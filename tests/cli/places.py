"""Where a test needs another machine or another disk: a namespace of its own where this account may have one.

Linux lets most accounts have one, root or not; containers and some distributions forbid it even to root.
There `as_if.py` makes this process behave as it would, so that the same assertions hold everywhere.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli.federation import Site

_AS_IF = (sys.executable, str(Path(__file__).with_name("as_if.py")))
_UNSHARE = ("unshare", "--map-root-user", "--mount", "--uts", "sh", "-c")
_MOUNT = 'mount -t tmpfs -o "$1" tmpfs "$2"'
_SIZE = 1 << 20
_PAGE = 4096


@functools.cache
def may_have_namespaces() -> bool:
    """Whether this account gets a host name and a mount of its own; tried once."""
    if sys.platform != "linux" or not all(map(shutil.which, ("unshare", "nsenter", "mount", "hostname"))):
        return False
    with tempfile.TemporaryDirectory() as folder:
        tried = [*_UNSHARE, f"{_MOUNT} && hostname elsewhere", "sh", "size=1m", folder]
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def on_host(host: str) -> Sequence[str]:
    """The words before a command that run it on a machine of this name."""
    if may_have_namespaces():
        return (*_UNSHARE, f'hostname {host}; exec "$@"', "sh")
    return (*_AS_IF, "--host", host)


def killed_while_it_writes(folder: Path, *, after: int) -> Sequence[str]:
    """The words before a command that kill it (SIGKILL) when it has written so many files below a folder."""
    return (*_AS_IF, "--refuse", str(folder), "--after", str(after), "--error", "KILL")


@dataclass
class Disk:
    """The disk that a site's mirror lies on.

    Attributes:
        site: whose.
        folder: the site's `stitch_store`, as the site names it.
        seen: the same folder as the test can open it.
    """

    site: Site
    folder: Path
    seen: Path

    def used(self) -> int:
        """Bytes of all files on it."""
        return sum(path.stat().st_size for path in self.seen.rglob("*") if path.is_file())

    def leave(self, pages: int) -> None:
        """Fill it but for so many pages of 4 KiB."""
        ballast = self.seen / "ballast"
        ballast.unlink(missing_ok=True)
        ballast.write_bytes(b"x" * max(0, shutil.disk_usage(self.seen).free - pages * _PAGE))

    def free(self) -> None:
        """Throw away what fills it."""
        (self.seen / "ballast").unlink()


class AsIfDisk(Disk):
    """As a `Disk` of one MiB: a page stands for a file that can still be made."""

    def leave(self, pages: int) -> None:
        """See `Disk`."""
        self.site.wrap = (*_AS_IF, "--refuse", str(self.folder), "--after", str(pages))

    def free(self) -> None:
        """See `Disk`."""
        self.site.wrap = ()


@contextmanager
def small_disk(site: Site) -> Iterator[Disk]:
    """The site's mirror on a disk of one MiB."""
    folder = site.root / "stitch_store"
    if may_have_namespaces():
        with _mounted(site, folder, f"size={_SIZE}") as seen:
            yield Disk(site, folder, seen)
        return
    folder.mkdir()
    before = site.wrap
    site.wrap = (*_AS_IF, "--full", str(_SIZE))
    try:
        yield AsIfDisk(site, folder, folder)
    finally:
        site.wrap = before


@contextmanager
def read_only(site: Site) -> Iterator[Disk]:
    """The site's mirror, still empty, on a disk that cannot be written."""
    folder = site.root / "stitch_store"
    if may_have_namespaces():
        with _mounted(site, folder, "ro") as seen:
            yield Disk(site, folder, seen)
        return
    folder.mkdir()
    before = site.wrap
    if os.geteuid() == 0:  # a folder's mode does not bind root
        site.wrap = (*_AS_IF, "--refuse", str(folder), "--error", "EACCES")
    folder.chmod(0o500)
    try:
        yield Disk(site, folder, folder)
    finally:
        site.wrap = before
        folder.chmod(0o700)


@contextmanager
def _mounted(site: Site, folder: Path, options: str) -> Iterator[Path]:
    """A file system that only the site's commands see; the test sees it through a process that holds it."""
    folder.mkdir()
    script = f"{_MOUNT} && echo mounted && exec cat"
    with subprocess.Popen(
        [*_UNSHARE, script, "sh", options, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"mounted\n"
        before = site.wrap
        enter = ("nsenter", "--preserve-credentials", "--user", "--mount", f"--target={holder.pid}", "--")
        site.wrap = (*enter, "sh", "-c", 'cd "$0" && exec "$@"', str(site.root))
        try:
            yield Path(f"/proc/{holder.pid}/root", *folder.parts[1:])
        finally:
            site.wrap = before
            holder.stdin.close()
