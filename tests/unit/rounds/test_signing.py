"""Signatures as values: who made one, of which bytes, at which place; readable by others than us."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]  # exported, without saying so

from stitch.errors import SignatureRefused, StitchError
from stitch.rounds import Code, unsigned
from stitch.rounds.signing import Signer, fingerprint_of, signer_of
from stitch.wire import Manifest
from tests.golden.test_documents import FILES

DATA = next(file for file in FILES if file.stem == "manifest").read_bytes()
GOLDEN = next(file for file in FILES if file.stem == "signature").read_bytes()
PLACE = "icu-mortality-1/global/manifest.json"
OURS = Signer(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
OTHER = Signer(Ed25519PrivateKey.from_private_bytes(bytes(32)))


def test_a_signature_names_its_key_and_is_the_same_every_time() -> None:
    assert OURS.sign(DATA, place=PLACE) == GOLDEN
    assert signer_of(GOLDEN, DATA, place=PLACE) == OURS.fingerprint
    assert OURS.fingerprint == hashlib.sha256(bytes.fromhex(OURS.public_key)).hexdigest()
    assert fingerprint_of(OTHER.public_key) != OURS.fingerprint


@pytest.mark.parametrize("at", range(0, len(DATA), 7))
def test_it_is_of_these_bytes_alone(at: int) -> None:
    altered = bytearray(DATA)
    altered[at] ^= 1
    with pytest.raises(SignatureRefused):
        signer_of(GOLDEN, bytes(altered), place=PLACE)


def test_it_is_of_this_place_alone() -> None:
    with pytest.raises(SignatureRefused, match="another-run/global/manifest"):
        signer_of(GOLDEN, DATA, place="another-run/global/manifest.json")


@pytest.mark.parametrize("bit", range(8))
def test_no_byte_of_a_signature_or_key_can_be_altered(bit: int) -> None:
    for at in range(len(GOLDEN)):
        altered = bytearray(GOLDEN)
        altered[at] ^= 1 << bit
        with pytest.raises(StitchError):
            signer_of(bytes(altered), DATA, place=PLACE)


def with_key_of(other: Signer) -> bytes:
    """Our signature under another's name."""
    raw = json.loads(GOLDEN)
    raw["public_key"], raw["signatures"][0]["keyid"] = other.public_key, other.fingerprint
    return json.dumps(raw, indent=2).encode() + b"\n"


def named_as(other: Signer) -> bytes:
    """Another's signature that claims our key by its name alone."""
    raw = json.loads(other.sign(DATA, place=PLACE))
    raw["signatures"][0]["keyid"] = OURS.fingerprint
    return json.dumps(raw, indent=2).encode() + b"\n"


@pytest.mark.parametrize("forge", [with_key_of, named_as])
def test_a_name_is_not_borrowed(forge: Callable[[Signer], bytes]) -> None:
    with pytest.raises(SignatureRefused):
        signer_of(forge(OTHER), DATA, place=PLACE)


def test_another_reader_of_dsse_finds_the_same() -> None:
    envelope = Envelope.from_dict(json.loads(GOLDEN))
    key = SSlibKey(OURS.fingerprint, "ed25519", "ed25519", {"public": OURS.public_key})
    assert set(envelope.verify([key], 1)) == {OURS.fingerprint}
    stated = json.loads(envelope.payload)
    assert stated == {"path": PLACE, "sha256": hashlib.sha256(DATA).hexdigest()}
    stranger = SSlibKey(OURS.fingerprint, "ed25519", "ed25519", {"public": OTHER.public_key})
    with pytest.raises(VerificationError):
        envelope.verify([stranger], 1)


def test_a_manifest_of_the_golden_run_is_what_is_signed() -> None:
    assert Manifest.parse(DATA, source="").run_id == PLACE.partition("/")[0]


@pytest.mark.parametrize(
    ("signer", "listed", "reason"),
    [
        ("", "a", "it is not signed"),
        ("a", None, "the site has no key on the roster"),
        ("b", "a", "it is signed by another key than the roster's"),
    ],
)
def test_a_pass_that_is_not_its_sites_own_is_not_admitted(
    signer: str, listed: str | None, reason: str
) -> None:
    found = unsigned(signer, listed)
    assert found is not None
    assert (found, found.code) == (reason, Code.SIGNATURE)
    assert unsigned("a", "a") is None
