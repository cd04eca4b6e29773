"""The `[policy]` table as a value, with what its keys must be among themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stitch.config.schema import PolicyTable
from stitch.config.settings import Policy
from stitch.config.weighting import Weighting
from stitch.errors import ConfigError

_KEYS_OF: Mapping[str, frozenset[str]] = {
    "all_expected": frozenset(),
    "quorum": frozenset({"min_participants", "open_timeout", "collect_timeout", "retry_budget"}),
    "buffered": frozenset({"buffer_size", "window_seconds", "max_staleness", "weighting", "retry_budget"}),
}
"""The keys that mean something under one policy alone."""

_NEEDED = {
    "quorum": ("min_participants", "Say how many sites a round needs at least, such as {} = 3."),
    "buffered": ("buffer_size", "Say how many passes close a round, such as {} = 3."),
}


def policy_of(table: PolicyTable, *, sites: int, file: str) -> Policy:
    """Check the table against itself and the number of sites.

    Raises:
        ConfigError: a quorum without its K, a K that can never be reached, a buffer without its size, or a
            key that this policy does not have.
    """
    given = table.model_dump(exclude_unset=True)
    if given.get("weighting") is not None:
        given["weighting"] = Weighting.parse(given["weighting"])
    policy = Policy(**given)
    _check_keys(policy.require, given.keys(), file=file)
    if policy.require == "quorum" and policy.min_participants > sites:
        raise ConfigError(
            f"{file}: policy.min_participants is {policy.min_participants}, and there are {sites} sites",
            hint="A round could never close: use a smaller number.",
        )
    return policy


def _check_keys(require: str, given: Collection[str], *, file: str) -> None:
    """What the policy needs is there, and what only another one has is not."""
    needed, example = _NEEDED.get(require, ("", ""))
    if needed and needed not in given:
        raise ConfigError(f"{file}: policy.{needed} is missing", hint=example.format(needed))
    own = _KEYS_OF[require]
    for key in sorted(set(given) - own):
        homes = [name for name, keys in _KEYS_OF.items() if key in keys]
        if homes:
            meant = " or ".join(f'require = "{name}"' for name in homes)
            raise ConfigError(
                f'{file}: policy.{key} means nothing with require = "{require}"',
                hint=f"Remove it, or use {meant}.",
            )
