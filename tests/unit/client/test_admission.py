"""Which verified site passes a round may use, and the reason for each that it may not."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from stitch.client.admission import admit
from stitch.layout import PassRef, stored_name
from stitch.mirror import Mirror, Sealed
from stitch.wire import Seal


class Chain:
    """A lead's mirror with globals 0 and 1; round 2 is under way."""

    def __init__(self, folder: Path) -> None:
        self.mirror = Mirror(folder)
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

    def _seal(
        self, ref: PassRef, *, base: Sealed | None, changes: Mapping[str, object] | None = None
    ) -> Sealed:
        stage = self.mirror.stage(ref)
        model = ref.folder.encode()
        stage.model_path("bin").write_bytes(model)
        sha256 = hashlib.sha256(model).hexdigest()
        fields: dict[str, object] = {
            "run_id": "trial",
            "lane": ref.lane,
            "pass_id": ref.number,
            "attempt": 1,
            "base_pass": base and base.ref.number,
            "base_sha256": base and base.seal.model_sha256,
            "model_file": stored_name("model", sha256, ext="bin"),
            "model_sha256": sha256,
            "model_bytes": len(model),
            "n_samples": 100,
            "metrics": {},
            "config_sha256": "1" * 64,
            "round_seed": 3,
            "created_at": "2026-01-01T00:00:00Z",
            "stitch_version": "0.1.0",
        }
        return self.mirror.seal(stage, Seal.make(**{**fields, **(changes or {})}))


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


def test_passes_trained_from_the_newest_global_are_inputs_in_the_order_of_their_sites(chain: Chain) -> None:
    passes = [chain.trained(site) for site in ("rush", "nu", "uchicago")]
    inputs, excluded = admit(passes, chain.mirror)
    assert [one.ref.site for one in inputs] == ["nu", "rush", "uchicago"]
    assert excluded == {}


def test_zero_samples_are_left_out(chain: Chain) -> None:
    inputs, excluded = admit([chain.trained("nu", n_samples=0)], chain.mirror)
    assert (inputs, excluded) == ([], {"nu": "zero samples"})


def test_a_pass_that_names_no_base_is_left_out(chain: Chain) -> None:
    inputs, excluded = admit([chain.trained("nu", base=None)], chain.mirror)
    assert (inputs, excluded) == ([], {"nu": "no base"})


@pytest.mark.parametrize(
    "claim",
    [{"base_sha256": "f" * 64}, {"base_sha256": None}, {"base_pass": 7}],
    ids=["another model under the base's number", "no hash", "a global that this chain has not"],
)
def test_a_base_that_is_not_on_this_chain_is_left_out(chain: Chain, claim: dict[str, object]) -> None:
    """It would mix another model in, by way of the weights."""
    inputs, excluded = admit([chain.trained("nu", claim=claim)], chain.mirror)
    assert (inputs, excluded) == ([], {"nu": "its base is not on this chain"})


def test_a_base_whose_model_here_is_damaged_is_not_believed(chain: Chain) -> None:
    trained = chain.trained("nu")
    chain.bases[1].model.write_bytes(b"other bytes")
    assert admit([trained], chain.mirror)[1] == {"nu": "its base is not on this chain"}


def test_an_older_global_of_this_chain_is_no_base_for_this_round(chain: Chain) -> None:
    inputs, excluded = admit([chain.trained("nu", base=0)], chain.mirror)
    assert (inputs, excluded) == ([], {"nu": "trained from global 0, not 1"})


def test_one_that_is_left_out_takes_no_other_along(chain: Chain) -> None:
    passes = [chain.trained("rush", n_samples=0), chain.trained("nu"), chain.trained("uchicago", base=0)]
    inputs, excluded = admit(passes, chain.mirror)
    assert [one.ref.site for one in inputs] == ["nu"]
    assert sorted(excluded) == ["rush", "uchicago"]
