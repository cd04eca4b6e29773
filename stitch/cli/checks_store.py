"""The stores: each token read locally, each lane listed, read and written as this actor will."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from stitch import layout
from stitch.cli.checks import Check, broken, fail, ok, warn
from stitch.cli.checks_network import network
from stitch.cli.checks_project import synced_part
from stitch.client.lanes import open_lanes
from stitch.client.tokens import BEAT, ends_soon, stores_in_use, tokens_in_use
from stitch.clock import Clock
from stitch.config.settings import Settings
from stitch.errors import AlreadyExists, ConfigError, NotFound, StitchError, StoreDenied
from stitch.store.azure_sas import Need, SasFacts
from stitch.store.base import Match
from stitch.store.lanes import Lanes
from stitch.store.location import parse_location
from stitch.wire import MAX_BYTES, Heartbeat

_SKEW_S = 120.0
_LETTERS: dict[Need, str] = {"read": "r", "list": "l", "create": "c", "overwrite": "w"}


def doctor_lanes(settings: Settings, clock: Clock) -> Lanes:
    """The stores as `run` opens them, but impatient: one retry."""
    impatient = replace(settings.transfer, max_retries=1, retry_backoff_seconds=0.2)
    return open_lanes(replace(settings, transfer=impatient), clock=clock, stop=threading.Event())


def places(settings: Settings) -> Iterator[Check]:
    """Proxy and certificates of each HTTPS endpoint; what is odd about a folder."""
    seen: set[str] = set()
    for one in stores_in_use(settings):
        try:
            location = parse_location(one.url)
        except ConfigError as error:
            yield fail("store", error)
            continue
        if location.kind == "azure" and location.endpoint not in seen:
            seen.add(location.endpoint)
            yield from network(location.endpoint, settings.environ, ca_bundle=settings.store.ca_bundle)
        part = synced_part(location.folder) if location.folder else ""
        if part and not settings.store.synced:
            yield warn(
                "store",
                f"the store lies in the synced folder {part!r}, where files arrive in any order",
                todo="Set [store] synced = true in stitch.toml, at every site.",
            )


def tokens(settings: Settings, now: datetime) -> Iterator[Check]:
    """What each SAS token says: scope, permissions, expiry.

    Args:
        settings: whose stores.
        now: the store's time where it answers, else this machine's.
    """
    for one, facts, location in tokens_in_use(settings):
        yield _token(f"token {one.name}".strip(), facts, one.needs, now, location.container)


def _token(name: str, facts: SasFacts, needs: frozenset[Need], now: datetime, container: str) -> Check:
    missing = sorted(need for need in needs if facts.allows(need) is False)
    if facts.scope == "a single file" and needs != BEAT:
        return _refused(name, "is for a single file", "for the container (sr=c)")
    if facts.expires and facts.expires <= now:
        return _refused(name, f"expired on {facts.expires:%Y-%m-%d %H:%M} UTC", "that is valid longer")
    if facts.starts and facts.starts > now:
        return _refused(
            name, f"is not valid before {facts.starts:%Y-%m-%d %H:%M} UTC", "without a start (st)"
        )
    if missing:
        letters = facts.permissions + "".join(_LETTERS[need] for need in missing)
        return _refused(name, f"may not {', '.join(missing)}", f"with sp={letters}")
    ends = ends_soon(facts, now)
    if ends:
        return warn(name, ends, todo="Ask the lead for a new URL now, then `clif-stitch setup`.")
    parts = [f"{container}: {facts.scope}"]
    parts.append(
        f"permissions {facts.permissions}" if facts.permissions else f"stored policy {facts.policy!r}"
    )
    parts.append(f"until {facts.expires:%Y-%m-%d}" if facts.expires else "expiry set by the policy")
    parts += [f"only from {facts.addresses}"] if facts.addresses else []
    return ok(name, ", ".join(parts))


def _refused(name: str, finding: str, wanted: str) -> Check:
    todo = f"Ask the lead for a URL {wanted}, then `clif-stitch setup`."
    return broken(name, f"the token {finding}", todo=todo, kind=StoreDenied)


def reach(settings: Settings, lanes: Lanes) -> Iterator[Check]:
    """List and read each lane that this actor needs, then write its heartbeat where it beats."""
    own = layout.site_lane(settings.site)
    needed = {layout.GLOBAL: settings.is_lead, own: True}
    if settings.is_lead:
        needed |= {layout.site_lane(site): False for site in settings.sites if site != settings.site}
    for lane, writes in needed.items():
        yield from _lane(lanes, lane, settings, writes=writes)


def _lane(lanes: Lanes, lane: str, settings: Settings, *, writes: bool) -> Iterator[Check]:
    name = f"store {lane}"
    try:
        next(iter(lanes.list(f"{lane}/")), None)
        site = layout.lane_site(lane)
        lanes.stat(layout.join(site, 1) if site else layout.manifest())
        done = "listed, read"
        if writes:
            done += ", " + _write(lanes, lane, settings)
    except StitchError as error:
        yield fail(name, error)
    else:
        yield ok(name, done)


def _write(lanes: Lanes, lane: str, settings: Settings) -> str:
    """Write the lane's heartbeat, the one key that may be replaced, without feigning life (law 10).

    A process that beats is left alone. A beat that no clock can age is put back as it is: its
    counter stands still. A dead process's beat is put back as released, since its new date would
    keep the next process waiting.
    """
    path = layout.heartbeat(lane)
    try:
        found = lanes.read(path, limit=MAX_BYTES)
    except NotFound:
        found = None
    if found is None:
        lanes.write(path, _never_beaten(lane, settings).dump(), mode="create")
        return "written"
    entry, data = found
    beat = Heartbeat.parse(data, source=path)
    if beat.state != "released" and lanes.traits(lane).server_time:
        age = (lanes.now(lane) - entry.modified).total_seconds()
        if age <= 3 * beat.interval_s:
            return f"in use by {beat.host} {max(0.0, age):.0f} s ago"
        data = beat.model_copy(update={"state": "released"}).dump()
    swaps = lanes.store_of(path).traits.compare_and_swap
    try:
        lanes.write(path, data, mode=Match(entry.etag) if swaps else "replace")
    except AlreadyExists:
        return "in use just now"
    return "written"


def _never_beaten(lane: str, settings: Settings) -> Heartbeat:
    """A beat of nobody: no term has its nonce, so it never counts as life."""
    return Heartbeat.make(
        run_id=settings.run_id,
        lane=lane,
        nonce="doctor",
        term=0,
        host="",
        beat=0,
        interval_s=settings.heartbeat_minutes * 60,
        state="released",
        pass_id=None,
    )


def clocks(lanes: Lanes, clock: Clock) -> Iterator[Check]:
    """This machine's clock beside the store's. No decision compares them (law 6), but tokens and TLS do."""
    if not lanes.traits(layout.GLOBAL).server_time:
        yield ok("clock", "this store has no clock of its own")
        return
    before = clock.now()
    theirs = lanes.now(layout.GLOBAL)
    ours = before + (clock.now() - before) / 2
    skew = (ours - theirs).total_seconds()
    finding = f"this machine is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the store"
    if abs(skew) > _SKEW_S:
        yield warn(
            "clock", finding, todo="Have this machine's time set (tokens and certificates depend on it)."
        )
    else:
        yield ok("clock", finding)
