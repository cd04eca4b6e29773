"""What every verb needs: settings, stores, mirror, clock, journal and staging folders."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace

from stitch import layout
from stitch.client.journal import Journal, Step
from stitch.client.keys import signing_of
from stitch.client.lanes import open_lanes
from stitch.client.seat import Seat
from stitch.client.setup import Runner, Setup
from stitch.client.trail import Trail
from stitch.config import Settings, config_sha256, reload_urls
from stitch.errors import (
    ConfigError,
    LaneLost,
    OutcomeUnknown,
    StitchError,
    Stopped,
    StoreUnavailable,
)
from stitch.hooks.runner import HookRunner
from stitch.hooks.spec import hooks_sha256
from stitch.layout import PassRef
from stitch.mirror import Mirror, Stage
from stitch.store.base import Progress
from stitch.store.lanes import Lanes
from stitch.store.location import parse_location
from stitch.sync.documents import D, Documents, Stored
from stitch.sync.events import Events
from stitch.sync.lease import Identity
from stitch.sync.passes import Limits, Passes
from stitch.sync.status import Status
from stitch.views import words


class Actor:
    """One process of one site; at the lead it also owns the global lane."""

    def __init__(self, settings: Settings, setup: Setup | None = None) -> None:
        setup = setup or Setup()
        self.settings = settings
        self.clock = setup.clock
        self.stop = setup.stop
        self.lost: LaneLost | None = None
        self.runner: Runner = setup.runner or HookRunner()
        self.journal = Journal(settings.runs_dir, setup.clock, listeners=tuple(setup.listeners))
        self.trail = Trail(settings.runs_dir)
        self.mirror = setup.mirror or Mirror(settings.mirror_dir)
        self.config_sha256 = config_sha256(settings)
        self.readers = setup.readers
        self.one_turn = setup.one_turn
        self._setup = setup
        self._stages: dict[PassRef, Stage] = {}
        self._hooks_sha256: str | None = None
        self._newest = -1  # the newest global this process saw in the store
        self.seats: dict[str, Seat] = {}
        lanes = setup.lanes or open_lanes(settings, clock=setup.clock, stop=setup.stop)
        self.documents = Documents(lanes, self.mirror, signing=signing_of(settings))
        self.events = Events(settings.site, self.documents, run_id=settings.run_id, clock=self.clock)
        self.use(lanes)

    def use(self, lanes: Lanes) -> None:
        """Work with these stores from now on.

        Seats and events go on through the same `documents`: what another loop of this process
        holds or trains is not disturbed.
        """
        settings = self.settings
        limits = Limits(
            settings.run_id, settings.hooks.model_ext, settings.transfer.max_bytes, settings.egress
        )
        own = {self.lane, layout.GLOBAL} if settings.is_lead else {self.lane}
        lanes = replace(lanes, writable=frozenset(own))
        self.lanes = self.documents.lanes = lanes
        self.passes = Passes(lanes, self.mirror, documents=self.documents, limits=limits)

    def reopen(self) -> None:
        """Read `.env` anew and open the stores with what it says now (after a 401 or 403).

        Raises:
            ConfigError: what it says cannot be used.
        """
        before = self.settings
        self.settings = reload_urls(before, self._setup.environ)
        if self._setup.lanes is None and self.settings.environ != before.environ:
            self.use(open_lanes(self.settings, clock=self.clock, stop=self.stop))

    def reach(self, sites: Iterable[str]) -> None:
        """Open the stores of sites that joined the roster after this process began."""
        unknown = tuple(site for site in sites if not self.lanes.has(layout.site_lane(site)))
        if unknown and self._setup.lanes is None:
            self.settings = reload_urls(self.settings, self._setup.environ, also=unknown)
            self.use(open_lanes(self.settings, clock=self.clock, stop=self.stop))

    # -- who we are ------------------------------------------------------------------------------

    @property
    def site(self) -> str:
        """This actor's site id."""
        return self.settings.site

    @property
    def lane(self) -> str:
        """This actor's own lane."""
        return layout.site_lane(self.settings.site)

    @property
    def far(self) -> bool:
        """Whether a request crosses a network: such a store is asked less often."""
        urls = (self.settings.urls.global_, self.settings.urls.site)
        return any(url and parse_location(url).kind == "azure" for url in urls)

    @property
    def hooks_sha256(self) -> str | None:
        """Hash of the hook sources; None when the hooks are not files (a notebook's functions)."""
        if self._hooks_sha256 is None:
            hooks = self.settings.hooks
            named = (hooks.train, hooks.aggregate, hooks.evaluate, hooks.leaves, hooks.client, hooks.strategy)
            filters = (self.settings.privacy.pre_release, hooks.pre_aggregate, hooks.admit)
            specs = [spec for spec in (*named, *filters) if spec]
            with contextlib.suppress(ConfigError):
                self._hooks_sha256 = hooks_sha256(self.settings.root, specs)
        return self._hooks_sha256

    def seat(self, lane: str) -> Seat:
        """This process's seat in a lane (not taken yet)."""
        if lane not in self.seats:
            interval = self.settings.heartbeat_minutes * 60
            self.seats[lane] = Seat(
                lane,
                documents=self.documents,
                mirror=self.mirror,
                clock=self.clock,
                identity=Identity(self.settings.run_id, self._setup.host, interval),
                take_over=self._setup.take_over,
                on_trouble=lambda error: self._trouble(lane, error),
                heart=self._setup.heart,
            )
        return self.seats[lane]

    def holds(self, lane: str) -> bool:
        """Whether this process claimed the lane: the store took a write of ours."""
        return lane in self.seats and self.seats[lane].term > 0

    def close(self) -> None:
        """Leave every lane."""
        for seat in self.seats.values():
            seat.leave()

    def _trouble(self, lane: str, error: StitchError) -> None:
        self.journal.note(lane, "error", text=f"lease: {error}")
        if isinstance(error, LaneLost):
            self.lost = error
            self.stop.set()  # a hook whose lane is gone works for nothing

    # -- staging and progress --------------------------------------------------------------------

    def stage(self, ref: PassRef) -> Stage:
        """This process's staging folder for a pass: the same until it is sealed or dropped."""
        if ref not in self._stages:
            self._stages[ref] = self.mirror.stage(ref)
        return self._stages[ref]

    def drop_stage(self, ref: PassRef) -> None:
        """Forget a pass's staging folder and remove what is left of it."""
        stage = self._stages.pop(ref, None)
        if stage is not None:
            self.mirror.discard(stage)

    def drop_stages(self, lane: str) -> None:
        """Remove this process's own staging folders of a lane: what they were for is over."""
        for ref in [ref for ref in self._stages if ref.lane == lane]:
            self.drop_stage(ref)

    def clear_stages(self, lane: str) -> None:
        """End hooks that an earlier process of this lane left running, and remove their folders.

        A start does so also when the run is over or another machine holds the lane (law 3), but
        never while another process of this machine works in it.
        """
        ours = {stage.folder for stage in self._stages.values()}
        left = [stage for stage in self.mirror.stages(lane) if stage.folder not in ours]
        if not left or not self.seat(lane).lock_here():
            return
        for stage in left:
            if self.runner.end_survivor(stage.work_dir):
                self.journal.note(lane, "repair", text="ended a hook that an earlier process left running")
            self.mirror.discard(stage)

    def told(self, stored: Stored[D]) -> Stored[D]:
        """Report a create that met something else under its key; nothing was overwritten (law 1)."""
        if stored.conflict:
            text = f"CONFLICT: {stored.entry.key} is there with other content; it was kept as it is"
            self.journal.note(layout.lane_of(stored.entry.key), "warn", text=text)
        return stored

    def attempt(self, transfer: Callable[[], Status], *, what: str) -> Status:
        """Run a transfer of the notebook's verbs: a store that stayed away is a status, not an error.

        Args:
            transfer: what to do; its requests are retried `transfer.max_retries` times.
            what: for the journal.
        """
        try:
            return transfer()
        except (StoreUnavailable, OutcomeUnknown) as error:
            self.journal.note(self.lane, "error", text=f"{what}: {error} ({error.hint})")
            return Status.FAILED

    def progress(self, lane: str, step: Step, *, pass_id: int) -> Progress:
        """A transfer's progress, told as notes with bytes and time."""
        begun = self.clock.monotonic()

        def tell(done: int, total: int) -> None:
            if self.stop.is_set():
                raise Stopped  # a long transfer must not outlast Ctrl-C; the next run resumes it
            seconds = self.clock.monotonic() - begun
            text = f"pass {pass_id}: {words.size(done)} of {words.size(total)}"
            if done < total:
                self.journal.note(
                    lane, step, text=text, pass_id=pass_id, done=done, total=total, seconds=seconds
                )

        return tell
