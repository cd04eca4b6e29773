"""Reading a record for its proof: redone passes, aborted attempts, lanes out of sight, hostile lanes."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stitch import layout
from stitch.errors import BadDocument, CommitmentMismatch, DigestMismatch, ProtocolError, Stopped
from stitch.layout import PassRef
from stitch.proof.transcript import Transcript
from stitch.proof.verify import Verification
from stitch.store import FolderStore
from stitch.store.lanes import Lanes
from stitch.views.proof import Proof
from tests.golden.make_run import RUN, SITES

GOLDEN = Path(__file__).parents[2] / "golden" / "run"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A copy of the golden run, to alter."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "store")) / RUN


def lanes(run: Path, *sites: str) -> Lanes:
    store = FolderStore(run.parent)
    names = [layout.GLOBAL, *(layout.site_lane(site) for site in sites or SITES)]
    return Lanes(RUN, dict.fromkeys(names, store), {}, writable=frozenset())


def prove(run: Path, *sites: str) -> Proof:
    return Verification(Transcript(lanes(run, *sites))).run()


def read(path: Path) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(path.read_bytes())
    return raw


def write(path: Path, raw: dict[str, Any]) -> str:
    """Write a document; gives its hash."""
    data = json.dumps(raw, indent=2).encode()
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def use(run: Path, seal: Path, *, try_: int = 0, **changed: Any) -> None:
    """Let global 2 be made of nu's pass at `seal`, with fields changed, in an attempt; all hashes agree."""
    rounds = run / "global" / "rounds"
    closed = read(rounds / "pass_002.a0.json")
    own = read(seal) | changed
    nu = closed["inputs"][0] | {"attempt": own["attempt"], "metrics_sha256": write(seal, own)}
    used = [nu, *closed["inputs"][1:]]
    decided = write(rounds / f"pass_002.a{try_}.json", closed | {"attempt": try_, "inputs": used})
    path = run / PassRef(2).seal
    made = read(path) | {"attempt": try_}
    made["round"] |= {"attempt": try_, "inputs": used, "verdict_sha256": decided}
    write(run / layout.done(), read(run / layout.done()) | {"final_metrics_sha256": write(path, made)})


def redo_nu(run: Path) -> None:
    """Round 2 as it is when attempt 0 was aborted and nu was asked for pass 2 once more."""
    shutil.copytree(run / "sites/nu/pass_002", run / "sites/nu/pass_002.a1")
    use(run, run / "sites/nu/pass_002.a1/metrics.json", try_=1, attempt=2)
    path = run / layout.verdict(2, 0)
    aborted = {
        "verdict": "aborted",
        "code": "quorum_not_reached",
        "redo": ["nu"],
        "inputs": [],
        "excluded": [],
    }
    write(path, read(path) | aborted)


def test_a_redone_pass_is_found_where_it_lies_and_the_first_one_is_hashed_too(run: Path) -> None:
    redo_nu(run)
    record = Transcript(lanes(run))
    proof = Verification(record).run()
    assert [(one.pass_id, one.attempt) for one in proof.passes] == [(0, 0), (1, 0), (2, 1)]
    assert {"sites/nu/pass_002/metrics.json", "sites/nu/pass_002.a1/metrics.json"} <= record.digests.keys()
    assert layout.verdict(2, 0) in record.digests
    assert proof.others == 2, "nu's first pass 2, and uchicago's, which was excluded"


def test_an_aborted_attempt_that_is_gone_is_missed(run: Path) -> None:
    redo_nu(run)
    (run / layout.verdict(2, 0)).unlink()
    with pytest.raises(ProtocolError, match="attempt 0 of round 2 was not aborted"):
        prove(run)


def test_a_redone_pass_that_is_not_the_one_used_is_found(run: Path) -> None:
    redo_nu(run)
    path = run / "sites/nu/pass_002.a1/metrics.json"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(DigestMismatch, match="is not the seal that global 2 names"):
        prove(run)


def test_data_that_a_training_began_with_are_those_that_its_pass_declares(run: Path) -> None:
    seal, started = run / "sites/nu/pass_002/metrics.json", run / "sites/nu/events/pass_002.started.json"
    use(run, seal, dataset_root="5" * 64)
    with pytest.raises(CommitmentMismatch, match="declares other data"):
        prove(run)
    write(started, read(started) | {"dataset_root": "5" * 64})
    assert prove(run).complete
    started.unlink()
    with pytest.raises(ProtocolError, match=r"pass_002\.started\.json is not there"):
        prove(run)


def test_a_pass_that_was_excluded_may_have_any_settings(run: Path) -> None:
    """It may have been left out for just that."""
    seal = run / "sites/uchicago/pass_002/metrics.json"
    write(seal, read(seal) | {"config_sha256": "0" * 64, "pins": {"a": "0" * 64}, "round_seed": 1})
    assert prove(run).others == 1


def test_a_lane_out_of_sight_is_neither_proven_nor_refuted(run: Path) -> None:
    shutil.rmtree(run / "sites/rush")
    proof = prove(run, "nu", "uchicago")
    assert (proof.complete, proof.unread, proof.transcript_sha256) == (False, ("rush",), None)
    assert [one.unread for one in proof.passes] == [(), ("rush",), ("rush",)]
    with pytest.raises(ProtocolError, match=r"sites/rush/pass_001/metrics\.json is not there"):
        prove(run)


def test_globals_beyond_the_end_do_not_count(run: Path) -> None:
    shutil.copytree(run / "global/pass_001", run / "global/pass_003")
    assert [one.pass_id for one in prove(run).passes] == [0, 1, 2]


def test_a_run_under_way_is_proven_as_far_as_it_is(run: Path) -> None:
    (run / layout.done()).unlink()
    shutil.rmtree(run / "global/pass_002")
    proof = prove(run)
    assert ([one.pass_id for one in proof.passes], proof.finished, proof.others) == ([0, 1], None, 3)


def test_a_gap_in_the_globals_is_found(run: Path) -> None:
    shutil.rmtree(run / "global/pass_001")
    with pytest.raises(ProtocolError, match=r"global/pass_001/metrics\.json is not there"):
        prove(run)


def test_stray_keys_cost_nothing_and_are_not_read(run: Path) -> None:
    before = prove(run)
    stray = run / "sites/nu/junk"
    stray.mkdir()
    for number in range(2000):
        (stray / f"{number}.json").touch()
    with (run / "sites/nu/pass_001/huge.bin").open("wb") as file:
        file.truncate(1_000_000_000)
    assert prove(run) == before


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("sites/nu/pass_009/metrics.json", BadDocument),
        ("global/roster/999999999999999999.json", ProtocolError),
        ("global/rounds/pass_002.a999999999999999999.json", ProtocolError),
    ],
)
def test_what_is_huge_or_far_off_is_refused_by_name_and_unread(
    run: Path, path: str, refused: type[ProtocolError]
) -> None:
    file = run / path
    file.parent.mkdir(exist_ok=True)
    with file.open("wb") as sink:
        sink.truncate(1_000_000_000)
    with pytest.raises(refused, match="more than a document may have") as said:
        prove(run)
    assert path in str(said.value)


def test_a_broken_pass_that_nobody_used_is_named_and_leaves_the_globals_proven(run: Path) -> None:
    path = run / "sites/uchicago/pass_002/metrics.json"
    path.write_bytes(b"{}")
    verification = Verification(Transcript(lanes(run)))
    with pytest.raises(BadDocument, match=r"sites/uchicago/pass_002/metrics\.json") as said:
        verification.run()
    assert said.value.hint == "No global used it: every global of the run holds."
    assert len(verification.proven) == 3


def test_a_model_is_hashed_without_being_held(run: Path) -> None:
    """A model of 200 MB, in pieces that memory does not notice."""
    size, folder = 200_000_000, run / "sites/nu/pass_009"
    digest = hashlib.sha256()
    for _ in range(200):
        digest.update(bytes(size // 200))
    sha256 = digest.hexdigest()
    name = layout.stored_name("model", sha256, ext="json")
    folder.mkdir()
    with (folder / name).open("wb") as file:
        file.truncate(size)
    raw = read(run / "sites/nu/pass_002/metrics.json")
    big = {"pass_id": 9, "model_file": name, "model_sha256": sha256, "model_bytes": size}
    write(folder / "metrics.json", raw | big)
    record = Transcript(lanes(run))
    tracemalloc.start()
    try:
        assert sum(1 for _ in record.links()) == 3
        record.check_rest("nu")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert f"sites/nu/pass_009/{name}" in record.digests
    assert peak < 20_000_000


def test_it_ends_when_it_is_asked_to(run: Path) -> None:
    stop = threading.Event()
    record = Transcript(lanes(run), stop=stop)
    stop.set()
    with pytest.raises(Stopped):
        Verification(record).run()


# -- what a site joined with -----------------------------------------------------------------------


def joined(run: Path, site: str, number: int, **changed: Any) -> None:
    folder = run / "sites" / site / "join"
    write(folder / f"{number:04d}.json", read(folder / "0001.json") | changed)


def test_a_site_that_gave_passes_and_joined_with_other_settings_is_named(run: Path) -> None:
    joined(run, "nu", 2, config_sha256="0" * 64)
    with pytest.raises(DigestMismatch, match=r"sites/nu/join/0002\.json: joined with other settings") as said:
        prove(run)
    assert said.value.hint == "No global used it: every global of the run holds."


def test_a_join_with_settings_that_were_corrected_since_proves_nothing_against_a_site(run: Path) -> None:
    """A site may join before the lead has begun; then it is told what differs, and joins again."""
    joined(run, "nu", 2)
    joined(run, "nu", 1, config_sha256="0" * 64)
    assert prove(run).complete


def test_a_site_that_gave_nothing_may_have_joined_with_anything(run: Path) -> None:
    path = run / layout.roster(1)
    roster = read(path)
    roster["sites"].append({"site": "mayo", "state": "paused"})
    source = read(run / "sites/nu/join/0001.json")
    (run / "sites/mayo/join").mkdir(parents=True)
    write(run / "sites/mayo/join/0001.json", source | {"site": "mayo", "config_sha256": "0" * 64})
    write(path, roster)
    assert prove(run, *SITES, "mayo").complete


# -- side by side ----------------------------------------------------------------------------------


class Line:
    """A store across a network, as far as its users notice: tells how many pulls are under way."""

    def __init__(self, inner: FolderStore, *, meet: int = 0) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._meet = threading.Barrier(meet) if meet else None
        self.now_pulling = self.most = 0
        self.pulled: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def pull(self, key: str, to: Path, **more: Any) -> Any:
        model = "/model." in key and "/sites/" in key
        with self._lock:
            self.pulled.append(key)
            self.now_pulling += model
            self.most = max(self.most, self.now_pulling)
        try:
            if model and self._meet is not None and "pass_001" in key:
                self._meet.wait(30)  # alone it would wait for the others in vain
            return self._inner.pull(key, to, **more)
        finally:
            with self._lock:
                self.now_pulling -= model


def over(run: Path, line: Line, *, readers: int) -> Verification:
    found = lanes(run)
    found = replace(found, stores=dict.fromkeys(found.stores, line))
    return Verification(Transcript(found), readers=readers)


def test_across_a_network_the_inputs_of_a_global_are_read_side_by_side_with_the_same_outcome(
    run: Path,
) -> None:
    alone, together = Line(FolderStore(run.parent)), Line(FolderStore(run.parent), meet=3)
    assert over(run, alone, readers=1).run() == over(run, together, readers=3).run()
    assert (alone.most, together.most) == (1, 3)


def test_no_more_inputs_lie_on_the_disk_than_there_are_readers(run: Path) -> None:
    line = Line(FolderStore(run.parent))
    over(run, line, readers=2).run()
    assert line.most <= 2


@pytest.mark.parametrize("readers", [1, 3])
def test_of_several_that_do_not_hold_the_first_is_named(run: Path, readers: int) -> None:
    for site in ("uchicago", "rush"):
        (model,) = (run / "sites" / site / "pass_001").glob("model.*")
        model.write_bytes(bytes(model.stat().st_size))
    with pytest.raises(DigestMismatch, match=r"sites/rush/pass_001/model\."):
        over(run, Line(FolderStore(run.parent)), readers=readers).run()
