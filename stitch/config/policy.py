"""The `[policy]` table as a value, with what its keys must be among themselves."""

from __future__ import annotations

from stitch.config.schema import PolicyTable
from stitch.config.settings import Policy
from stitch.errors import ConfigError

_QUORUM_ONLY = ("min_participants", "open_timeout", "collect_timeout", "retry_budget")


def policy_of(table: PolicyTable, *, sites: int, file: str) -> Policy:
    """Check the table against itself and the number of sites.

    Raises:
        ConfigError: a quorum without its K, a K that can never be reached, or a key that this policy
            does not have.
    """
    given = table.model_dump(exclude_unset=True)
    policy = Policy(**given)
    if policy.require == "quorum":
        if "min_participants" not in given:
            raise ConfigError(
                f"{file}: policy.min_participants is missing",
                hint="Say how many sites a round needs at least, such as min_participants = 3.",
            )
        if policy.min_participants > sites:
            raise ConfigError(
                f"{file}: policy.min_participants is {policy.min_participants}, and there are {sites} sites",
                hint="A round could never close: use a smaller number.",
            )
        return policy
    foreign = [key for key in _QUORUM_ONLY if key in given]
    if foreign:
        raise ConfigError(
            f'{file}: policy.{foreign[0]} means nothing with require = "{policy.require}"',
            hint='Remove it, or use require = "quorum".',
        )
    return policy
