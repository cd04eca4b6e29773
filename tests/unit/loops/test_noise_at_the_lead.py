"""A lead that adds the noise, and a site that says that it clipped and did not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stitch.hooks.inline import FunctionRunner
from stitch.learning.tensors import read_model, write_model
from tests.unit.loops.private import LOCAL, SHAPE, PrivateRun


def test_a_site_that_clips_nothing_into_numbers_does_not_stop_a_lead_with_noise(tmp_path: Path) -> None:
    def broken(model_path: Path, out_path: Path, **given: Any) -> dict[str, float]:
        model = read_model(model_path)
        write_model(out_path, {**model, "w": np.full(SHAPE, np.nan, np.float32)})
        return {}

    private = replace(LOCAL, mode="central", clip=0.01, noise_multiplier=3.0)
    run = PrivateRun(tmp_path, privacy=private, num_passes=1)
    loops = run.loops()
    run.clients["nu"].runner = FunctionRunner({**run.hooks("nu"), "release": broken})
    try:
        run.finish(loops)
        seal = run.seal(1)
        assert seal.round is not None
        assert [one.site for one in seal.round.inputs] == ["nu", "rush", "uchicago"]
        assert seal.metrics == {"sites": 2, "excluded": 1, "excluded.nu": 1}
        assert np.isfinite(run.model(1)["w"]).all()
    finally:
        run.close()
