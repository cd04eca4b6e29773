"""Large files in pieces: block upload that resumes after a kill, ranged download pinned to one version."""

from __future__ import annotations

import base64
import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobBlock, BlobClient

from stitch.errors import DiskError
from stitch.store.base import Progress
from stitch.store.disk import CHUNK, own_disk

BLOCK = 4 * 1024 * 1024
"""Bytes of a block. The service's limit is 50,000 blocks, so a file may have 195 GiB."""

RANGE = 8 * 1024 * 1024
"""Bytes of one ranged GET."""


@dataclass(frozen=True, slots=True)
class Staged:
    """What an upload has put beside the blob, invisible until the block list is committed.

    Attributes:
        blocks: ids in order.
        digest: hex SHA-256 of the bytes that were read and sent.
        size: their number.
        sent: how many blocks went over the network; the others were there.
    """

    blocks: list[BlobBlock]
    digest: str
    size: int
    sent: int


def stage(blob: BlobClient, src: Path, *, connections: int, progress: Progress | None) -> Staged:
    """Uploads the blocks of a file that the service does not hold already.

    A block's id is the hash of the file up to its end, so an interrupted upload of the same bytes
    finds its blocks, and blocks of other bytes are never taken for them.

    Raises:
        DiskError: the file cannot be read.
        AzureError: a block failed; what was staged stays for the next try.
    """
    present = _present_blocks(blob)
    digest = hashlib.sha256()
    blocks: list[BlobBlock] = []
    size = sent = done = 0
    total = _size(src)
    flying: deque[tuple[Future[Any], int]] = deque()

    def land() -> None:
        nonlocal done
        future, length = flying.popleft()
        future.result()
        done += length
        if progress:
            progress(done, total)

    pool = ThreadPoolExecutor(connections, thread_name_prefix="stitch-up")
    try:
        for data in _pieces(src, BLOCK):
            digest.update(data)
            block = _block_id(digest.digest(), len(blocks))
            blocks.append(BlobBlock(block))
            size += len(data)
            if present.get(block) == len(data):
                done += len(data)
                continue
            sent += 1
            flying.append((pool.submit(_stage_block, blob, block, data), len(data)))
            del data
            if len(flying) > connections:
                land()
        while flying:
            land()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    if size != total:
        raise DiskError(f"{src} changed while it was sent", hint="Run the same command again.")
    return Staged(blocks, digest.hexdigest(), size, sent)


def _block_id(prefix: bytes, number: int) -> str:
    """48 characters for every block: the service wants equal lengths within a blob."""
    return f"{number:06d}-" + base64.urlsafe_b64encode(prefix[:30]).decode() + "s"


def _stage_block(blob: BlobClient, block: str, data: bytes) -> None:
    blob.stage_block(block, data, length=len(data), validate_content="md5")


def _present_blocks(blob: BlobClient) -> dict[str, int]:
    """Blocks that an earlier try left, by id. Without the right to read them, none."""
    try:
        _, uncommitted = blob.get_block_list("uncommitted")
    except HttpResponseError as error:
        if error.status_code in (401, 403, 404):
            return {}
        raise
    return {str(block.id): int(block.size or 0) for block in uncommitted}


def _pieces(src: Path, length: int) -> Iterator[bytes]:
    reading = own_disk("read", src)
    with reading:
        stream = src.open("rb", buffering=0)
    with stream:
        while True:
            with reading:
                piece = stream.read(length)
            if not piece:
                return
            yield piece


def _size(src: Path) -> int:
    with own_disk("read", src):
        return src.stat().st_size


class Download:
    """One file on its way into `<name>.part`, which holds a prefix of one version at any time.

    `<name>.part.etag` beside it names the version, so that a later pull continues only that.
    """

    def __init__(self, part: Path, *, etag: str, size: int) -> None:
        self._part = part
        self._note = part.with_name(part.name + ".etag")
        self._etag = etag
        self._size = size
        self._digest = hashlib.sha256()
        self._done = 0

    @staticmethod
    def resumable(part: Path) -> str:
        """The etag of the version that an earlier pull left here, or ""."""
        note = part.with_name(part.name + ".etag")
        if not part.exists() or not note.exists():
            return ""
        with own_disk("read", note):
            return note.read_text(encoding="utf-8")

    def resume(self) -> None:
        """Hashes the prefix that is there and continues behind it."""
        with own_disk("read", self._part), self._part.open("r+b") as stream:
            while chunk := stream.read(min(CHUNK, self._size - self._done)):
                self._digest.update(chunk)
                self._done += len(chunk)
            stream.truncate(self._done)

    def begin(self, first: bytes) -> None:
        """Starts anew with the first bytes of the version."""
        with own_disk("write", self._part):
            self._note.unlink(missing_ok=True)
            self._part.write_bytes(first)
            if len(first) < self._size:
                self._note.write_text(self._etag, encoding="utf-8")
        self._digest.update(first)
        self._done = len(first)

    def run(self, fetch: Callable[[int, int], bytes], *, connections: int, progress: Progress | None) -> str:
        """Fetches the rest in parallel ranges, writes it in order, and returns the whole file's digest.

        Args:
            fetch: gives exactly the bytes at (offset, length) of the version.
            connections: ranges asked for at a time.
            progress: told after each range.

        Raises:
            DiskError: the part cannot be written.
        """
        flying: deque[Future[bytes]] = deque()
        offsets = iter(range(self._done, self._size, RANGE))
        pool = ThreadPoolExecutor(connections, thread_name_prefix="stitch-down")
        try:
            with own_disk("write", self._part), self._part.open("ab", buffering=0) as sink:
                while True:
                    while len(flying) < connections and (offset := next(offsets, None)) is not None:
                        flying.append(pool.submit(fetch, offset, min(RANGE, self._size - offset)))
                    if not flying:
                        break
                    data = flying.popleft().result()
                    sink.write(data)
                    self._digest.update(data)
                    self._done += len(data)
                    del data
                    if progress:
                        progress(self._done, self._size)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return self._digest.hexdigest()

    def discard(self) -> None:
        """Forgets the part: its bytes are not what the version should hold."""
        self._part.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """Removes the note of the version, once the part has become the file."""
        self._note.unlink(missing_ok=True)


def only(etag: str) -> dict[str, Any]:
    """SDK arguments that pin a request to one version."""
    return {"etag": f'"{etag}"', "match_condition": MatchConditions.IfNotModified}


def unless_changed(etag: str) -> dict[str, Any]:
    """SDK arguments that ask only for another version than this."""
    return {"etag": f'"{etag}"', "match_condition": MatchConditions.IfModified}


def unless_present() -> dict[str, Any]:
    """SDK arguments that create and never overwrite."""
    return {"match_condition": MatchConditions.IfMissing}
