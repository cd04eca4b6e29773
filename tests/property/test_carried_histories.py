"""Random histories of federations whose aggregation remembers: no crash and no rival makes it forget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stitch.layout import PassRef
from stitch.testing.federation import EXT
from stitch.testing.processes import Process
from tests.property.chaos import Chaos
from tests.property.laws import check

HISTORIES = 20


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The aggregate hook counts rounds in its state; gives the round and what it remembered of each run."""
    runs: list[tuple[int, int]] = []
    usual = Process._aggregate

    def counting(
        process: Process, site_dir: Path, out_path: Path, pass_id: int, **more: Any
    ) -> dict[str, Any]:
        answer = usual(process, site_dir, out_path, pass_id, **more)
        before = 0 if more["outer_path"] is None else int(more["outer_path"].read_text("utf-8").split()[0])
        runs.append((pass_id, before))
        # As with models, no two states of a round are the same: it says which model it belongs to.
        more["outer_out_path"].write_text(f"{before + 1} {out_path.read_bytes().hex()}", "utf-8")
        return answer

    monkeypatch.setattr(Process, "_aggregate", counting)
    return runs


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_every_round_gets_what_the_global_before_left_whatever_happens(
    folder: Path, remembered: list[tuple[int, int]], seed: int
) -> None:
    history = Chaos(seed, folder)
    federation = history.federation
    try:
        history.run()
        check(federation)
        assert {number - before for number, before in remembered} <= {1}
        for number in range(1, federation.final_pass + 1):
            seal = federation.seal(PassRef(number))
            assert seal is not None
            (listed,) = seal.attachments
            state = federation.read(f"global/pass_{number:03d}/{listed.file}")
            model = federation.read(PassRef(number).model(seal.model_sha256, EXT))
            assert state is not None
            assert model is not None
            assert state.decode() == f"{number} {model.hex()}"
    except Exception:
        print("\n".join(history.trace))
        raise
