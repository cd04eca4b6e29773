"""Which verified site passes a round may use, and the reason for each that it may not."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from stitch import layout
from stitch.client.admission import admit
from stitch.config.pins import Pin
from stitch.config.settings import Integrity
from stitch.errors import StoreUnavailable
from stitch.layout import Event, PassRef, stored_name
from stitch.mirror import Sealed
from stitch.rounds import Code, round_seed
from stitch.store.lanes import Lanes
from stitch.wire import EventDoc, Seal
from tests.unit.loops.actors import Actors

ROOT = "d" * 64


class Chain:
    """A lead that began a run, with globals 0 and 1 in its mirror; round 2 is under way."""

    def __init__(self, folder: Path, **changes: object) -> None:
        self.lead, self.store = Actors(folder).client("rush", **changes)
        self.lead.begin()
        self.mirror = self.lead.mirror
        self.bases = [self._seal(PassRef(number), base=None) for number in (0, 1)]

    def trained(
        self,
        site: str,
        *,
        base: int | None = 1,
        n_samples: int = 100,
        claim: Mapping[str, object] | None = None,
    ) -> Sealed:
        """A site's pass 2, as it says of itself."""
        found = None if base is None else self.bases[base]
        return self._seal(PassRef(2, site), base=found, changes={"n_samples": n_samples, **(claim or {})})

    def started(self, site: str, root: str | None, *, attempt: int = 1) -> None:
        """A site's event, as its own process writes it."""
        doc = EventDoc.make(
            run_id="trial",
            site=site,
            pass_id=2,
            event="started",
            attempt=attempt,
            dataset_root=root,
            created_at="2026-01-01T00:00:00Z",
        )
        self.write(layout.event(site, 2, name=Event.STARTED, attempt=attempt), doc.dump())

    def write(self, path: str, data: bytes) -> None:
        Lanes("trial", {layout.lane_of(path): self.store}, {}).write(path, data, mode="replace")

    def _seal(
        self, ref: PassRef, *, base: Sealed | None, changes: Mapping[str, object] | None = None
    ) -> Sealed:
        stage = self.mirror.stage(ref)
        model = ref.folder.encode()
        stage.model_path("txt").write_bytes(model)
        sha256 = hashlib.sha256(model).hexdigest()
        fields: dict[str, object] = {
            "run_id": "trial",
            "lane": ref.lane,
            "pass_id": ref.number,
            "attempt": 1,
            "base_pass": base and base.ref.number,
            "base_sha256": base and base.seal.model_sha256,
            "model_file": stored_name("model", sha256, ext="txt"),
            "model_sha256": sha256,
            "model_bytes": len(model),
            "n_samples": 100,
            "metrics": {},
            "config_sha256": self.lead.config_sha256,
            "round_seed": self.lead.seed(ref.number),
            "created_at": "2026-01-01T00:00:00Z",
            "stitch_version": "0.1.0",
        }
        return self.mirror.seal(stage, Seal.make(**{**fields, **(changes or {})}))


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


def test_passes_trained_from_the_newest_global_are_inputs_in_the_order_of_their_sites(chain: Chain) -> None:
    passes = [chain.trained(site) for site in ("rush", "nu", "uchicago")]
    inputs, excluded = admit(passes, chain.lead)
    assert [one.ref.site for one in inputs] == ["nu", "rush", "uchicago"]
    assert excluded == {}


def test_zero_samples_are_left_out(chain: Chain) -> None:
    inputs, excluded = admit([chain.trained("nu", n_samples=0)], chain.lead)
    assert (inputs, excluded) == ([], {"nu": "zero samples"})


def test_a_pass_that_names_no_base_is_left_out(chain: Chain) -> None:
    inputs, excluded = admit([chain.trained("nu", base=None)], chain.lead)
    assert (inputs, excluded) == ([], {"nu": "no base"})


@pytest.mark.parametrize(
    "claim",
    [{"base_sha256": "f" * 64}, {"base_sha256": None}, {"base_pass": 7}],
    ids=["another model under the base's number", "no hash", "a global that this chain has not"],
)
def test_a_base_that_is_not_on_this_chain_is_left_out(chain: Chain, claim: dict[str, object]) -> None:
    """It would mix another model in, by way of the weights."""
    inputs, excluded = admit([chain.trained("nu", claim=claim)], chain.lead)
    assert (inputs, excluded) == ([], {"nu": "its base is not on this chain"})


def test_a_base_whose_model_here_is_damaged_is_not_believed(chain: Chain) -> None:
    trained = chain.trained("nu")
    chain.bases[1].model.write_bytes(b"other bytes")
    assert admit([trained], chain.lead)[1] == {"nu": "its base is not on this chain"}


def test_an_older_global_of_this_chain_is_no_base_for_this_round(chain: Chain) -> None:
    inputs, excluded = admit([chain.trained("nu", base=0)], chain.lead)
    assert (inputs, excluded) == ([], {"nu": "trained from global 0, not 1"})


def test_one_that_is_left_out_takes_no_other_along(chain: Chain) -> None:
    passes = [chain.trained("rush", n_samples=0), chain.trained("nu"), chain.trained("uchicago", base=0)]
    inputs, excluded = admit(passes, chain.lead)
    assert [one.ref.site for one in inputs] == ["nu"]
    assert sorted(excluded) == ["rush", "uchicago"]


def test_a_wrong_round_seed_is_left_out(chain: Chain) -> None:
    """Scenario 12: whoever trained with another seed, or from a copied answer, does not say the right one."""
    inputs, excluded = admit([chain.trained("nu", claim={"round_seed": round_seed(1, 1)})], chain.lead)
    assert inputs == []
    assert excluded["nu"].code is Code.ROUND_SEED


def test_other_settings_are_left_out(chain: Chain) -> None:
    _, excluded = admit([chain.trained("nu", claim={"config_sha256": "9" * 64})], chain.lead)
    assert excluded["nu"].code is Code.SETTINGS


def test_other_pins_than_the_run_s_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "rush").mkdir()
    (tmp_path / "rush" / "schema.json").write_bytes(b"{}")
    pin = Pin("schema.json", hashlib.sha256(b"{}").hexdigest())
    chain = Chain(tmp_path / "late", pins={"schema": pin}, root=tmp_path / "rush")
    true = {"schema": pin.sha256}
    inputs, excluded = admit(
        [
            chain.trained("nu", claim={"pins": true}),
            chain.trained("rush", claim={"pins": {**true, "start": "a" * 64}}),
            chain.trained("uchicago"),
        ],
        chain.lead,
    )
    assert [one.ref.site for one in inputs] == ["nu"]
    assert {site: reason.code for site, reason in excluded.items()} == {
        "rush": Code.PINS,
        "uchicago": Code.PINS,
    }


# -- the data that sites committed to ------------------------------------------------------------------


@pytest.fixture
def committed(tmp_path: Path) -> Chain:
    return Chain(tmp_path, integrity=Integrity(commit=True))


def test_the_event_of_the_seal_s_own_attempt_is_asked_and_not_the_newest(committed: Chain) -> None:
    """Somebody started again on new data after the pass was sealed: that is another attempt."""
    committed.started("nu", ROOT)
    committed.started("nu", "e" * 64, attempt=2)
    sealed = committed.trained("nu", claim={"dataset_root": ROOT})
    assert admit([sealed], committed.lead) == ([sealed], {})


def test_data_that_are_not_those_of_the_start_are_a_commitment_mismatch(committed: Chain) -> None:
    """Scenario 22, the lead's half."""
    committed.started("nu", ROOT)
    sites = {"nu": "e" * 64, "uchicago": None}
    committed.started("uchicago", ROOT)
    passes = [committed.trained(site, claim={"dataset_root": root}) for site, root in sites.items()]
    _, excluded = admit(passes, committed.lead)
    assert {site: reason.code for site, reason in excluded.items()} == dict.fromkeys(sites, Code.COMMITMENT)


def test_a_site_that_never_committed_is_told_apart_from_one_that_lies(committed: Chain) -> None:
    committed.started("nu", None)
    _, excluded = admit([committed.trained("nu")], committed.lead)
    assert excluded["nu"].code is Code.NOT_COMMITTED


def test_a_start_that_has_not_arrived_is_told_apart_from_a_false_one(committed: Chain) -> None:
    sealed = committed.trained("nu", claim={"dataset_root": ROOT})
    assert admit([sealed], committed.lead)[1]["nu"].code is Code.NOT_BOUND
    committed.write(layout.event("nu", 2, name=Event.STARTED), b"{")
    assert admit([sealed], committed.lead)[1]["nu"].code is Code.NOT_BOUND
    committed.started("nu", ROOT)
    assert admit([sealed], committed.lead) == ([sealed], {})


def test_a_lane_that_does_not_answer_blames_nobody(committed: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 7: unknown is not absent."""
    sealed = committed.trained("nu", claim={"dataset_root": ROOT})

    def pull(*args: object, **more: object) -> None:
        raise StoreUnavailable("the line is down")

    monkeypatch.setattr(committed.store, "pull", pull)
    with pytest.raises(StoreUnavailable):
        admit([sealed], committed.lead)


def test_without_commitments_no_event_is_looked_at(chain: Chain) -> None:
    trained = chain.trained("nu")
    before = dict(chain.store.meter.requests)
    assert admit([trained], chain.lead)[1] == {}
    assert chain.store.meter.requests == before


@pytest.mark.parametrize("claim", [{"attempt": 2**62}, {"attempt": 0}, {"base_pass": 2**62}])
def test_numbers_that_no_file_name_holds_are_a_reason_and_no_crash(
    committed: Chain, claim: dict[str, object]
) -> None:
    sealed = committed.trained("nu", claim={"dataset_root": ROOT, **claim})
    _, excluded = admit([sealed], committed.lead)
    assert excluded["nu"].code in (Code.PLACE, Code.BASE)
