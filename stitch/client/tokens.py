"""The store tokens of an actor: which it holds, what each is needed for, and which end soon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from stitch.clock import Clock
from stitch.config.settings import Settings
from stitch.store.azure_sas import Need, SasFacts, read_sas
from stitch.store.location import Location, parse_location

SOON = timedelta(days=14)
READ: frozenset[Need] = frozenset({"read", "list"})
BEAT: frozenset[Need] = frozenset({"read", "overwrite"})  # a heartbeat's own token may be for that one file
_LEAD: frozenset[Need] = frozenset({"read", "list", "create", "overwrite"})
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class InUse:
    """A store URL, who it is for ("" where there is but one), and what its token must allow."""

    url: str = field(repr=False)
    name: str
    needs: frozenset[Need]


def stores_in_use(settings: Settings) -> list[InUse]:
    """Each different store URL once."""
    urls = settings.urls
    wanted = [InUse(urls.global_, "global", _LEAD if settings.is_lead else READ)]
    wanted += [InUse(urls.site, settings.site, READ | {"create"}), InUse(urls.heartbeat, "heartbeat", BEAT)]
    if settings.is_lead:
        others = {site: url for site, url in urls.lanes.items() if site != settings.site}
        wanted += [InUse(url, site, READ) for site, url in others.items()]
    found: dict[str, InUse] = {}
    for one in wanted:
        before = found.get(one.url, one)
        found[one.url] = InUse(one.url, before.name, before.needs | one.needs)
    found.pop("", None)
    return list(found.values()) if len(found) > 1 else [replace(one, name="") for one in found.values()]


def tokens_in_use(settings: Settings) -> Iterator[tuple[InUse, SasFacts, Location]]:
    """What each SAS token says of itself, with the store it is for.

    Raises:
        ConfigError: a URL cannot be used.
    """
    beside = settings.environ.get("AZURE_STORAGE_SAS_TOKEN", "")
    for one in stores_in_use(settings):
        location = parse_location(one.url)
        facts = read_sas(location.token or beside) if location.kind == "azure" else None
        if facts:
            yield one, facts, location


def ends_soon(facts: SasFacts, now: datetime) -> str:
    """`expires on 2026-12-01 12:00 UTC, in 3 days` for a valid token's last two weeks, else "".

    Args:
        facts: what the token says.
        now: the store's time where it answers, else this machine's.
    """
    if facts.expires is None or not now < facts.expires < now + SOON:
        return ""
    days = (facts.expires - now).days
    left = "1 day" if days == 1 else f"{days} days" if days else "less than a day"
    return f"expires on {facts.expires:%Y-%m-%d %H:%M} UTC, in {left}"


class TokenWatch:
    """Says once a day which tokens end soon, and at once when they were replaced.

    Args:
        clock: this machine's monotonic clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked: float | None = None
        self._urls: object = None

    def look(self, settings: Settings, now: Callable[[], datetime]) -> list[str]:
        """One line for each token in its last two weeks; empty when it is not yet time to say it again.

        Args:
            settings: whose tokens.
            now: the store's time; not asked for where there is no token.
        """
        tick = self._clock.monotonic()
        again = self._looked is None or tick - self._looked >= _DAY_S
        if not again and settings.urls == self._urls:
            return []
        self._looked, self._urls = tick, settings.urls
        tokens = list(tokens_in_use(settings))
        at = now() if tokens else None
        found = ((one.name, ends_soon(facts, at) if at else "") for one, facts, _ in tokens)
        return [
            f"the store token {f'of {name} ' if name else ''}{ends}: ask the lead for a new URL now"
            for name, ends in found
            if ends
        ]
