"""Whichever byte of whichever sealed file is altered, `verify` finds it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stitch import layout
from stitch.errors import NotFound, ProtocolError
from stitch.layout import What
from stitch.proof.transcript import Transcript
from stitch.proof.verify import Verification
from stitch.rounds.exhibits import list_sha256
from stitch.store import MemoryStore
from stitch.store.lanes import Lanes
from stitch.testing.federation import Federation
from stitch.wire import Seal
from tests.golden.make_run import RUN, SITES

GOLDEN = Path(__file__).parents[1] / "golden" / "run" / RUN
SEALED = {
    What.MANIFEST,
    What.ROSTER,
    What.JOIN,
    What.VERDICT,
    What.ABORT,
    What.SEAL,
    What.MODEL,
    What.ATTACHMENT,
    What.DONE,
}
"""Everything but what says who lives and does what: terms, heartbeats, events, orchestration."""

FILES = {
    path.relative_to(GOLDEN).as_posix(): path.read_bytes()
    for path in sorted(GOLDEN.rglob("*"))
    if path.is_file() and layout.require(path.relative_to(GOLDEN).as_posix()).what in SEALED
}
LISTED_ONLY = {
    "global/DONE.json",
    "global/roster/0001.json",
    "sites/nu/join/0001.json",
    "sites/rush/join/0001.json",
    "sites/uchicago/join/0001.json",
    "sites/uchicago/pass_002/metrics.json",
}
"""Whose hash no other document holds: the chain's head, what is named by number, an excluded pass."""


class Altered:
    """The golden run in a store whose owner alters bytes."""

    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore()
        self._file = folder / "file"
        for path in sorted(GOLDEN.rglob("*")):
            if path.is_file():
                self.put(path.relative_to(GOLDEN).as_posix(), path.read_bytes())

    def put(self, path: str, data: bytes) -> None:
        self._file.write_bytes(data)
        self.store.push(self._file, f"{RUN}/{path}", mode="replace")

    def lanes(self) -> Lanes:
        names = (layout.GLOBAL, *(layout.site_lane(site) for site in SITES))
        return Lanes(RUN, dict.fromkeys(names, self.store), {}, writable=frozenset())

    def transcript_sha256(self) -> str:
        """Prove the run; gives the hash of the list of its sealed files.

        Raises:
            ProtocolError: it does not hold.
        """
        found = Verification(Transcript(self.lanes())).run().transcript_sha256
        assert found is not None
        return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Altered:
    return Altered(tmp_path_factory.mktemp("altered"))


@pytest.fixture(scope="module")
def noted(run: Altered) -> str:
    return run.transcript_sha256()


flips = st.sampled_from(sorted(FILES)).flatmap(
    lambda path: st.tuples(st.just(path), st.integers(0, len(FILES[path]) - 1), st.integers(1, 255))
)


@settings(max_examples=250, deadline=None)
@given(flip=flips)
def test_an_altered_byte_of_a_sealed_file_is_found(
    flip: tuple[str, int, int], run: Altered, noted: str
) -> None:
    path, place, bits = flip
    data = bytearray(FILES[path])
    data[place] ^= bits
    run.put(path, bytes(data))
    try:
        now = run.transcript_sha256()
    except ProtocolError:
        return
    finally:
        run.put(path, FILES[path])
    assert path in LISTED_ONLY, "a byte that the chain covers was altered, and the chain held"
    assert now != noted, "the list of all sealed files has the hash that was noted before"


def test_nothing_that_is_sealed_is_left_out(run: Altered) -> None:
    record = Transcript(run.lanes())
    Verification(record).run()
    assert set(record.digests) == set(FILES)


def test_the_hash_of_all_can_be_made_with_sha256sum(run: Altered, noted: str) -> None:
    """`find ... -type f | sha256sum | sort`: nothing of ours is needed."""
    import hashlib  # noqa: PLC0415  the auditor's own means

    lines = [f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in sorted(FILES.items())]
    assert hashlib.sha256("".join(lines).encode()).hexdigest() == noted
    assert list_sha256({path: hashlib.sha256(data).hexdigest() for path, data in FILES.items()}) == noted


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_file_that_is_missing_is_found(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = data.draw(st.sampled_from(sorted(FILES)))
    run = Altered(tmp_path_factory.mktemp("missing"))
    before = run.transcript_sha256()
    del run.store._held[f"{RUN}/{path}"]
    wanted = NotFound if path == "global/manifest.json" else ProtocolError
    try:
        now = run.transcript_sha256()
    except wanted:
        return
    assert now != before


def test_a_federation_of_this_version_holds_and_every_file_of_it_is_covered(tmp_path: Path) -> None:
    federation = Federation(tmp_path, num_passes=3)
    for site in federation.sites:
        federation.start(site)
    federation.run()
    record = Transcript(federation.lanes())
    proof = Verification(record).run()
    assert (len(proof.passes), proof.finished, proof.unread) == (4, "completed", ())
    keys = {path: layout.require(path) for path in federation.paths()}
    assert set(record.digests) == {path for path, key in keys.items() if key.what in SEALED}
    assert all(one.summed for one in proof.passes)
    last = Seal.parse(federation.read("global/pass_003/metrics.json") or b"", source="seal")
    assert proof.passes[-1].model_sha256 == last.model_sha256
