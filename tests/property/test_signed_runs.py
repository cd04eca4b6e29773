"""Whichever byte of whichever signed document or signature of a signed run is altered, `verify` finds it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stitch import layout
from stitch.client.keys import make_key
from stitch.config.settings import Security
from stitch.errors import ProtocolError
from stitch.layout import SIGNED, What
from stitch.proof.transcript import Transcript
from stitch.proof.verify import Verification
from stitch.store import MemoryStore
from stitch.sync.signing import Signing
from stitch.testing.federation import RUN_ID, Federation


@dataclass
class Signed:
    """A finished run of one site, which is also its lead, in a store whose owner alters bytes."""

    federation: Federation
    store: MemoryStore
    lead_key: str
    files: dict[str, bytes]
    folder: Path

    def put(self, path: str, data: bytes) -> None:
        file = self.folder / "file"
        file.write_bytes(data)
        self.store.push(file, f"{RUN_ID}/{path}", mode="replace")

    def prove(self, lead_key: str = "") -> str | None:
        signing = Signing(lead_key=lead_key or self.lead_key, lead="rush")
        return Verification(Transcript(self.federation.lanes(), signing=signing)).run().transcript_sha256


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    folder = tmp_path_factory.mktemp("signed")
    store = MemoryStore()
    federation = Federation(folder, store=store, sites=("rush",), num_passes=2)
    root = federation.settings("rush").root
    root.mkdir(parents=True)
    key = make_key(root).fingerprint
    federation.changes["security"] = Security(sign=True, lead_key=key)
    federation.start("rush")
    federation.run()
    named = ((path, layout.require(path).what) for path in federation.paths())
    kept = {path: federation.read(path) or b"" for path, what in named if what in SIGNED | {What.SIGNATURE}}
    return Signed(federation, store, key, kept, folder)


def test_it_holds_and_every_signed_document_has_its_signature(run: Signed) -> None:
    assert run.prove() is not None
    signatures = {path for path in run.files if layout.require(path).what is What.SIGNATURE}
    assert {layout.require(path).name for path in signatures} == run.files.keys() - signatures


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_an_altered_byte_is_found_without_any_noted_hash(run: Signed, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(run.files)))
    altered = bytearray(run.files[path])
    altered[data.draw(st.integers(0, len(altered) - 1))] ^= data.draw(st.integers(1, 255))
    run.put(path, bytes(altered))
    try:
        with pytest.raises(ProtocolError):
            run.prove()
    finally:
        run.put(path, run.files[path])


@given(place=st.integers(0, 63), digit=st.sampled_from("0123456789abcdef"))
def test_another_key_of_the_lead_proves_nothing(run: Signed, place: int, digit: str) -> None:
    other = run.lead_key[:place] + digit + run.lead_key[place + 1 :]
    if other != run.lead_key:
        with pytest.raises(ProtocolError, match="signed by another key"):
            run.prove(other)
