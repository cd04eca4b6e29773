"""Signing a document and telling who signed it: Ed25519 in a DSSE envelope. Bytes in, values out.

The statement names the place as well as the bytes, so that a signed file counts nowhere else
(docs/protocol.md, signature).
"""

from __future__ import annotations

import base64
import hashlib
import json

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from stitch.errors import SignatureRefused
from stitch.wire import Signature, sha256

PAYLOAD_TYPE = "application/vnd.clif-stitch.statement+json"


def fingerprint_of(public_key: str) -> str:
    """SHA-256 of a public key's 32 bytes, in hex.

    Args:
        public_key: the 32 bytes in hex.
    """
    return hashlib.sha256(bytes.fromhex(public_key)).hexdigest()


class Signer:
    """Signs with one private key, which it neither shows nor writes.

    Args:
        key: the private key.
    """

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public_key = key.public_key().public_bytes_raw().hex()
        self.fingerprint = fingerprint_of(self.public_key)

    def sign(self, data: bytes, *, place: str) -> bytes:
        """The envelope's bytes; the same every time, since Ed25519 draws nothing at random.

        Args:
            data: the document's exact bytes.
            place: its key in the store, with the run.
        """
        sig = self._key.sign(_encoded(PAYLOAD_TYPE, _statement(data, place)))
        return _envelope(data, place, public_key=self.public_key, sig=sig)


def signer_of(envelope: bytes, data: bytes, *, place: str) -> str:
    """The fingerprint of the key that signed these bytes at this place; whether it may is another question.

    Args:
        envelope: the signature's bytes.
        data: the signed document's bytes.
        place: its key in the store, with the run.

    Raises:
        SignatureRefused: it is no signature of them.
        BadDocument, UnsupportedKind: it cannot be read.
    """
    found = Signature.parse(envelope, source=f"the signature of {place}")
    try:
        sig = base64.b64decode(found.signatures[0].sig, validate=True)
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(found.public_key))
        key.verify(sig, _encoded(PAYLOAD_TYPE, _statement(data, place)))
    except (InvalidSignature, ValueError):
        raise SignatureRefused(
            f"{place}: its signature does not hold for these bytes at this place"
        ) from None
    if _envelope(data, place, public_key=found.public_key, sig=sig) != envelope:
        raise SignatureRefused(f"{place}: its signature is not written as the protocol says")
    return fingerprint_of(found.public_key)


def _envelope(data: bytes, place: str, *, public_key: str, sig: bytes) -> bytes:
    """One way to write it, so that no byte can be altered unseen and a repeated create is the same."""
    return Signature.make(
        payloadType=PAYLOAD_TYPE,
        payload=_base64(_statement(data, place)),
        signatures=({"keyid": fingerprint_of(public_key), "sig": _base64(sig)},),
        public_key=public_key,
    ).dump()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _statement(data: bytes, place: str) -> bytes:
    stated = {"path": place, "sha256": sha256(data)}
    return json.dumps(stated, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def _encoded(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: lengths first, so that type and payload cannot be confused."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
