"""The mirror: a pass appears whole, with its seal, or not at all (law 3)."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stitch.client.hook_state import carry_state
from stitch.errors import DigestMismatch, DiskError, UnsupportedKind
from stitch.layout import PassRef, stored_name
from stitch.mirror import Mirror, Sealed, Stage
from stitch.wire import Seal

REF = PassRef(1, "nu")


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror(tmp_path / "stitch_store" / "trial")


def seal_for(model: bytes, ref: PassRef = REF) -> Seal:
    sha256 = hashlib.sha256(model).hexdigest()
    return Seal.make(
        run_id="trial",
        lane=ref.lane,
        pass_id=ref.number,
        attempt=1,
        base_pass=0,
        base_sha256="0" * 64,
        model_file=stored_name("model", sha256, ext="bin"),
        model_sha256=sha256,
        model_bytes=len(model),
        n_samples=100,
        metrics={},
        config_sha256="1" * 64,
        round_seed=3,
        created_at="2026-01-01T00:00:00Z",
        stitch_version="0.1.0",
    )


def staged(mirror: Mirror, model: bytes = b"weights", ref: PassRef = REF) -> Stage:
    stage = mirror.stage(ref)
    stage.model_path("bin").write_bytes(model)
    return stage


def sealed(mirror: Mirror, model: bytes = b"weights", ref: PassRef = REF) -> Sealed:
    return mirror.seal(staged(mirror, model, ref), seal_for(model, ref))


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# -- staging -----------------------------------------------------------------------------------------


def test_each_hook_run_has_a_folder_of_its_own(mirror: Mirror) -> None:
    first, second = mirror.stage(REF), mirror.stage(REF)
    assert first.folder != second.folder
    assert list(first.pass_dir.iterdir()) == []
    assert not (mirror.root / REF.folder).exists(), "nothing is seen of a pass before it is sealed"


def test_what_a_dead_process_left_is_found_by_its_lane_and_removed(mirror: Mirror) -> None:
    mine, other = staged(mirror), staged(mirror, ref=PassRef(1, "rush"))
    staged(mirror, ref=PassRef(1))
    assert [stage.folder for stage in mirror.stages("sites/nu")] == [mine.folder]
    mirror.discard(mine)
    assert mirror.stages("sites/nu") == []
    assert [stage.folder for stage in mirror.stages("sites/rush")] == [other.folder]


def test_one_site_s_name_may_begin_with_another_s(mirror: Mirror) -> None:
    staged(mirror, ref=PassRef(1, "nu-west"))
    assert mirror.stages("sites/nu") == []


# -- sealing -----------------------------------------------------------------------------------------


def test_sealing_moves_the_whole_pass_with_its_private_state(mirror: Mirror) -> None:
    stage = staged(mirror)
    stage.state_dir.mkdir()
    (stage.state_dir / "optimiser.bin").write_bytes(b"momentum")
    result = mirror.seal(stage, seal_for(b"weights"))
    folder = mirror.root / REF.folder
    assert files(folder) == ["metrics.json", "model.bin", "state/optimiser.bin"]
    assert result.data == (folder / "metrics.json").read_bytes() == result.seal.dump()
    assert not stage.folder.exists()
    assert mirror.sealed(REF) == result


def test_the_private_state_is_on_the_disk_before_the_seal_says_so(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut after the rename must not leave a pass whose next one finds half a state for ever."""
    durable, flush = set[int](), os.fsync

    def fsync(handle: int) -> None:
        flush(handle)
        durable.add(os.fstat(handle).st_ino)

    stage = staged(mirror)
    (stage.state_dir / "deep").mkdir(parents=True)
    (stage.state_dir / "deep" / "memory.npz").write_bytes(b"what was kept back")
    monkeypatch.setattr(os, "fsync", fsync)
    mirror.seal(stage, seal_for(b"weights"))
    assert (mirror.root / REF.folder / "state" / "deep" / "memory.npz").stat().st_ino in durable


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there, and pipes are no files")
def test_a_state_with_links_and_a_pipe_in_it_is_handed_on(mirror: Mirror) -> None:
    """Checkpoints come with a link to the newest; an absolute one leads nowhere once the pass is sealed."""
    stage = staged(mirror)
    stage.state_dir.mkdir()
    (stage.state_dir / "step-7").write_bytes(b"weights")
    (stage.state_dir / "latest").symlink_to(stage.state_dir / "step-7")
    (stage.state_dir / "best").symlink_to("step-7")
    os.mkfifo(stage.state_dir / "pipe")
    mirror.seal(stage, seal_for(b"weights"))
    following = mirror.stage(PassRef(REF.number + 1, REF.site))
    carry_state(mirror, following)
    assert (following.state_dir / "best").read_bytes() == b"weights"
    assert sorted(entry.name for entry in following.state_dir.iterdir()) == ["best", "latest", "step-7"]
    assert not (following.state_dir / "latest").exists()


def test_the_first_seal_wins(mirror: Mirror) -> None:
    first = sealed(mirror)
    assert sealed(mirror, b"other weights") == first
    assert first.model.read_bytes() == b"weights"
    assert mirror.stages("sites/nu") == []


def test_a_model_that_changes_while_it_is_sealed_is_refused(mirror: Mirror) -> None:
    stage = staged(mirror)
    seal = seal_for(b"weights")
    stage.model_path("bin").write_bytes(b"WEIGHTS")
    with pytest.raises(DigestMismatch, match="changed while"):
        mirror.seal(stage, seal)
    assert mirror.sealed(REF) is None


HALVES = {
    "no seal": lambda folder: (folder / "metrics.json").unlink(),
    "half a seal": lambda folder: (folder / "metrics.json").write_bytes(b'{"kind": "stitch.met'),
    "an empty seal": lambda folder: (folder / "metrics.json").write_bytes(b""),
    "no model": lambda folder: (folder / "model.bin").unlink(),
    "half a model": lambda folder: (folder / "model.bin").write_bytes(b"wei"),
    "another model": lambda folder: (folder / "model.bin").write_bytes(b"WEIGHTS"),
    "the seal of another pass": lambda folder: (folder / "metrics.json").write_bytes(
        seal_for(b"weights", PassRef(2, "nu")).dump()
    ),
    "the seal of another lane": lambda folder: (folder / "metrics.json").write_bytes(
        seal_for(b"weights", PassRef(1)).dump()
    ),
}


@pytest.mark.parametrize("half", HALVES)
def test_half_a_pass_is_no_pass_and_is_replaced(mirror: Mirror, half: str) -> None:
    """Law 4: a crash, a full disk or a hand left it so."""
    sealed(mirror)
    HALVES[half](mirror.root / REF.folder)
    assert mirror.sealed(REF) is None
    again = sealed(mirror, b"new weights")
    assert again.model.read_bytes() == b"new weights"
    assert mirror.sealed(REF) == again


def test_the_work_of_a_newer_version_is_refused_by_name_and_kept(mirror: Mirror) -> None:
    """Training it again would throw away what this version cannot read."""
    file = sealed(mirror).model.parent / "metrics.json"
    file.write_bytes(file.read_bytes().replace(b"metrics/1", b"metrics/2"))
    with pytest.raises(UnsupportedKind, match="newer"):
        mirror.sealed(REF)
    with pytest.raises(UnsupportedKind, match="newer"):
        sealed(mirror, b"new weights")
    assert (file.parent / "model.bin").read_bytes() == b"weights"


@pytest.mark.skipif(sys.platform == "win32", reason="each death is a fork")
def test_a_process_that_dies_at_any_file_operation_leaves_a_whole_pass_or_none(mirror: Mirror) -> None:
    """Each time one operation later, until the pass is there."""
    script = [sys.executable, "-c", DYING, str(mirror.root)]
    done = subprocess.run(script, check=False, timeout=120, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) > 8, "the deaths did not come one by one"
    assert mirror.sealed(REF) is not None


DYING = """
import os, sys
from pathlib import Path
from stitch.mirror import Mirror
from tests.unit.test_mirror import REF, seal_for, staged

def die_after(operations):
    mirror = Mirror(Path(sys.argv[1]))
    stage, seal = staged(mirror), seal_for(b"weights")
    left = [operations]

    def hook(event, args):
        if event in ("open", "os.rename", "os.mkdir", "os.remove", "shutil.rmtree"):
            left[0] -= 1
            if left[0] < 0:
                os._exit(9)

    sys.addaudithook(hook)
    mirror.seal(stage, seal)
    os._exit(0)

deaths = 0
while True:
    child = os.fork()
    if not child:
        die_after(deaths)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    whole = Mirror(Path(sys.argv[1])).sealed(REF)
    assert whole is None or whole.model.read_bytes() == b"weights"
    if whole is not None:
        break
    assert code == 9, code
    deaths += 1
print(deaths)
"""


# -- downloads ---------------------------------------------------------------------------------------


def test_a_download_becomes_the_pass_with_the_seal_s_exact_bytes(mirror: Mirror) -> None:
    data = seal_for(b"weights").dump().replace(b"  ", b" ")  # as another version may have written it
    model = mirror.incoming(REF) / "model.3f9a2c41d0b7.bin"
    model.write_bytes(b"weights")
    (model.parent / "model.000000000000.bin.part").write_bytes(b"left by another download")
    mirror.land(REF, model, ext="bin", seal=data)
    here = mirror.sealed(REF)
    assert here is not None
    assert here.data == data
    assert files(mirror.root / REF.folder) == ["metrics.json", "model.bin"]


def test_what_was_half_written_gives_way_to_a_download(mirror: Mirror) -> None:
    (mirror.root / REF.folder).mkdir(parents=True)
    (mirror.root / REF.folder / "model.bin").write_bytes(b"wei")
    model = mirror.incoming(REF) / "model.3f9a2c41d0b7.bin"
    model.write_bytes(b"weights")
    mirror.land(REF, model, ext="bin", seal=seal_for(b"weights").dump())
    assert mirror.sealed(REF) is not None


# -- setting aside -----------------------------------------------------------------------------------


def test_work_set_aside_is_kept_each_time(mirror: Mirror) -> None:
    asides = []
    for model in (b"first", b"second", b"third"):
        sealed(mirror, model)
        asides.append(mirror.set_aside(REF))
    assert mirror.set_aside(REF) is None
    assert mirror.sealed(REF) is None
    kept = [(aside / "model.bin").read_bytes() for aside in asides if aside is not None]
    assert kept == [b"first", b"second", b"third"]


def test_passes_come_by_number(mirror: Mirror) -> None:
    for number in (1000, 2, 999):
        sealed(mirror, ref=PassRef(number, "nu"))
    (mirror.root / "sites/nu/pass_003").mkdir()
    (mirror.root / "sites/nu/not a pass").mkdir()
    assert [ref.number for ref in mirror.passes("sites/nu")] == [2, 999, 1000]
    assert mirror.passes("sites/rush") == []


# -- locks and nonces --------------------------------------------------------------------------------


def test_one_process_of_this_machine_holds_a_lane(mirror: Mirror) -> None:
    other = Mirror(mirror.root)
    with mirror.lock("sites/nu") as first:
        assert first
        with other.lock("sites/nu") as second, other.lock("global") as elsewhere:
            assert not second
            assert elsewhere
    with other.lock("sites/nu") as after:
        assert after


def test_nonces_are_remembered_by_lane_and_the_list_does_not_grow_for_ever(mirror: Mirror) -> None:
    for number in range(100):
        mirror.remember_nonce("sites/nu", f"nonce {number}")
    assert mirror.nonces("sites/nu")[-1] == "nonce 99"
    assert len(mirror.nonces("sites/nu")) == 64
    assert mirror.nonces("global") == ()


def test_a_broken_list_of_nonces_is_an_empty_one(mirror: Mirror) -> None:
    mirror.remember_nonce("global", "mine")
    mirror._nonce_file("global").write_bytes(b'["mi')
    assert mirror.nonces("global") == ()
    mirror.remember_nonce("global", "next")
    assert mirror.nonces("global") == ("next",)


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "stitch_store").write_bytes(b"")
    with pytest.raises(DiskError, match="stitch_store"):
        Mirror(tmp_path / "stitch_store" / "trial").stage(REF)
