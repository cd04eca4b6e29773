"""A pass travels whole: model first, seal last, hashed on both ways (laws 1, 2, 3 and 5)."""

from __future__ import annotations

import hashlib

import pytest

from stitch.errors import BadDocument, DigestMismatch, EgressRefused, StoreUnavailable
from stitch.layout import PassRef, stored_name
from stitch.mirror import Sealed
from stitch.sync.status import Status
from stitch.testing import Call, Crashed, Fault, once
from stitch.wire import Seal
from tests.unit.sync.conftest import RUN, Machine, World

REF = PassRef(1, "nu")


def make(machine: Machine, model: bytes = b"weights", *, n_samples: int = 100, ref: PassRef = REF) -> Sealed:
    """A pass, trained and sealed in a machine's mirror."""
    stage = machine.mirror.stage(ref)
    stage.model_path("bin").write_bytes(model)
    sha256 = hashlib.sha256(model).hexdigest()
    seal = Seal.make(
        run_id=RUN,
        lane=ref.lane,
        pass_id=ref.number,
        attempt=1,
        base_pass=ref.number - 1,
        base_sha256="0" * 64,
        model_file=stored_name("model", sha256, ext="bin"),
        model_sha256=sha256,
        model_bytes=len(model),
        n_samples=n_samples,
        metrics={"loss": 0.5},
        config_sha256="1" * 64,
        round_seed=3,
        created_at="2026-01-01T00:00:00Z",
        stitch_version="0.1.0",
    )
    return machine.mirror.seal(stage, seal)


def path_of(sealed: Sealed) -> str:
    return sealed.ref.model(sealed.seal.model_sha256, "bin")


# -- up ----------------------------------------------------------------------------------------------


def test_a_pass_goes_up_model_first_and_seal_last(world: World) -> None:
    pushed: list[str] = []

    def plan(call: Call) -> Fault | None:
        pushed.extend([call.key] if call.verb == "push" else [])
        return None

    machine = world.machine("one", plan)
    sealed = make(machine)
    assert machine.passes.push(sealed) is Status.UPLOADED
    assert pushed == [f"{RUN}/{path_of(sealed)}", f"{RUN}/{REF.seal}"]
    assert world.content(REF.seal) == sealed.data
    assert world.content(path_of(sealed)) == b"weights"


def test_pushing_again_sends_nothing(world: World) -> None:
    machine = world.machine("one")
    sealed = make(machine)
    machine.passes.push(sealed)
    again = world.machine("one", lambda call: "crash_before" if call.verb == "push" else None)
    assert again.passes.push(sealed) is Status.ALREADY_SYNCED


def test_another_seal_is_a_conflict_and_is_not_overwritten(world: World) -> None:
    one, two = world.machine("one"), world.machine("two")
    first, second = make(one), make(two, b"other weights")
    assert one.passes.push(first) is Status.UPLOADED
    assert two.passes.push(second) is Status.CONFLICT
    assert world.content(REF.seal) == first.data
    assert world.content(path_of(second)) is None, "an owner looks for a seal before a model goes up"


def test_a_seal_that_arrives_while_the_model_goes_up_wins(world: World) -> None:
    one, two = world.machine("one"), world.machine("two")
    first, second = make(one), make(two, b"other weights")

    def meanwhile() -> None:
        one.passes.push(first)

    assert two.passes.push(second, before_seal=meanwhile) is Status.CONFLICT
    assert world.content(REF.seal) == first.data


@pytest.mark.parametrize("at", ["/model.", "metrics.json"])
@pytest.mark.parametrize("fault", ["lose_reply", "lose_request"])
def test_a_push_without_a_reply_is_settled_by_reading_back(world: World, at: str, fault: Fault) -> None:
    machine = world.machine("one", once(fault, verb="push", containing=at))
    sealed = make(machine)
    assert machine.passes.push(sealed) is Status.UPLOADED
    assert world.content(path_of(sealed)) == b"weights"
    assert world.content(REF.seal) == sealed.data


@pytest.mark.parametrize("fault", ["crash_before", "crash_after"])
@pytest.mark.parametrize("at", ["/model.", "metrics.json"])
def test_after_a_crash_the_same_pass_goes_up(world: World, at: str, fault: Fault) -> None:
    machine = world.machine("one", once(fault, verb="push", containing=at))
    sealed = make(machine)
    with pytest.raises(Crashed):
        machine.passes.push(sealed)
    assert machine.passes.push(sealed) in (Status.UPLOADED, Status.ALREADY_SYNCED)
    assert world.content(REF.seal) == sealed.data


def test_half_a_model_under_its_own_name_is_put_again(world: World) -> None:
    """Law 1: a digest-named key may be re-put by its owner with the bytes that its name says."""
    machine = world.machine("one")
    sealed = make(machine)
    machine.lanes.write(path_of(sealed), b"weig", mode="create")
    assert machine.passes.push(sealed) is Status.UPLOADED
    assert world.content(path_of(sealed)) == b"weights"


def test_a_model_that_changed_after_it_was_sealed_is_not_published(world: World) -> None:
    machine = world.machine("one")
    sealed = make(machine)
    sealed.model.write_bytes(b"WEIGHTS")
    with pytest.raises(DigestMismatch, match="not published"):
        machine.passes.push(sealed)
    assert world.content(REF.seal) is None
    assert world.content(path_of(sealed)) is None


def test_nothing_leaves_that_the_limits_forbid(world: World) -> None:
    machine = world.machine("one")
    few = make(machine, n_samples=9)
    with pytest.raises(EgressRefused, match="n_samples is 9"):
        machine.passes.push(few)
    large = make(machine, b"x" * 1001, ref=PassRef(2, "nu"))
    with pytest.raises(EgressRefused, match="1001 bytes"):
        machine.passes.push(large)
    assert not list(machine.lanes.list("sites/nu/"))


def test_zero_samples_say_nothing_about_anybody_and_may_leave(world: World) -> None:
    machine = world.machine("one")
    assert machine.passes.push(make(machine, n_samples=0)) is Status.UPLOADED


# -- down --------------------------------------------------------------------------------------------


def test_a_pass_comes_down_byte_for_byte(world: World) -> None:
    one, two = world.machine("one"), world.machine("two")
    sealed = make(one)
    one.passes.push(sealed)
    status, here = two.passes.pull(REF)
    assert status is Status.DOWNLOADED
    assert here is not None
    assert here.data == sealed.data
    assert here.model.read_bytes() == b"weights"
    assert here.model.name == "model.bin"
    assert two.passes.pull(REF)[0] is Status.ALREADY_SYNCED


def test_without_a_seal_there_is_no_pass(world: World) -> None:
    one = world.machine("one")
    sealed = make(one)
    one.lanes.push(sealed.model, path_of(sealed), mode="create")
    assert world.machine("two").passes.pull(REF) == (Status.NO_NEW_PASS, None)


def test_a_seal_without_its_whole_model_is_not_ready(world: World) -> None:
    """A synced folder brings files in any order: missing first, then short, then whole."""
    one, two = world.machine("one"), world.machine("two")
    sealed = make(one)
    one.lanes.write(REF.seal, sealed.data, mode="create")
    assert two.passes.pull(REF) == (Status.NO_NEW_PASS, None)
    one.lanes.write(path_of(sealed), b"wei", mode="create")
    assert two.passes.pull(REF) == (Status.NO_NEW_PASS, None)
    one.lanes.write(path_of(sealed), b"weights", mode="replace")
    assert two.passes.pull(REF)[0] is Status.DOWNLOADED


def test_a_model_with_other_bytes_is_never_used(world: World) -> None:
    one, two = world.machine("one"), world.machine("two")
    sealed = make(one)
    one.passes.push(sealed)
    one.lanes.write(path_of(sealed), b"w3ights", mode="replace")
    with pytest.raises(DigestMismatch, match="does not match its seal"):
        two.passes.pull(REF)
    assert two.mirror.sealed(REF) is None


def test_a_model_larger_than_its_seal_says_is_not_fetched_to_its_end(world: World) -> None:
    one, two = world.machine("one"), world.machine("two")
    sealed = make(one)
    one.passes.push(sealed)
    one.lanes.write(path_of(sealed), b"x" * 8_000_000, mode="replace")
    heard: list[int] = []
    with pytest.raises(DigestMismatch):
        two.passes.pull(REF, progress=lambda done, total: heard.append(done + total))
    assert heard == []
    assert two.mirror.sealed(REF) is None


def test_a_bit_that_flipped_on_the_way_is_fetched_again(world: World) -> None:
    one = world.machine("one")
    one.passes.push(make(one))
    two = world.machine("two", once("flip", verb="pull", containing="/model."))
    status, here = two.passes.pull(REF)
    assert status is Status.DOWNLOADED
    assert here is not None
    assert here.model.read_bytes() == b"weights"


def test_an_outage_while_pulling_is_no_verdict(world: World) -> None:
    one = world.machine("one")
    one.passes.push(make(one))
    two = world.machine("two", once("unavailable", verb="pull", containing="/model."))
    with pytest.raises(StoreUnavailable):
        two.passes.pull(REF)
    assert two.passes.pull(REF)[0] is Status.DOWNLOADED


def test_work_of_our_own_is_not_overwritten_but_set_aside_for_the_store_s(world: World) -> None:
    one, two = world.machine("one"), world.machine("two")
    first, second = make(one), make(two, b"other weights")
    one.passes.push(first)
    assert two.passes.pull(REF)[0] is Status.CONFLICT
    assert second.model.read_bytes() == b"other weights"
    status, here, aside = two.passes.adopt(REF)
    assert status is Status.DOWNLOADED
    assert here is not None
    assert here.data == first.data
    assert aside is not None
    assert (aside / "model.bin").read_bytes() == b"other weights"


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("run_id", "another", "run_id"),
        ("lane", "sites/rush", "lane"),
        ("pass_id", 2, "pass_id"),
        ("model_bytes", 1001, "max_file_mb"),
        ("model_file", "model.000000000000.bin", "model_file"),
    ],
)
def test_a_seal_that_lies_about_its_place_is_not_believed(
    world: World, field: str, value: object, what: str
) -> None:
    one, two = world.machine("one"), world.machine("two")
    seal = make(one).seal.model_copy(update={field: value})
    one.lanes.write(REF.seal, seal.dump(), mode="create")
    with pytest.raises(BadDocument, match=what):
        two.passes.pull(REF)


def test_a_seal_with_another_extension_is_not_believed(world: World) -> None:
    """One model extension a run: what would be opened is what was agreed (law 8)."""
    one, two = world.machine("one"), world.machine("two")
    sealed = make(one)
    name = stored_name("model", sealed.seal.model_sha256, ext="pkl")
    one.lanes.write(REF.seal, sealed.seal.model_copy(update={"model_file": name}).dump(), mode="create")
    with pytest.raises(BadDocument, match="extension"):
        two.passes.pull(REF)


def test_a_site_cannot_pass_a_round_record_off_as_its_own(world: World) -> None:
    one, two = world.machine("one"), world.machine("two")
    ref = PassRef(1)
    seal = make(one).seal.model_copy(update={"lane": "global"})
    one.lanes.write(ref.seal, seal.dump(), mode="create")
    with pytest.raises(BadDocument, match="round record"):
        two.passes.pull(ref)


# -- looking -----------------------------------------------------------------------------------------


def test_the_newest_pass_is_found_though_the_list_is_stale(world: World) -> None:
    stale = world.machine("two", lambda call: "stale_list" if call.verb == "list" else None)
    assert stale.passes.newest("sites/nu") == -1
    one = world.machine("one")
    for number in (1, 2, 3):
        one.passes.push(make(one, ref=PassRef(number, "nu")))
    assert stale.passes.newest("sites/nu") == 3
    assert world.machine("three").passes.newest("sites/nu") == 3


def test_a_redone_attempt_is_not_taken_for_the_newest_pass(world: World) -> None:
    one = world.machine("one")
    one.passes.push(make(one))
    one.passes.push(make(one, ref=PassRef(7, "nu", 1)))
    assert one.passes.newest("sites/nu") == 1
