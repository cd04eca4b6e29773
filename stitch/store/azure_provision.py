"""Who gets what in a storage account, as values: containers, stored access policies, tokens.

`azure_account.py` carries it out and `cli/provision_script.py` writes it as Azure CLI commands, both
from the same `Plan`, so that a cloud team's script does what the lead's own command does.

A stored access policy holds the permissions, the token its expiry: Azure takes each from one place
alone. Withdrawing the policy ends its tokens at once; an expiry in the token can be read beforehand
(docs/adr/0020).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from stitch import layout
from stitch.config.environment import STORE_GLOBAL, STORE_HEARTBEAT, STORE_SITE
from stitch.config.names import lane_variable
from stitch.errors import StoreError

MOST_POLICIES = 5
"""Stored access policies that Azure keeps on one container."""

MOST_DAYS, MOST_DAYS_SIGNED_IN = 366, 7
"""Days a token may be valid: our own bound, and Azure's for tokens signed by a sign-in."""

RUN_MARK, LANE_MARK, REVOKED_MARK = "stitch_run", "stitch_lane", "stitch_revoked"
"""Metadata by which a container says whose it is, and when its site was revoked."""

SITE, BEAT, LEAD, SHARED = "site", "beat", "lead", "shared"
"""What a policy is for. A site reads the global container by `read_<site>`, or by `shared`."""

_MOST_CHARS = 63
_CREATE, _OVERWRITE, _READ, _BEAT = "rcl", "rcwl", "rl", "rcw"


@dataclass(frozen=True, slots=True)
class Want:
    """A stored access policy that a container should have.

    Attributes:
        purpose: what it is for; its id is the purpose, `_` and a mark that is never used twice.
        permissions: letters in Azure's order.
        otherwise: the purpose that serves instead when the container has no room for one more.
    """

    purpose: str
    permissions: str
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """One lane's container.

    Attributes:
        lane: "global" or "sites/<id>".
        name: as Azure knows it.
        marks: the metadata that says whose it is.
        wants: its policies, the lead's first.
    """

    lane: str
    name: str
    marks: Mapping[str, str]
    wants: tuple[Want, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """One URL of a kit.

    Attributes:
        variable: the environment variable that holds it.
        container: the container's name.
        purpose: of the policy it hangs on.
        permissions: of that policy; in the token itself where no policy can be kept.
        blob: the one blob it is for; "" for the whole container.
    """

    variable: str
    container: str
    purpose: str
    permissions: str
    blob: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one call of `provision` brings about.

    Attributes:
        run_id: the run.
        lead: the site that also aggregates.
        containers: one a lane, the global one first.
        kits: each site's tokens, the lead's first.
    """

    run_id: str
    lead: str
    containers: tuple[Container, ...]
    kits: Mapping[str, tuple[Token, ...]]

    @property
    def sites(self) -> tuple[str, ...]:
        """All sites of the run."""
        return tuple(site for one in self.containers if (site := layout.lane_site(one.lane)))

    def container_of(self, site: str) -> Container:
        """The container of a site's lane."""
        return next(one for one in self.containers if one.lane == layout.site_lane(site))

    def for_kits(self, sites: Collection[str]) -> Plan:
        """The same with kits for these sites alone, and the lead."""
        return make_plan(self.run_id, self.lead, sites=self.sites, kits=sites)


def container_name(run_id: str, lane: str) -> str:
    """The container of a lane: 3 to 63 of a-z, 0-9 and single hyphens, as Azure wants it.

    `icu-1` and `sites/nu` give `icu-1-nu`. A run id that Azure would not take as it stands, or that
    makes the name too long, is spelled differently or cut, and a hash of run and lane tells it apart.
    """
    site = layout.lane_site(lane) or layout.GLOBAL
    words = re.sub(r"[^a-z0-9]+", "-", run_id.lower()).strip("-")
    whole = f"{words}-{site}"
    if words == run_id and len(whole) <= _MOST_CHARS:
        return whole
    mark = hashlib.sha256(f"{run_id}/{lane}".encode()).hexdigest()[:8]
    room = _MOST_CHARS - len(f"-{site}-{mark}")
    return f"{words[:room].strip('-')}-{site}-{mark}"


def make_plan(run_id: str, lead: str, *, sites: Sequence[str], kits: Collection[str]) -> Plan:
    """Every lane's container, and kits for some sites and the lead.

    Args:
        run_id: the run.
        lead: the site that also aggregates; its kit reads every lane, so it is always made.
        sites: all sites.
        kits: those that get a kit.
    """
    names = {lane: container_name(run_id, lane) for lane in _lanes(sites)}
    guests = [site for site in sites if site in kits and site != lead]
    wants = {layout.GLOBAL: (Want(LEAD, _OVERWRITE), *(_reading(site) for site in guests))}
    for site in sites:
        own = (Want(SITE, _CREATE), Want(BEAT, _BEAT)) if site in kits or site == lead else ()
        wants[layout.site_lane(site)] = own if site == lead else (Want(LEAD, _READ), *own)
    containers = tuple(
        Container(lane, name, {RUN_MARK: run_id, LANE_MARK: lane}, wants[lane])
        for lane, name in names.items()
    )
    tokens = {lead: _lead_tokens(run_id, lead, sites, names)}
    tokens |= {site: _site_tokens(run_id, site, names, _reading(site)) for site in guests}
    return Plan(run_id, lead, containers, tokens)


def withdrawn(plan: Plan, site: str) -> dict[str, tuple[str, ...]]:
    """The purposes whose policies go when a site is revoked, by container, its own lane's last.

    While its own are there, its revocation is not finished. Until then the policy that several sites
    share goes too, since nobody remembers whether an older token of this site hangs on it; afterwards
    the sites that got another one keep it.
    """
    own = layout.site_lane(site)
    reading = (_reading(site).purpose, SHARED)
    gone: dict[str, tuple[str, ...]] = {}
    for one in plan.containers:
        if site == plan.lead and one.lane != own:
            gone[one.name] = (LEAD,)
        elif one.lane == layout.GLOBAL:
            gone[one.name] = reading
    return {**gone, container_name(plan.run_id, own): (SITE, BEAT)}


def held_for(purpose: str, policies: Collection[str]) -> str:
    """The id of the policy for a purpose among those a container has, or ""."""
    return next((one for one in sorted(policies) if one.rpartition("_")[0] == purpose), "")


def settle(container: Container, held: Mapping[str, str], *, mark: str) -> dict[str, str]:
    """The policy that serves each purpose, those that are there kept, so that their tokens go on.

    Args:
        container: with what it wants.
        held: the permissions of the policies it has, by id, whoever made them.
        mark: ends the ids of new ones. An id must never come back: withdrawn tokens would too.

    Returns:
        Ids by purpose.

    Raises:
        StoreError: it has no room for one more.
    """
    chosen: dict[str, str] = {}
    there = set(held)
    for want in container.wants:
        purpose = want.purpose
        if want.otherwise and not held_for(purpose, there) and len(there) >= MOST_POLICIES - 1:
            purpose = want.otherwise
        found = held_for(purpose, there)
        if not found and len(there) >= MOST_POLICIES:
            raise StoreError(
                f"the container {container.name} has {MOST_POLICIES} stored access policies, none of them "
                f"ours for {purpose!r}, and Azure keeps no more",
                hint="Delete one that nobody needs (az storage container policy list, delete), then re-run.",
            )
        chosen[want.purpose] = found or f"{purpose}_{mark}"
        there.add(chosen[want.purpose])
    return chosen


def _lanes(sites: Sequence[str]) -> list[str]:
    return [layout.GLOBAL, *map(layout.site_lane, sites)]


def _reading(site: str) -> Want:
    return Want(f"read_{site}", _READ, otherwise=SHARED)


def _own_tokens(run_id: str, site: str, container: str) -> tuple[Token, Token]:
    blob = f"{run_id}/{layout.heartbeat(layout.site_lane(site))}"
    return (
        Token(STORE_SITE, container, SITE, _CREATE),
        Token(STORE_HEARTBEAT, container, BEAT, _BEAT, blob),
    )


def _site_tokens(run_id: str, site: str, names: Mapping[str, str], reading: Want) -> tuple[Token, ...]:
    shared = Token(STORE_GLOBAL, names[layout.GLOBAL], reading.purpose, reading.permissions)
    return (shared, *_own_tokens(run_id, site, names[layout.site_lane(site)]))


def _lead_tokens(run_id: str, lead: str, sites: Sequence[str], names: Mapping[str, str]) -> tuple[Token, ...]:
    others = [site for site in sites if site != lead]
    return (
        Token(STORE_GLOBAL, names[layout.GLOBAL], LEAD, _OVERWRITE),
        *_own_tokens(run_id, lead, names[layout.site_lane(lead)]),
        *(Token(lane_variable(site), names[layout.site_lane(site)], LEAD, _READ) for site in others),
    )
