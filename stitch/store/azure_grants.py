"""Carries out a `Plan`: looks first, refuses before anything is made, and goes on where it was cut."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stitch import layout
from stitch.errors import ConfigError, StoreError
from stitch.store.azure_account import Account, Found
from stitch.store.azure_provision import (
    BEAT,
    LANE_MARK,
    REVOKED_MARK,
    RUN_MARK,
    SHARED,
    SITE,
    Container,
    Plan,
    container_name,
    held_for,
    settle,
    withdrawn,
)


@dataclass(frozen=True, slots=True)
class Granted:
    """What a plan came to.

    Attributes:
        made: the containers that were not there before.
        left_out: sites that get no kit, since they were revoked.
        until: when the tokens end, by the account's clock.
        kits: each site's URLs by variable. They hold tokens: never printed.
    """

    made: frozenset[str]
    left_out: tuple[str, ...]
    until: datetime
    kits: Mapping[str, Mapping[str, str]] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """What revoking a site came to.

    Attributes:
        policies: the ids that are gone; none when the site had none left.
        stranded: other sites that read the global container by a policy that went with it: they
            need new kits.
    """

    policies: tuple[str, ...]
    stranded: tuple[str, ...]


def grant(account: Account, plan: Plan, *, days: int, named: Collection[str] = ()) -> Granted:
    """Make what is missing and sign every kit anew. No blob is touched.

    Every container is looked at before the first is made, so a clash leaves everything as it was.
    What a cut leaves behind is what the next call finds there.

    Args:
        account: where.
        plan: what.
        days: how long the tokens are valid.
        named: sites that get a kit although they were revoked, since they were asked for by name.

    Raises:
        StoreError: a container is another run's, has no room for a policy, or the account refused.
    """
    found = _look(account, plan)
    revoked = [site for site in plan.kits if _is_revoked(found[plan.container_of(site).name])]
    left_out = tuple(site for site in revoked if site not in named)
    plan = plan.for_kits(set(plan.kits) - set(left_out))
    ids = {one.name: _settled(account, one, found[one.name]) for one in plan.containers}
    made = [one for one in plan.containers if found[one.name] is None]
    for one in made:
        account.make(one.name, one.marks)
    if account.keeps_policies:
        for one in plan.containers:
            _keep(account, one, found[one.name], ids[one.name])
    for site in set(revoked) - set(left_out):
        account.mark(plan.container_of(site).name, plan.container_of(site).marks)
    until = account.now().replace(microsecond=0) + timedelta(days=days)
    kits = {
        site: {
            token.variable: account.sign(token, ids[token.container].get(token.purpose, ""), until=until)
            for token in tokens
        }
        for site, tokens in plan.kits.items()
    }
    return Granted(frozenset(one.name for one in made), left_out, until, kits)


def withdraw(account: Account, plan: Plan, *, site: str) -> Withdrawn:
    """End a site's tokens now, by taking away the policies they hang on. No blob is touched.

    Args:
        account: where.
        plan: of the whole run.
        site: whose tokens.

    Raises:
        ConfigError: the account is opened by a sign-in, whose tokens hang on nothing.
        StoreError: nothing was ever provisioned for the site, or the account refused.
    """
    if not account.keeps_policies:
        raise ConfigError(
            "tokens that an Entra login signed cannot be withdrawn one by one",
            hint="They end within 7 days; `az storage account revoke-delegation-keys` ends all at once.",
        )
    found = _look(account, plan)
    own = plan.container_of(site)
    if found[own.name] is None:
        raise StoreError(
            f"there is nothing to revoke: {account.endpoint} has no container {own.name}",
            hint="Is this the account, the run (stitch.toml) and the site that you mean?",
        )
    left = {name: dict(there.policies) for name, there in found.items() if there}
    finished = not any(held_for(purpose, left[own.name]) for purpose in (SITE, BEAT))
    gone: list[str] = []
    for name, purposes in withdrawn(plan, site).items():
        wanted = set(purposes) - ({SHARED} if finished else set())
        out = [held for held in left.get(name, ()) if held.rpartition("_")[0] in wanted]
        for policy in out:
            del left[name][policy]
        there = found[name]
        if out and there:
            account.keep(name, left[name], unless_after=there.changed)
        gone += out
    if site != plan.lead and not _is_revoked(found[own.name]):
        account.mark(own.name, {**own.marks, REVOKED_MARK: f"{account.now():%Y-%m-%d}"})
    return Withdrawn(tuple(gone), () if site == plan.lead else tuple(_stranded(plan, site, left)))


def _look(account: Account, plan: Plan) -> dict[str, Found | None]:
    """Every container by name; refuses one that is not ours."""
    found = {one.name: account.look(one.name) for one in plan.containers}
    for one in plan.containers:
        _require_ours(one, found[one.name])
    return found


def _is_revoked(found: Found | None) -> bool:
    return found is not None and REVOKED_MARK in found.marks


def _stranded(plan: Plan, revoked: str, left: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Sites that may write their lane and have lost the global one, now or in a call that was cut."""
    readers = left.get(container_name(plan.run_id, layout.GLOBAL), ())
    for site in plan.sites:
        writes = held_for(SITE, left.get(plan.container_of(site).name, ()))
        reads = held_for(f"read_{site}", readers) or held_for(SHARED, readers)
        if writes and not reads and site not in (revoked, plan.lead):
            yield site


def _require_ours(container: Container, found: Found | None) -> None:
    if found is None or all(found.marks.get(name) == value for name, value in container.marks.items()):
        return
    run, lane = found.marks.get(RUN_MARK, ""), found.marks.get(LANE_MARK, "")
    whose = f"belongs to the lane {lane} of the run {run}" if run else "was not made by `provision`"
    marks = " ".join(f"{name}={value}" for name, value in container.marks.items())
    raise StoreError(
        f"the container {container.name} is there already and {whose}",
        hint="Use another account or run_id. If it is meant for this lane: "
        f"az storage container metadata update --name {container.name} --metadata {marks}",
    )


def _settled(account: Account, container: Container, found: Found | None) -> dict[str, str]:
    if not account.keeps_policies:
        return {}
    return settle(container, found.permissions if found else {}, mark=secrets.token_hex(4))


def _keep(account: Account, container: Container, found: Found | None, ids: Mapping[str, str]) -> None:
    """Set the policies, unless they are all there with the right permissions."""
    wanted = {ids[want.purpose]: want.permissions for want in container.wants}
    held = found.permissions if found else {}
    if any(set(held.get(policy, "")) != set(letters) for policy, letters in wanted.items()):
        before = found.policies if found else {}
        account.keep(container.name, {**before, **wanted}, unless_after=found.changed if found else None)
