"""A seal that promises what this run does not allow is refused before its model is asked for (law 8)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from stitch.errors import BadDocument
from stitch.layout import PassRef, stored_name
from stitch.sync.status import Status
from stitch.testing import Call, Fault
from stitch.wire import RoundRecord, Seal
from tests.unit.sync.conftest import RUN, World

OF_A_SITE, OF_THE_LEAD = PassRef(1, "nu"), PassRef(1)
RECORD = RoundRecord(
    policy="all_expected",
    attempt=0,
    roster=1,
    verdict_sha256="2" * 64,
    inputs=(),
    prev_metrics_sha256="3" * 64,
    seed=3,
)


def seal(ref: PassRef, *, model: bytes = b"weights", ext: str = "bin", record: RoundRecord | None) -> Seal:
    """A seal whose every hash is right."""
    sha256 = hashlib.sha256(model).hexdigest()
    return Seal.make(
        run_id=RUN,
        lane=ref.lane,
        pass_id=ref.number,
        attempt=1,
        base_pass=0,
        base_sha256="0" * 64,
        model_file=stored_name("model", sha256, ext=ext),
        model_sha256=sha256,
        model_bytes=len(model),
        n_samples=100,
        metrics={},
        config_sha256="1" * 64,
        round_seed=3,
        created_at="2026-01-01T00:00:00Z",
        stitch_version="0.1.0",
        round=record,
    )


def publish(world: World, ref: PassRef, sealed: Seal, *, model: bytes = b"weights") -> None:
    """What somebody with a token could put there."""
    lanes = world.machine("somebody").lanes
    lanes.write(ref.model(sealed.model_sha256, sealed.ext), model, mode="create")
    lanes.write(ref.seal, sealed.dump(), mode="create")


def asked(keys: list[str]) -> Callable[[Call], Fault | None]:
    """Notes the models that are asked for in any way."""

    def plan(call: Call) -> Fault | None:
        keys.extend([call.key] if "/model." in call.key else [])
        return None

    return plan


@pytest.mark.parametrize("ref", [OF_A_SITE, OF_THE_LEAD], ids=["site", "global"])
def test_a_seal_that_keeps_to_the_rules_is_fetched(world: World, ref: PassRef) -> None:
    models: list[str] = []
    publish(world, ref, seal(ref, record=None if ref.site else RECORD))
    assert world.machine("reader", asked(models)).passes.pull(ref)[0] is Status.DOWNLOADED
    assert len(models) == 1


@pytest.mark.parametrize(
    ("ref", "kind", "what"),
    [
        (OF_A_SITE, {"model": b"x" * 1001, "record": None}, "max_file_mb"),
        (OF_THE_LEAD, {"model": b"x" * 1001, "record": RECORD}, "max_file_mb"),
        (OF_A_SITE, {"ext": "pkl", "record": None}, "extension"),
        (OF_THE_LEAD, {"ext": "pkl", "record": RECORD}, "extension"),
        (OF_A_SITE, {"record": RECORD}, "round record"),
        (OF_THE_LEAD, {"record": None}, "round record"),
    ],
    ids=["large pass", "large global", "pass of another kind", "global of another kind", "rounded pass",
         "global without a round"],
)  # fmt: skip
def test_one_that_does_not_is_refused_unread(
    world: World, ref: PassRef, kind: dict[str, object], what: str
) -> None:
    models: list[str] = []
    forged = seal(ref, **kind)  # type: ignore[arg-type]  # a table of its own arguments
    model = kind.get("model", b"weights")
    assert isinstance(model, bytes)
    publish(world, ref, forged, model=model)
    reader = world.machine("reader", asked(models))
    for bring in (reader.passes.pull, reader.passes.adopt):
        with pytest.raises(BadDocument, match=what):
            bring(ref)
    assert models == []
    assert reader.mirror.sealed(ref) is None
