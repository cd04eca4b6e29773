"""The `[policy]` table as a value, with what its keys must be among themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields

from stitch.config.schema import PolicyTable
from stitch.config.weighting import CONSTANT, Weighting
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


_BUFFER = ("buffer_size", "window_seconds", "max_staleness", "weighting")


@dataclass(frozen=True, slots=True)
class Policy:
    """When the lead closes a round.

    Attributes:
        require: "all_expected" (no deadline), "quorum" or "buffered".
        min_participants: of a quorum, how many sites a round needs (K).
        open_timeout: seconds within which so many must have started.
        collect_timeout: seconds from then on within which their passes are waited for.
        retry_budget: how many further attempts of a round one process makes when nothing can be used.
        on_mismatch: what a broken dataset commitment costs: the round, or the site its place in it.
        buffer_size: of "buffered", how many passes close a round.
        window_seconds: after which one pass is enough.
        max_staleness: how many globals may have come since a pass's base.
        weighting: how much less a stale pass counts.
    """

    require: str = "all_expected"
    min_participants: int = 1
    open_timeout: float = 86_400.0
    collect_timeout: float = 86_400.0
    retry_budget: int = 3
    on_mismatch: str = "abort"
    buffer_size: int = 1
    window_seconds: float = 86_400.0
    max_staleness: int = 4
    weighting: Weighting = CONSTANT

    @property
    def buffered(self) -> bool:
        """Whether a round takes passes that were trained from older globals."""
        return self.require == "buffered"

    @property
    def oldest(self) -> int:
        """The largest staleness that a round takes."""
        return self.max_staleness if self.buffered else 0

    def weight(self, staleness: int) -> float | None:
        """What the policy asks to multiply a delta with; None where it asks nothing."""
        return self.weighting.at(staleness) if self.buffered else None

    @property
    def strategy_defaults(self) -> dict[str, object]:
        """Options that a strategy of `[hooks] strategy` has from the policy, where it names them."""
        return {"buffer_size": self.buffer_size} if self.buffered else {}

    @property
    def facts(self) -> dict[str, object]:
        """What every actor must agree on: `require`, and what was not left as it is by default.

        Under "buffered" its four keys always, so that a proof needs no version's defaults.
        """
        default, told = Policy(), {"require", *(_BUFFER if self.buffered else ())}
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        facts = {
            name: value for name, value in given.items() if name in told or value != getattr(default, name)
        }
        return facts | ({"weighting": str(self.weighting)} if "weighting" in facts else {})


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
