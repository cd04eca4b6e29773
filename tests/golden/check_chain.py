"""Proves from a run's files alone that its final model came about as they say (docs/protocol.md).

    python check_chain.py FOLDER        the folder that is named after the run

The standard library and nothing else, so that an auditor can read all of it. Exits 1 at the first break.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def need(same: bool, what: str) -> None:
    if not same:
        raise SystemExit(f"BROKEN: {what}")


def check_pass(folder: Path, *, lane: str, number: int) -> dict[str, Any]:
    """A seal that belongs to its place, and the files that it names."""
    seal: dict[str, Any] = json.loads((folder / "metrics.json").read_bytes())
    need((seal["lane"], seal["pass_id"]) == (lane, number), f"{folder} holds another pass's seal")
    need(sha256(folder / seal["model_file"]) == seal["model_sha256"], f"{folder} holds another model")
    for one in seal["attachments"]:
        need(sha256(folder / one["file"]) == one["sha256"], f"{folder} holds another {one['name']}")
    return seal


def check(run: Path) -> str:
    manifest = json.loads((run / "global/manifest.json").read_bytes())
    settings = json.dumps(manifest["settings"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    need(hashlib.sha256(settings.encode()).hexdigest() == manifest["config_sha256"], "the settings differ")
    done = json.loads((run / "global/DONE.json").read_bytes())
    before, base = run / "global/manifest.json", None
    seal: dict[str, Any] = {}
    for k in range(done["final_pass"] + 1):
        folder = run / f"global/pass_{k:03d}"
        seal = check_pass(folder, lane="global", number=k)
        need(seal["base_sha256"] == base, f"global {k} has another base")
        need(seal["config_sha256"] == manifest["config_sha256"], f"global {k} has other settings")
        seed = hashlib.sha256(f"{manifest['root_seed']}:round:{k}".encode()).digest()[:4]
        need(seal["round"]["seed"] == int.from_bytes(seed, "big") % 2**31, f"round {k} has another seed")
        need(seal["round"]["prev_metrics_sha256"] == sha256(before), f"global {k} follows another document")
        if k:
            verdict = run / f"global/rounds/pass_{k:03d}.a{seal['round']['attempt']}.json"
            need(seal["round"]["verdict_sha256"] == sha256(verdict), f"round {k} has another verdict")
            inputs = json.loads(verdict.read_bytes())["inputs"]
            need(inputs == seal["round"]["inputs"], f"global {k} is made of other inputs than decided")
        for one in seal["round"]["inputs"]:
            lane = f"sites/{one['site']}"
            own = check_pass(run / lane / f"pass_{one['pass']:03d}", lane=lane, number=one["pass"])
            need(sha256(run / lane / f"pass_{one['pass']:03d}/metrics.json") == one["metrics_sha256"], lane)
            need(own["base_sha256"] == base, f"{lane} trained round {k} from another global")
        before, base = folder / "metrics.json", seal["model_sha256"]
    need(seal["round"]["final"], "the last global is not final")
    need(done["final_metrics_sha256"] == sha256(before), "DONE names another final global")
    return base or ""


if __name__ == "__main__":
    print(f"OK: the final model is {check(Path(sys.argv[1]))}")
