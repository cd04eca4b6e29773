"""A signature beside a document: a DSSE envelope with a statement on the document's exact bytes."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from stitch.wire.base import Document, Part, Sha256

Base64 = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]+={0,2}$", max_length=4096)]


class KeySignature(Part):
    """What one key made of the envelope; `keyid` is its fingerprint."""

    keyid: Sha256
    sig: Base64


class Signature(Document):
    """A DSSE envelope; `kind` and `public_key` are fields that other readers of DSSE pass over.

    Attributes:
        payloadType: says what the payload is.
        payload: base64 of the statement: `path` (with the run) and `sha256` of the document's bytes.
        signatures: of one key, an Ed25519 signature over the DSSE encoding of type and payload.
        public_key: the key's 32 bytes in hex; whoever knows its fingerprint needs nothing else.
    """

    NAME: ClassVar[str] = "signature"

    payloadType: str  # noqa: N815  the name that DSSE gives it
    payload: Base64
    signatures: tuple[KeySignature, ...] = Field(min_length=1, max_length=1)
    public_key: Sha256
