"""The aggregate hook gets exactly the verdict's inputs, and the globals that they were trained from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stitch.files import file_sha256
from stitch.hooks.inline import FunctionRunner
from stitch.layout import PassRef
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from tests.unit.loops.actors import SITES, Actors, finish


def train(*, global_path: Path | None, out_path: Path, data_dir: Path) -> dict[str, int]:
    """No two models are the same."""
    before = "" if global_path is None else global_path.read_text("utf-8")
    out_path.write_text(f"{before} {data_dir.parent.name}", "utf-8")
    return {"n_samples": 100}


def tree(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


class Rounds:
    """An aggregate hook that looks at all it is given."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def aggregate(
        self, *, site_dir: Path, bases_dir: Path, global_path: Path, out_path: Path, pass_id: int
    ) -> dict[str, float]:
        seals = [
            json.loads((site_dir / site / f"pass_{pass_id:03d}" / "metrics.json").read_text("utf-8"))
            for site in SITES
        ]
        models = {
            seal["lane"]: file_sha256(
                site_dir / seal["lane"].partition("/")[2] / f"pass_{pass_id:03d}/model.txt"
            )
            for seal in seals
        }
        bases = {
            seal["lane"]: file_sha256(bases_dir / f"pass_{seal['base_pass']:03d}" / "model.txt")
            for seal in seals
        }
        self.seen.append(
            {
                "inputs": tree(site_dir),
                "models": models,
                "sealed models": {seal["lane"]: seal["model_sha256"] for seal in seals},
                "bases": bases,
                "sealed bases": {seal["lane"]: seal["base_sha256"] for seal in seals},
                "folders of bases": tree(bases_dir),
                "base": file_sha256(global_path),
                "rounds": [
                    json.loads((site_dir / site / f"pass_{pass_id:03d}" / "round.json").read_text("utf-8"))
                    for site in SITES
                ],
            }
        )
        out_path.write_text(f"global {pass_id}", "utf-8")
        return {}


def test_inputs_and_bases_hash_to_what_the_seals_say(tmp_path: Path) -> None:
    actors, rounds = Actors(tmp_path), Rounds()
    clients = [actors.client(site, num_passes=2)[0] for site in SITES]
    for client in clients:
        client.runner = FunctionRunner({"train": train, "aggregate": rounds.aggregate})
    finish([Lead(clients[0]), *map(Local, clients)])
    assert len(rounds.seen) == 2
    for number, seen in enumerate(rounds.seen, start=1):
        base = clients[0].mirror.sealed(PassRef(number - 1))
        assert base is not None
        folders = [f"{site}/pass_{number:03d}" for site in sorted(SITES)]
        assert seen["inputs"] == [
            f"{folder}/{name}" for folder in folders for name in ("metrics.json", "model.txt", "round.json")
        ]
        assert seen["models"] == seen["sealed models"]
        assert seen["bases"] == seen["sealed bases"]
        assert seen["folders of bases"] == [f"pass_{number - 1:03d}/model.txt"]
        assert seen["base"] == base.seal.model_sha256
        assert seen["rounds"] == [
            {"site": site, "base_pass": number - 1, "staleness": 0, "weight": 1.0} for site in SITES
        ]
    for client in clients:
        client.close()
