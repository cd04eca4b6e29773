"""Large files sent in blocks, resumed after a kill."""

from __future__ import annotations

import base64
import hashlib
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobBlock, BlobClient

from stitch.errors import DiskError
from stitch.store.azure_answers import error_code
from stitch.store.base import Progress
from stitch.store.disk import own_disk

BLOCK = 8 * 1024 * 1024
"""Bytes of a block. Each costs the server time, and up to four are in memory at once."""

_UNDER_WAY = 4
"""Blocks sent at a time, at most: more bring nothing on a fast line (measured) and cost memory."""


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


def stage(
    blob: BlobClient, src: Path, *, left: Mapping[str, int], connections: int, progress: Progress | None
) -> Staged:
    """Uploads the blocks of a file that the service does not hold already.

    A block's id is the hash of the file up to its end, so an interrupted upload of the same bytes
    finds its blocks, and blocks of other bytes are never taken for them.

    Args:
        blob: what the blocks are for.
        src: the file.
        left: sizes of the blocks that earlier tries left, by id.
        connections: blocks under way at a time.
        progress: told of all bytes that are there, those of earlier tries included.

    Raises:
        DiskError: the file cannot be read.
        AzureError: a block failed; what was staged stays for the next try.
    """
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

    connections = min(connections, _UNDER_WAY)
    pool = ThreadPoolExecutor(connections, thread_name_prefix="stitch-up")
    try:
        for data in _pieces(src, BLOCK):
            digest.update(data)
            block = _block_id(digest.digest(), len(blocks))
            blocks.append(BlobBlock(block))
            size += len(data)
            if left.get(block) == len(data):
                done += len(data)
                continue
            sent += 1
            flying.append((pool.submit(_stage_block, blob, block, data), len(data)))
            del data
            if len(flying) >= connections:
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


def left_blocks(blob: BlobClient) -> dict[str, int] | None:
    """Sizes of the blocks that earlier tries left, by id; without the right to read them, none.

    Returns:
        None where the service knows neither such a blob nor blocks for one: nothing else need be asked.
    """
    try:
        _, uncommitted = blob.get_block_list("uncommitted")
    except HttpResponseError as error:
        if error.status_code in (401, 403):
            return {}
        if error_code(error) == "BlobNotFound":
            return None
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


def only(etag: str) -> dict[str, Any]:
    """SDK arguments that pin a request to one version."""
    return {"etag": f'"{etag}"', "match_condition": MatchConditions.IfNotModified}


def unless_present() -> dict[str, Any]:
    """SDK arguments that create and never overwrite."""
    return {"match_condition": MatchConditions.IfMissing}
