"""What every actor of a run must agree on, and its hash (docs/protocol.md, Hashes and seeds)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from stitch.config.settings import Settings

_MOST_SHOWN = 3
_MOST_NAMED = 12
_LONGEST = 40


def config_facts(settings: Settings) -> dict[str, object]:
    """The settings that must be equal at every actor, as JSON values.

    Polling, paths, proxies, roster and stores are left out: they differ or change within a run.
    `train`, `strategy`, `evaluation`, `pins`, `integrity`, `security` and `privacy` are there only when
    something stands in them.
    """
    facts: dict[str, object] = {
        "run_id": settings.run_id,
        "num_passes": settings.num_passes,
        "policy": settings.policy.facts,
        "contract": settings.hooks.contract,
        "model_ext": settings.hooks.model_ext,
        "config": dict(settings.hyper),
    }
    if settings.train_config:
        facts["train"] = {"config": dict(settings.train_config)}
    if settings.hooks.strategy is not None:
        facts["strategy"] = {"name": settings.hooks.strategy, "options": dict(settings.strategy_options)}
    if settings.evaluation.facts:
        facts["evaluation"] = settings.evaluation.facts
    if settings.pins:
        facts["pins"] = {
            name: {"sha256": pin.sha256, "when": pin.when} for name, pin in settings.pins.items()
        }
    if settings.integrity.commit:
        facts["integrity"] = {"commit": True}
    if settings.security.sign:
        facts["security"] = {"sign": True, "lead_key": settings.security.lead_key}
    if settings.compression.kind is not None:
        facts["compression"] = {"kind": settings.compression.kind, "keep": settings.compression.keep}
    if settings.privacy.facts:
        facts["privacy"] = settings.privacy.facts
    return facts


def config_sha256(settings: Settings) -> str:
    """The hash of `config_facts`."""
    return facts_sha256(config_facts(settings))


def facts_sha256(facts: Mapping[str, object]) -> str:
    """Lower-case hex SHA-256 of facts as JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def differences(begun: Mapping[str, object], ours: Mapping[str, object]) -> str:
    """What differs between two `config_facts`: `num_passes (begun with 5, here 6)`, joined by commas.

    The first names are shown with both values, the rest by name alone.

    Args:
        begun: those that the run was begun with.
        ours: those of this project.
    """
    theirs, here = dict(_flat(begun)), dict(_flat(ours))
    names = [name for name in sorted(theirs | here) if theirs.get(name) != here.get(name)]
    shown = [
        f"{name} (begun with {_short(theirs.get(name))}, here {_short(here.get(name))})"
        for name in names[:_MOST_SHOWN]
    ]
    more = names[_MOST_SHOWN:]
    also = f" and {', '.join(more[:_MOST_NAMED])}" if more else ""
    rest = f" and {len(more) - _MOST_NAMED} more" if len(more) > _MOST_NAMED else ""
    return ", ".join(shown) + also + rest or "in something that this version does not know"


def _flat(facts: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted names, and values as JSON."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, json.dumps(value)


def _short(text: str | None) -> str:
    if text is None:
        return "nothing"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
