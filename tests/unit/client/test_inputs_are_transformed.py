"""The lead's pre_aggregate hook turns each input back with the global that this input was trained from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from stitch.client.releasing import transform_inputs
from stitch.config.hooks import Hooks
from stitch.hooks.call import HookCall
from stitch.layout import PassRef
from stitch.mirror import Sealed, Stage
from stitch.testing.federation import Federation


def test_an_input_from_an_older_global_is_given_that_one(tmp_path: Path) -> None:
    """A compressed delta means nothing beside another base; buffered rounds have several."""
    federation = Federation(tmp_path, num_passes=2)
    federation.start("rush")
    for _ in range(3):
        federation.alive("rush")[0].turns()
    known = federation.alive("rush")[0].mirror.sealed(PassRef(1, "rush"))
    assert known is not None
    stage = Stage(PassRef(7), tmp_path / "stage")
    inputs = [Sealed(PassRef(number, site), known.seal, b"", known.model) for number, site in _PLACES]
    for one in inputs:
        folder = stage.inputs_dir / str(one.ref.site) / f"pass_{one.ref.number:03d}"
        folder.mkdir(parents=True)
        (folder / known.model.name).write_bytes(b"small")
    stage.work_dir.mkdir(parents=True)
    seen: dict[str, str] = {}

    def run(call: HookCall) -> None:
        given = json.loads(json.dumps({**call.required, **call.optional}))
        seen[given["site"]] = Path(given["global_path"]).relative_to(tmp_path).as_posix()
        assert call.out_path is not None
        call.out_path.write_bytes(b"whole")

    settings = replace(federation.settings("rush"), hooks=Hooks(model_ext="bin", pre_aggregate="code/f.py:g"))
    transform_inputs(settings, stage, inputs=inputs, bases=tmp_path / "bases", run=run)
    assert seen == {"nu": "bases/pass_006/model.bin", "rush": "bases/pass_003/model.bin"}
    for process in federation.alive():
        process.kill()


_PLACES = ((7, "nu"), (4, "rush"))
