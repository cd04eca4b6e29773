"""What is sealed under each pass number: the global, the sites' passes and their evaluations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from stitch.layout import Event, What
from stitch.views.means import evaluation_means, train_means
from stitch.views.reading import Found, LaneFiles
from stitch.views.status import Evaluation, GlobalPass, PassStatus, SitePass
from stitch.wire import EventDoc, RoundRecord, Seal

_PassKey = tuple[str, int, str]
"""Site, pass and model hash: what an input of a round names."""


def passes_of(
    global_lane: LaneFiles, sites: Mapping[str, LaneFiles], *, newest_global: int | None
) -> tuple[PassStatus, ...]:
    """Every pass number under which something is sealed, ascending."""
    globals_ = {seal.pass_id: (found, seal) for found, seal in _seals(global_lane)}
    records = {number: seal.round for number, (_, seal) in globals_.items()}
    rounds = _Rounds.of(records, newest_global)
    own: dict[int, list[SitePass]] = {}
    scores: dict[int, list[Evaluation]] = {}
    for site, files in sites.items():
        for found, seal in _seals(files):
            own.setdefault(seal.pass_id, []).append(rounds.site_pass(site, files, found=found, seal=seal))
        for score in _evaluations(files):
            scores.setdefault(score.pass_id, []).append(score)
    central = {one.pass_id: one for one in _evaluations(global_lane)}
    return tuple(
        PassStatus(
            pass_id=number,
            global_=_global_pass(global_lane, *globals_[number]) if number in globals_ else None,
            sites=tuple(own.get(number, ())),
            evaluated=tuple(scores.get(number, ())),
            train_means=train_means(records.get(number)),
            evaluation_means=evaluation_means(records.get(number + 1), scores.get(number, ())),
            central=central.get(number),
        )
        for number in sorted(globals_.keys() | own.keys() | scores.keys())
    )


@dataclass(frozen=True, slots=True)
class _Rounds:
    """What the globals' seals say of the site passes: used by which global, or late, or left out."""

    newest_global: int | None
    used: dict[_PassKey, tuple[int, int]] = field(default_factory=dict)
    late: set[_PassKey] = field(default_factory=set)
    excluded: dict[tuple[str, int], str] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Mapping[int, RoundRecord | None], newest_global: int | None) -> _Rounds:
        rounds = cls(newest_global)
        for number, record in records.items():
            if record is None:
                continue
            for item in record.inputs:
                rounds.used[item.site, item.pass_id, item.model_sha256] = (number, item.staleness)
            rounds.late.update((item.site, item.pass_id, item.model_sha256) for item in record.late)
            rounds.excluded.update({(item.site, number): item.reason for item in record.excluded})
        return rounds

    def site_pass(self, site: str, files: LaneFiles, *, found: Found, seal: Seal) -> SitePass:
        """One sealed site pass with its fate."""
        key = (site, seal.pass_id, seal.model_sha256)
        used_by, staleness = self.used.get(key, (None, None))
        if staleness is None and seal.base_pass is not None and self.newest_global is not None:
            staleness = max(0, self.newest_global - seal.base_pass)
        reason = self.excluded.get((site, seal.pass_id), "")
        fate: Literal["used", "excluded", "late", "open"] = "open"
        if used_by is not None:
            fate = "used"
        elif key in self.late:
            fate = "late"
        elif reason:
            fate = "excluded"
        return SitePass(
            site=site,
            pass_id=seal.pass_id,
            attempt=seal.attempt,
            base_pass=seal.base_pass,
            staleness=staleness,
            n_samples=seal.n_samples,
            metrics=dict(seal.metrics),
            model_bytes=seal.model_bytes,
            model_sha256=seal.model_sha256,
            sealed_at=found.entry.modified,
            ready=_ready(files, found, seal),
            fate=fate,
            used_by=used_by,
            excluded=reason if fate == "excluded" else "",
        )


def _global_pass(files: LaneFiles, found: Found, seal: Seal) -> GlobalPass:
    record = seal.round
    return GlobalPass(
        pass_id=seal.pass_id,
        policy=record.policy if record else None,
        attempt=seal.attempt,
        n_samples=seal.n_samples,
        metrics=dict(seal.metrics),
        model_bytes=seal.model_bytes,
        model_sha256=seal.model_sha256,
        sealed_at=found.entry.modified,
        ready=_ready(files, found, seal),
        inputs=tuple(item.site for item in record.inputs) if record else (),
        excluded={item.site: item.reason for item in record.excluded} if record else {},
        final=seal.final,
        should_stop=record.should_stop if record else False,
    )


def _seals(files: LaneFiles) -> Iterator[tuple[Found, Seal]]:
    """The seals of a lane, by pass; of a redone pass the last attempt comes last."""
    for found in files.of(What.SEAL):
        if isinstance(found.document, Seal):
            yield found, found.document


def _ready(files: LaneFiles, found: Found, seal: Seal) -> bool:
    return found.key.ref is not None and files.holds_model(seal, found.key.ref.folder)


def _evaluations(files: LaneFiles) -> Iterator[Evaluation]:
    """The newest evaluation of each global in this lane."""
    newest: dict[int, EventDoc] = {}
    for found in files.of(What.EVENT):
        if found.key.name == Event.EVALUATED and isinstance(found.document, EventDoc):
            newest[found.key.number] = found.document
    for number, event in newest.items():
        yield Evaluation(event.site, number, event.n_samples, dict(event.metrics or {}))
