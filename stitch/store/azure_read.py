"""GETs that stream: the SDK's own download holds every range in memory, twice, and repeats by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest

from stitch.errors import StoreUnavailable
from stitch.store.azure_answers import DIGEST_NAME, plain
from stitch.store.base import Entry


@dataclass(frozen=True, slots=True)
class Signed:
    """What makes a GET ours: a query string or a header, made anew for each request.

    Attributes:
        query: gives a SAS token, or "".
        headers: gives a sign-in's header, or nothing.
    """

    query: Callable[[], str] = field(repr=False)
    headers: Callable[[], Mapping[str, str]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Reader:
    """Sends GETs through the client's own transport: one session, one set of connections.

    Attributes:
        transport: the client's.
        proxies: by scheme, or None.
        signed: the credential.
        api_version: of the service.
        heard: called with each answer, for its `Date`.
    """

    transport: RequestsTransport
    proxies: dict[str, str] | None = field(repr=False)
    signed: Signed
    api_version: str
    heard: Callable[[Any], None]

    @contextmanager
    def get(self, url: str, conditions: Mapping[str, str]) -> Iterator[Any]:
        """An answer whose body has not been read yet.

        Args:
            url: the blob's, without a token.
            conditions: headers such as `Range` and `If-Match`.

        Raises:
            HttpResponseError: any answer but 200, 206 and 304.
            AzureError: no answer.
        """
        with closing(self._send(url, conditions)) as answer:
            yield _accepted(answer)

    @contextmanager
    def first(self, url: str, known: str) -> Iterator[Any]:
        """The answer to the first GET of a blob, whose headers describe the whole: see `get`.

        Args:
            url: the blob's, without a token.
            known: an etag; of that version only a 304 comes.
        """
        with closing(self._send(url, {"If-None-Match": f'"{known}"'} if known else {})) as answer:
            yield _accepted(answer)

    def _send(self, url: str, conditions: Mapping[str, str]) -> Any:
        query = self.signed.query()
        request = HttpRequest(
            "GET",
            f"{url}?{query}" if query else url,
            headers={
                "x-ms-version": self.api_version,
                "Accept-Encoding": "identity",  # a proxy that compresses would change the length
                **self.signed.headers(),
                **conditions,
            },
        )
        answer = self.transport.send(request, stream=True, proxies=self.proxies)
        self.heard(answer)
        return answer


def _accepted(answer: Any) -> Any:
    if answer.status_code not in (200, 206, 304):
        answer.read()
        raise HttpResponseError(message=f"status {answer.status_code}", response=answer)
    return answer


def span(offset: int, length: int) -> dict[str, str]:
    """The header that asks for these bytes."""
    return {"Range": f"bytes={offset}-{offset + length - 1}"}


def pinned(etag: str) -> dict[str, str]:
    """The header that asks for this version or nothing."""
    return {"If-Match": f'"{etag}"'}


def entry_in(key: str, answer: Any) -> Entry:
    """The entry that the headers of a whole GET describe.

    Raises:
        StoreUnavailable: they do not say how long it is.
    """
    headers = answer.headers
    if "Content-Length" not in headers:
        raise StoreUnavailable(f"pull {key}: the answer has no length", hint="A proxy that rewrites answers?")
    modified = parsedate_to_datetime(headers["Last-Modified"]) if "Last-Modified" in headers else None
    return Entry(
        key=key,
        size=int(headers["Content-Length"]),
        etag=plain(headers.get("ETag", "")),
        modified=modified.astimezone(UTC) if modified else datetime.now(UTC),
        digest=headers.get(f"x-ms-meta-{DIGEST_NAME}"),
    )


def pieces(answer: Any, length: int) -> Iterator[bytes]:
    """The body in pieces, which must be exactly so long.

    Raises:
        StoreUnavailable: it was cut, or is longer.
        AzureError: the connection broke.
    """
    left = length
    for piece in answer.iter_raw():
        left -= len(piece)
        if left < 0:
            break
        yield piece
    if left:
        raise StoreUnavailable(f"an answer of {length} bytes came with {length - left}")
