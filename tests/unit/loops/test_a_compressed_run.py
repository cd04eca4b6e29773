"""A run whose sites compress what they send, one that sends something else, and a lead that looks into it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stitch.config.compression import Compression
from stitch.config.hooks import Hooks
from stitch.config.privacy import Privacy
from stitch.errors import HookOutput
from stitch.layout import PassRef
from stitch.learning import check
from stitch.learning.tensors import read_model
from tests.unit.loops.private import SHAPE, STEP, PrivateRun


def test_a_pass_that_cannot_be_expanded_is_left_out_by_name_before_the_verdict(tmp_path: Path) -> None:
    """After it nobody could be left out any more, and one site's file would stop the federation."""
    run = PrivateRun(
        tmp_path,
        privacy=Privacy(),
        functions={"expand": None},  # in a child, as it is
        compression=Compression("int8"),
        num_passes=1,
    )
    loops = run.loops()
    nu = run.clients["nu"]
    assert nu.config_sha256 == run.clients["rush"].config_sha256
    nu.settings = replace(nu.settings, compression=Compression())  # it agreed, and sends its model whole
    try:
        run.finish(loops)
        assert (
            why_nu_is_left_out(run) == "its model cannot be expanded: the model has no tensor 'w.stitch_at'"
        )
    finally:
        run.close()


def why_nu_is_left_out(run: PrivateRun) -> str:
    """The reason in the record of round 1, which used the others' passes."""
    record = run.seal(1).round
    assert record is not None
    assert [one.site for one in record.inputs] == ["rush", "uchicago"]
    [left_out] = record.excluded
    assert left_out.site == "nu"
    return left_out.reason


def distrusting(folder: Path, kind: str, *, max_norm: float = 0.08) -> PrivateRun:
    """A compressed run with the ready admit hook; the step of nu has the norm 0.0894, the others' 0.0447."""
    return PrivateRun(
        folder,
        privacy=Privacy(),
        functions={"admit": check.admit},
        compression=Compression(kind, keep=1.0),  # type: ignore[arg-type]  # one of the two
        hooks=Hooks(admit="stitch.learning.check:admit"),
        hyper={"max_norm": max_norm},
        num_passes=1,
    )


@pytest.mark.parametrize("kind", ["int8", "top_k"])
def test_the_lead_looks_into_the_expanded_models_of_sites_it_distrusts(tmp_path: Path, kind: str) -> None:
    """Nu takes the hook out of its own settings, and sends a change that is too large."""
    run = distrusting(tmp_path, kind)
    loops = run.loops()
    nu = run.clients["nu"]
    nu.settings = replace(nu.settings, hooks=Hooks())
    try:
        run.finish(loops)
        assert why_nu_is_left_out(run) == "its change has the norm 0.08944, allowed is 0.08"
        mean = (STEP["rush"] + STEP["uchicago"]) / 2
        assert np.allclose(run.model(1)["w"], mean, atol=1e-5)
    finally:
        run.close()


def test_a_compressing_site_is_told_by_the_hook_before_anything_leaves(tmp_path: Path) -> None:
    run = distrusting(tmp_path, "int8", max_norm=0.01)
    [loop] = run.loops("nu")
    lead = run.loops("rush")[0]
    try:
        lead.step()
        with pytest.raises(HookOutput, match="would not be admitted: its change has the norm"):
            run.finish([loop], turns=5)
        assert not [path for path in run.paths("sites/nu/") if "/pass_" in path and "events" not in path]
    finally:
        run.close()


def test_a_hook_of_ones_own_gets_whole_models_and_the_sealed_file_stays_compressed(
    tmp_path: Path,
) -> None:
    seen: list[tuple[str, tuple[int, ...], str]] = []

    def admit(
        model_path: Path, base_path: Path, reason_path: Path, site_id: str, n_samples: int
    ) -> dict[str, float]:
        model = read_model(model_path)
        assert model.keys() == read_model(base_path).keys()
        assert n_samples == 100
        assert not reason_path.exists()
        seen.append((site_id, model["w"].shape, model["w"].dtype.name))
        return {}

    run = distrusting(tmp_path, "int8")
    run.functions = {"admit": admit}
    try:
        run.finish(run.loops())
        # Each of three sites by itself before its seal, and by the lead before the verdict.
        assert sorted(seen) == sorted([(site, SHAPE, "float32") for site in STEP] * 2)
        sealed = run.clients["rush"].mirror.sealed(PassRef(1, "nu"))
        assert sealed is not None
        assert read_model(sealed.model)["w"].dtype == np.int8
    finally:
        run.close()
