"""What every actor of a run must agree on, and its hash (docs/protocol.md, Hashes)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict

from stitch.config.settings import Settings


def config_facts(settings: Settings) -> dict[str, object]:
    """The settings that must be equal at every actor, as JSON values.

    Polling, paths, proxies, roster and stores are left out: they differ or change within a run.
    """
    return {
        "run_id": settings.run_id,
        "num_passes": settings.num_passes,
        "policy": asdict(settings.policy),
        "contract": settings.hooks.contract,
        "model_ext": settings.hooks.model_ext,
        "config": dict(settings.hyper),
    }


def config_sha256(settings: Settings) -> str:
    """Lower-case hex SHA-256 of `config_facts` as JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(
        config_facts(settings), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
