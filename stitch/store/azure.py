"""A store in an Azure Blob container, or in Azurite. Measured choices are explained where they are made."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobClient, ContentSettings
from requests.exceptions import RequestException

from stitch.clock import Clock
from stitch.errors import AlreadyExists, DigestMismatch, NotFound, StoreDenied, StoreError, StoreUnavailable
from stitch.store.azure_answers import DIGEST_NAME, entry_of, error_code, written_entry
from stitch.store.azure_client import API_VERSION, Connection, connect
from stitch.store.azure_download import Fetch, Part
from stitch.store.azure_errors import Scene, response_date, translate
from stitch.store.azure_read import entry_in, pieces, pinned, span
from stitch.store.azure_sas import Need
from stitch.store.azure_upload import left_blocks, only, stage, unless_present
from stitch.store.base import Entry, Match, Mode, Progress, Traits
from stitch.store.disk import own_disk, part_of, replace_file
from stitch.store.keys import check_key
from stitch.store.server_clock import ServerClock

if TYPE_CHECKING:
    from stitch.store.location import Location, StoreOptions

SINGLE_PUT = 16 * 1024 * 1024
"""Bytes up to which a file goes in one request, which a create-only token may send everywhere."""


def open_azure(location: Location, options: StoreOptions) -> AzureStore:
    """Opens a container without asking it anything yet.

    Raises:
        ConfigError: no usable credential.
    """
    server = ServerClock(options.clock)

    def hear(answer: Any) -> None:
        date = response_date(answer)
        if date:
            server.hear(date)

    connection = connect(
        endpoint=location.endpoint,
        container=location.container,
        token=location.token,
        environment=options.environment,
        ca_bundle=options.ca_bundle,
        connections=options.connections,
        heard=hear,
    )
    return AzureStore(
        connection,
        prefix=location.prefix,
        place=str(location),
        connections=options.connections,
        server=server,
        clock=options.clock,
    )


class AzureStore:
    """Keys as block blobs of one container. Open it with `open_store`.

    Args:
        connection: the container's client.
        prefix: what keys are put under, without slashes at its ends.
        place: account, container and prefix for messages.
        connections: pieces of a file under way at a time.
        server: remembers the `Date` of the last answer.
        clock: this machine's clocks.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        prefix: str,
        place: str,
        connections: int,
        server: ServerClock,
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._prefix = f"{prefix}/" if prefix else ""
        self._place = place
        self._connections = connections
        self._server = server
        self._clock = clock
        self._seen: dict[str, Entry] = {}

    @property
    def traits(self) -> Traits:
        """Azure Blob promises everything."""
        return Traits(atomic_create=True, compare_and_swap=True, server_time=True, ranged_reads=True)

    def stat(self, key: str) -> Entry | None:
        """See `Store.stat`."""
        with self._telling(f"stat {key}", "read"):
            return self._stat(key)

    def list(self, prefix: str) -> Iterator[Entry]:
        """See `Store.list`; one request for 5000 keys."""
        with self._telling(f"list {prefix}", "list"):
            for found in self._connection.container.list_blobs(
                name_starts_with=self._prefix + prefix, include=["metadata"]
            ):
                if (found.metadata or {}).get("hdi_isfolder") != "true":
                    yield entry_of(found.name.removeprefix(self._prefix), found)

    def pull(self, key: str, to: Path, *, unless: str = "", progress: Progress | None = None) -> Entry:
        """See `Store.pull`; on a fast line it takes one request."""
        path = part_of(to)
        with self._telling(f"pull {key}", "read"):
            entry, part = self._resumable(key, path)
            if entry and entry.etag == unless:
                return entry
            if part and entry:
                part.resume()
                digest = part.fill(
                    self._fetching(key, entry.etag), connections=self._connections, progress=progress
                )
            else:
                with self._connection.reader.first(self._blob(key).url, unless) as answer:
                    if answer.status_code == 304:
                        known = self._known(key, unless)
                        # Another version may have come between the two answers: then that one is pulled.
                        return known if known.etag == unless else self.pull(key, to, progress=progress)
                    entry = entry_in(key, answer)
                    part = Part(path, entry, clock=self._clock)
                    part.begin()
                    fetch = self._fetching(key, entry.etag, answer)
                    digest = part.fill(fetch, connections=self._connections, progress=progress)
            _require_whole(key, path, part, entry, digest)
        with own_disk("write", to):
            replace_file(path, to)
            part.settle()
        if progress:
            progress(entry.size, entry.size)
        self._seen[key] = replace(entry, digest=digest)
        return self._seen[key]

    def push(
        self, src: Path, key: str, *, mode: Mode, digest: str = "", progress: Progress | None = None
    ) -> Entry:
        """See `Store.push`; the content's SHA-256 is kept in the blob's metadata."""
        blob = self._blob(key)
        with own_disk("read", src):
            size = src.stat().st_size
        if size <= SINGLE_PUT:
            entry = self._push_small(blob, src, key, mode, digest)
        else:
            entry = self._push_large(blob, src, key, mode, digest, progress)
        if progress:
            progress(entry.size, entry.size)
        return entry

    def now(self) -> datetime:
        """See `Store.now`: from the last answer's `Date`, or from one small request."""
        known = self._server.now()
        if known is None:
            with suppress(NotFound, StoreDenied), self._telling("ask the time", "read"):
                self._stat("clock")  # any answer carries the time, a refusal too
            known = self._server.now()
        if known is None:
            raise StoreUnavailable(f"{self._place} gave no time", hint="A proxy that strips the Date header?")
        return known

    def _push_small(self, blob: BlobClient, src: Path, key: str, mode: Mode, digest: str) -> Entry:
        with own_disk("read", src):
            content = src.read_bytes()
        sent = hashlib.sha256(content).hexdigest()
        _require_digest(src, key, sent, digest)
        settings = ContentSettings(
            content_type="application/octet-stream",
            content_md5=bytearray(hashlib.md5(content, usedforsecurity=False).digest()),
        )
        try:
            with self._telling(f"push {key}", _need(mode), visible_write=True):
                answer = blob.upload_blob(
                    content,
                    length=len(content),
                    metadata={DIGEST_NAME: sent},
                    content_settings=settings,
                    validate_content="md5",
                    overwrite=mode != "create",
                    **(only(mode.etag) if isinstance(mode, Match) else {}),
                )
        except StoreDenied:
            if mode == "create" and self._is_there(key):
                raise AlreadyExists(f"{key} is already in {self._place}") from None
            raise
        return written_entry(key, size=len(content), digest=sent, answer=answer)

    def _push_large(
        self,
        blob: BlobClient,
        src: Path,
        key: str,
        mode: Mode,
        digest: str,
        progress: Progress | None,
    ) -> Entry:
        with self._telling(f"push {key}", _need(mode)):
            left = left_blocks(blob)
            if left is not None or mode != "create":
                self._refuse_early(key, mode)
            staged = stage(blob, src, left=left or {}, connections=self._connections, progress=progress)
        _require_digest(src, key, staged.digest, digest)
        with self._telling(f"push {key}", _need(mode), visible_write=True):
            answer = blob.commit_block_list(
                staged.blocks,
                metadata={DIGEST_NAME: staged.digest},
                content_settings=ContentSettings(content_type="application/octet-stream"),
                **(only(mode.etag) if isinstance(mode, Match) else {}),
                **(unless_present() if mode == "create" else {}),
            )
        return written_entry(key, size=staged.size, digest=staged.digest, answer=answer)

    def _refuse_early(self, key: str, mode: Mode) -> None:
        """Finds a conflict before the bytes are sent, where the token may look."""
        if mode == "replace":
            return
        try:
            present = self._stat(key)
        except HttpResponseError as error:
            if error.status_code in (401, 403):
                return
            raise
        if mode == "create" and present:
            raise AlreadyExists(f"{key} is already in {self._place}")
        if isinstance(mode, Match) and (present is None or present.etag != mode.etag):
            raise AlreadyExists(f"{key} is not the version that was read")

    def _is_there(self, key: str) -> bool:
        """Whether a refused create met a blob: a create-only token is refused before its condition."""
        with suppress(StoreError), self._telling(f"stat {key}", "read"):
            return self._stat(key) is not None
        return False

    def _stat(self, key: str) -> Entry | None:
        try:
            return entry_of(key, self._blob(key).get_blob_properties())
        except ResourceNotFoundError as error:
            if error_code(error) in ("BlobNotFound", "ResourceNotFound"):
                return None
            raise

    def _resumable(self, key: str, path: Path) -> tuple[Entry | None, Part | None]:
        """The present version, if an earlier pull left a part here, and that part if it is of it."""
        left = Part.left_behind(path)
        entry = self._stat(key) if left else None
        return entry, Part(path, entry, clock=self._clock) if entry and entry.etag == left else None

    def _fetching(self, key: str, etag: str, first: Any = None) -> Fetch:
        """Fetches ranges of one version; the first one's answer may be under way already."""
        reader, url = self._connection.reader, self._blob(key).url

        def fetch(offset: int, length: int) -> Generator[bytes, None, None]:
            if first is not None and offset == 0:
                yield from pieces(first, length)
                return
            try:
                with reader.get(url, span(offset, length) | pinned(etag)) as answer:
                    yield from pieces(answer, length)
            except HttpResponseError as error:
                if error.status_code == 412:
                    raise StoreUnavailable(f"pull {key}: another version came while it was read") from None
                raise

        return fetch

    def _known(self, key: str, etag: str) -> Entry:
        """The entry of a version that a 304 called unchanged; the answer itself may not describe it."""
        seen = self._seen.get(key)
        if seen is None or seen.etag != etag:
            seen = self._stat(key)
        if seen is None:
            raise NotFound(f"pull {key}: not in the store")
        self._seen[key] = seen
        return seen

    def _blob(self, key: str) -> BlobClient:
        return self._connection.container.get_blob_client(self._prefix + check_key(key))

    @contextmanager
    def _telling(self, what: str, need: Need, *, visible_write: bool = False) -> Iterator[None]:
        """Turns what the SDK raises inside into a `StoreError`."""
        try:
            yield
        except StoreError:
            raise
        except (AzureError, RequestException, OSError) as error:
            raise translate(error, self._scene(what, need, visible_write=visible_write)) from None

    def _scene(self, what: str, need: Need, *, visible_write: bool) -> Scene:
        return Scene(
            what=what,
            need=need,
            place=self._place,
            container=self._connection.container.container_name,
            host=urlsplit(self._place).hostname or "",
            proxy=self._connection.proxy,
            token=self._connection.token,
            api_version=API_VERSION,
            issuer=self._connection.issuer,
            visible_write=visible_write,
        )


def _require_whole(key: str, path: Path, part: Part, entry: Entry, digest: str) -> None:
    with own_disk("read", path):
        size = path.stat().st_size
    if size != entry.size or (entry.digest and digest != entry.digest):
        part.discard()
        raise StoreUnavailable(f"pull {key}: the bytes that arrived are not those that were stored")


def _need(mode: Mode) -> Need:
    return "create" if mode == "create" else "overwrite"


def _require_digest(src: Path, key: str, sent: str, digest: str) -> None:
    if digest and sent != digest:
        raise DigestMismatch(f"{src} changed after it was sealed: nothing was sent as {key}")
