"""From the documents of a run to its `RunStatus`: a view of exactly the files, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from stitch import layout
from stitch.clock import Clock
from stitch.layout import GLOBAL, What
from stitch.store.lanes import Lanes
from stitch.views.best import best_pass
from stitch.views.global_lane import GlobalLane
from stitch.views.liveness import Liveness
from stitch.views.passes import passes_of
from stitch.views.reading import LaneFiles, Reader
from stitch.views.site_state import progress, site_state
from stitch.views.status import (
    Alike,
    ConflictCopy,
    Finish,
    PassStatus,
    RunStatus,
    SiteState,
    SiteStatus,
    Source,
    Waiting,
)
from stitch.wire import Join


class Observer:
    """Looks at one run, again and again; what cannot have changed is not read twice.

    Args:
        lanes: the stores of the run, or the mirror as one folder store.
        sites: who takes part by `stitch.toml`; the newest roster overrides it.
        lead: the lead's site id.
        heartbeat_minutes: the run's beat.
        clock: this machine's monotonic clock, for stores that have none of their own.
        source: what `lanes` are, for the reader of the view.
        own: on a mirror, the site whose lane is whole there; of all others the lead's word holds.
    """

    def __init__(
        self,
        lanes: Lanes,
        *,
        sites: Sequence[str],
        lead: str,
        heartbeat_minutes: float,
        clock: Clock,
        source: Source,
        own: str | None = None,
    ) -> None:
        on_a_mirror = source.kind == "mirror"
        self._lanes = lanes
        self._sites = tuple(sites)
        self._lead = lead
        self._source = source
        self._own = own
        self._reader = Reader(lanes, timed=not on_a_mirror)
        self._liveness = Liveness(heartbeat_minutes, clock, watching=not on_a_mirror)

    def observe(self) -> RunStatus:
        """The run as its documents stand now; never raises over what they hold."""
        run = GlobalLane(self._reader.read([GLOBAL])[GLOBAL])
        names = run.roster_sites(self._sites)
        readable = [name for name in names if self._readable(name)]
        read = self._reader.read([layout.site_lane(name) for name in readable])
        lanes = {name: read[layout.site_lane(name)] for name in readable}
        alone = [self._site(name, run, files=lanes.get(name)) for name in names]
        sites = _compared(alone, self._lead, otherwise=run.hooks_sha256)
        passes = passes_of(run.files, lanes, newest_global=run.newest_global)
        every = (run.files, *lanes.values())
        whole = len(lanes) == len(names) and all(files.listed for files in lanes.values())
        return RunStatus(
            run_id=self._lanes.run_id,
            lead=self._lead,
            source=self._source,
            store_time=run.files.now,
            phase=run.phase,
            current_pass=run.wanted,
            num_passes=run.num_passes,
            newest_global=run.newest_global,
            attempt=run.orchestration.attempt if run.orchestration else None,
            round_state=run.orchestration.state if run.orchestration else None,
            roster=run.roster.number if run.roster else None,
            lead_beat=self._liveness.beat(run.files),
            waiting=_waiting(run, sites),
            finished=_finish(run, passes),
            sites=sites,
            passes=passes,
            conflicts=tuple(ConflictCopy(c.key, c.copy) for files in every for c in files.conflicts),
            problems=tuple(problem for files in every for problem in files.problems),
            best=best_pass(run, passes, whole=whole),
        )

    def _readable(self, name: str) -> bool:
        """Of a mirror every lane is read: the lead's holds the passes it has pulled."""
        return self._source.kind == "mirror" or self._lanes.has(layout.site_lane(name))

    def _site(self, name: str, run: GlobalLane, *, files: LaneFiles | None) -> SiteStatus:
        own_word = files is not None and (self._source.kind == "store" or name == self._own)
        files = files or LaneFiles(layout.site_lane(name))
        known, beat = progress(files, owed=run.attempt.ref(name)), self._liveness.beat(files)
        as_of: datetime | None = None
        if own_word:
            finished = run.done is not None
            state, reason = site_state(
                known, beat, wanted=run.wanted, finished=finished, problems=files.problems
            )
        else:
            state, reason, as_of = run.word_on(name)
        join = files.newest(What.JOIN, Join)
        settled = run.manifest.config_sha256 if run.manifest else None
        return SiteStatus(
            site=name,
            is_lead=name == self._lead,
            expected=name in run.expected(self._sites),
            state=state,
            said_by="lane" if own_word else "lead",
            as_of=as_of,
            reason=reason,
            pass_id=known.sealed if own_word else run.used_of(name),
            beat=beat if own_word else None,
            failure=known.failure if state is SiteState.FAILED else None,
            hooks_sha256=join.hooks_sha256 if join else None,
            settings=_alike(join.config_sha256 if join else None, settled),
            stitch_version=join.stitch_version if join else None,
        )


def _compared(sites: Sequence[SiteStatus], lead: str, *, otherwise: str | None) -> tuple[SiteStatus, ...]:
    """Each site's hooks beside the lead's: one that differs trains another model."""
    leads = next((site.hooks_sha256 for site in sites if site.site == lead), None) or otherwise
    return tuple(replace(site, hooks=_alike(site.hooks_sha256, leads)) for site in sites)


def _alike(one: str | None, other: str | None) -> Alike:
    if one is None or other is None:
        return "unknown"
    return "same" if one == other else "different"


def _waiting(run: GlobalLane, sites: Sequence[SiteStatus]) -> Waiting | None:
    if run.phase != "training":
        return None
    missing = tuple(s.site for s in sites if s.expected and s.state is not SiteState.COMPLETED)
    if not missing:
        return None
    since = run.opened_at()
    now = run.files.now
    seconds = max(0.0, (now - since).total_seconds()) if now and since else None
    return Waiting(missing, since, seconds, run.deadline(), run.attempt.attempt)


def _finish(run: GlobalLane, passes: Sequence[PassStatus]) -> Finish | None:
    if run.done is None:
        return None
    final = {item.pass_id: item.global_.model_sha256 for item in passes if item.global_}
    entry = run.files.found[layout.done()].entry
    sha256 = final.get(run.done.final_pass) if run.done.final_pass is not None else None
    return Finish(run.done.final_pass, run.done.reason, sha256, entry.modified)
