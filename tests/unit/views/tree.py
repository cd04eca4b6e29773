"""Hand-made trees of documents: a run as its files would stand, at any moment, in a memory store."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from stitch import layout
from stitch.layout import Event, PassRef
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore
from stitch.views.observe import Observer
from stitch.views.status import RunStatus, Source
from stitch.wire import (
    Document,
    Done,
    EventDoc,
    Heartbeat,
    Join,
    Manifest,
    Orchestration,
    Roster,
    Seal,
    Term,
    Verdict,
)

RUN = "icu-mortality"
START = datetime(2026, 11, 29, 18, 0, 0, tzinfo=UTC)
SITES = ("rush", "nu", "uchicago")
LEAD = "rush"


def sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass
class FakeClock:
    """A clock that only moves when told to."""

    at: datetime = START
    ticks: float = 0.0

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.ticks

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        self.ticks += seconds


@dataclass
class Tree:
    """Writes documents of one run as its actors would; every put happens "now" on the fake clock."""

    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.store = MemoryStore(clock=self.clock)
        self.stores = dict.fromkeys(("global", *(layout.site_lane(s) for s in SITES)), self.store)

    def observe(self, **changes: Any) -> RunStatus:
        return self.observer(**changes).observe()

    def observer(self, **changes: Any) -> Observer:
        settings: dict[str, Any] = {
            "sites": SITES,
            "lead": LEAD,
            "heartbeat_minutes": 2.0,
            "clock": self.clock,
            "source": Source("store", "memory:"),
        }
        return Observer(Lanes(RUN, self.stores, {}), **settings | changes)

    def put(self, path: str, data: bytes) -> None:
        """Raw bytes at any path, known to the layout or not."""
        with TemporaryDirectory() as folder:
            src = Path(folder) / "file"
            src.write_bytes(data)
            self.store.push(src, f"{RUN}/{path}", mode="replace")

    def copy(self, path: str, to: str) -> None:
        """A document that somebody copied to another place."""
        with TemporaryDirectory() as folder:
            src = Path(folder) / "file"
            self.store.pull(f"{RUN}/{path}", src)
            self.store.push(src, f"{RUN}/{to}", mode="replace")

    def doc(self, path: str, document: Document) -> None:
        self.put(path, document.dump())

    def begin(self, *, num_passes: int = 5, sites: tuple[str, ...] = SITES) -> None:
        """The manifest and the first roster."""
        common = {"run_id": RUN, "created_at": self.clock.now()}
        settings = {"num_passes": num_passes}
        self.doc(
            layout.manifest(),
            Manifest.make(
                **common,
                lead=LEAD,
                settings=settings,
                config_sha256=sha("config"),
                root_seed=7,
                stitch_version="0.1.0",
            ),
        )
        roster = [{"site": site} for site in sites]
        self.doc(layout.roster(1), Roster.make(**common, number=1, sites=roster))

    def join(self, site: str, *, hooks: str = "hooks", config: str = "config", number: int = 1) -> None:
        document = Join.make(
            run_id=RUN,
            site=site,
            config_sha256=sha(config),
            hooks_sha256=sha(hooks),
            contract="1",
            stitch_version="0.1.0",
            created_at=self.clock.now(),
        )
        self.doc(layout.join(site, number), document)

    def term(self, lane: str, *, number: int = 1, nonce: str = "n1") -> None:
        document = Term.make(
            run_id=RUN,
            lane=lane,
            term=number,
            nonce=nonce,
            host="ward7",
            interval_s=120.0,
            created_at=self.clock.now(),
        )
        self.doc(layout.term(lane, number), document)

    def beat(self, lane: str, *, state: str = "waiting", nonce: str = "n1", count: int = 1) -> None:
        document = Heartbeat.make(
            run_id=RUN,
            lane=lane,
            nonce=nonce,
            term=1,
            host="ward7",
            beat=count,
            interval_s=120.0,
            state=state,
            pass_id=1,
        )
        self.doc(layout.heartbeat(lane), document)

    def event(self, site: str, number: int, name: str, *, attempt: int = 1, **fields: Any) -> None:
        values = {
            "run_id": RUN,
            "site": site,
            "pass_id": number,
            "event": name,
            "attempt": attempt,
            "created_at": self.clock.now(),
        }
        document = EventDoc.make(**values | fields)
        self.doc(layout.event(site, number, name=Event(name), attempt=attempt), document)

    def central(self, number: int, **fields: Any) -> None:
        """The lead's own score of a global."""
        place = {"run_id": RUN, "site": LEAD, "pass_id": number, "event": "evaluated", "attempt": 1}
        self.doc(layout.central(number), EventDoc.make(**place, **fields, created_at=self.clock.now()))

    def seal(self, ref: PassRef, *, model: bool = True, **fields: Any) -> str:
        """A sealed pass; returns the model's hash."""
        content = f"{ref.folder}".encode()
        digest = hashlib.sha256(content).hexdigest()
        base = None if ref.number == 0 else ref.number - 1
        values = {
            "run_id": RUN,
            "lane": ref.lane,
            "pass_id": ref.number,
            "attempt": 0 if ref.site is None else 1,
            "base_pass": base,
            "base_sha256": None if base is None else sha(f"global/pass_{base:03d}"),
            "model_file": layout.stored_name("model", digest, ext="npz"),
            "model_sha256": digest,
            "model_bytes": len(content),
            "n_samples": 100,
            "metrics": {"auroc": 0.7},
            "hooks_sha256": sha("hooks"),
            "round_seed": 3,
            "config_sha256": sha("config"),
            "created_at": self.clock.now(),
            "stitch_version": "0.1.0",
        }
        if model:
            self.put(ref.model(digest, "npz"), content)
        self.doc(ref.seal, Seal.make(**values | fields))
        return digest

    def global_(
        self, number: int, *, inputs: tuple[str, ...] = (), final: bool = False, **fields: Any
    ) -> str:
        """A sealed global made of these sites' passes of the same number."""
        items = [
            {
                "site": site,
                "pass": number,
                "attempt": 1,
                "model_sha256": sha(f"sites/{site}/pass_{number:03d}"),
                "metrics_sha256": sha("seal"),
                "n_samples": 100,
                "model_file": layout.stored_name("model", sha(f"sites/{site}/pass_{number:03d}"), ext="npz"),
            }
            for site in inputs
        ]
        record = {
            "policy": "all_expected",
            "attempt": 0,
            "roster": 1,
            "verdict_sha256": sha("verdict") if number else None,
            "inputs": items,
            "prev_metrics_sha256": sha("before"),
            "seed": 3,
            "final": final,
        }
        return self.seal(PassRef(number), round=record | fields.pop("round", {}), **fields)

    def verdict(self, number: int, attempt: int, *, redo: tuple[str, ...] | None = None) -> None:
        """The verdict of an attempt: closed, or aborted with these sites asked for a new pass."""
        values = {
            "run_id": RUN,
            "pass_id": number,
            "attempt": attempt,
            "roster": 1,
            "verdict": "closed" if redo is None else "aborted",
            "redo": redo or (),
            "created_at": self.clock.now(),
        }
        self.doc(layout.verdict(number, attempt), Verdict.make(**values))

    def orchestration(self, *, current_pass: int, status: dict[str, str], **fields: Any) -> None:
        values = {
            "run_id": RUN,
            "current_pass": current_pass,
            "phase": "training",
            "directive": {"expected": SITES, "base": current_pass - 1},
            "site_status": status,
            "term": 1,
            "attempt": 0,
            "state": "collecting",
            "created_at": self.clock.now(),
        }
        self.doc(layout.orchestration(), Orchestration.make(**values | fields))

    def done(self, final: int | None, *, reason: str = "completed") -> None:
        sha256 = None if final is None else sha("final seal")
        document = Done.make(
            run_id=RUN,
            final_pass=final,
            final_metrics_sha256=sha256,
            reason=reason,
            created_at=self.clock.now(),
        )
        self.doc(layout.done(), document)


def site_of(status: RunStatus, name: str) -> Any:
    return next(site for site in status.sites if site.site == name)
