"""The settings as frozen values: what `stitch.toml`, `config/config.json` and the environment say.

`load.py` reads them; nothing else in the code opens those files. Where a table has rules of its own, its
value stands beside them in the module of its name (`policy.py`, `privacy.py`, ...); the others stand here.
Names are the seed's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from stitch.config.compression import Compression
from stitch.config.evaluation import Evaluation
from stitch.config.hooks import Hooks
from stitch.config.pins import Pin
from stitch.config.policy import Policy
from stitch.config.privacy import Privacy


@dataclass(frozen=True, slots=True)
class Transfer:
    """How transfers are retried and how large a model may be."""

    max_retries: int = 5
    retry_backoff_seconds: float = 2.0
    max_file_mb: int = 512

    @property
    def max_bytes(self) -> int:
        """The model's legal size in bytes (1 MB = 1,000,000 bytes)."""
        return self.max_file_mb * 1_000_000


@dataclass(frozen=True, slots=True)
class Egress:
    """What may leave beside the model (law 8).

    Attributes:
        metrics: names that may leave; None allows every finite number the hook returns.
        min_n: a pass with fewer samples (and more than zero) is refused.
        error_messages: publish the hook's own exception message in failed events.
        outbox: "direct" sends a sealed pass at once; "review" holds it until a person approved it.
    """

    metrics: tuple[str, ...] | None = None
    min_n: int = 10
    error_messages: bool = False
    outbox: str = "direct"

    @property
    def reviewed(self) -> bool:
        """Whether a person looks at every pass first; nothing else that holds numbers leaves then."""
        return self.outbox == "review"


@dataclass(frozen=True, slots=True)
class Integrity:
    """What is checked beyond the protocol's own rules.

    Attributes:
        same_train: whether a site whose hooks differ from the lead's trains ("warn") or not ("refuse").
        commit: every site commits to its data before it trains; equal at every actor.
        reproduce: whether the aggregate hook runs twice on the same inputs, and what a difference
            does: "off", "warn", or "abort" the attempt.
    """

    same_train: Literal["warn", "refuse"] = "warn"
    commit: bool = False
    reproduce: Literal["off", "warn", "abort"] = "off"


@dataclass(frozen=True, slots=True)
class Security:
    """Who must have signed what is believed.

    Attributes:
        sign: whatever decides is signed, and nothing unsigned is believed; equal at every actor.
        lead_key: the fingerprint of the lead's key (64 hex digits); needed where `sign` is true.
    """

    sign: bool = False
    lead_key: str | None = None


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """What is not secret about the stores; URLs and tokens are in `StoreUrls`."""

    synced: bool = False
    ca_bundle: Path | None = None


@dataclass(frozen=True, slots=True)
class StoreUrls:
    """Store URLs by lane, from the environment or `.env`. They may hold tokens: never printed.

    Attributes:
        global_: the store of the global lane.
        site: this site's own lane.
        heartbeat: the store used for this site's heartbeat alone; defaults to `site`.
        lanes: at the lead, the store of each site's lane, by site id.
        rest: the one store for every lane that has none of its own, or "".
    """

    global_: str = field(repr=False, default="")
    site: str = field(repr=False, default="")
    heartbeat: str = field(repr=False, default="")
    lanes: Mapping[str, str] = field(repr=False, default_factory=dict)
    rest: str = field(repr=False, default="")


@dataclass(frozen=True, slots=True)
class Settings:
    """One actor's settings.

    Attributes:
        root: the project folder, absolute.
        site: who runs here, lower-case, one of `sites`.
        sites: the roster at the start, in the order of the file, lower-case.
        give_up_after: seconds for which `run` goes on after a failed step.
        root_seed: seed of every round's seed; None draws one when the run begins.
        initial_model: a path, or `run:ID/pass_008` of an earlier run, instead of `train(None)`.
        pins: files that every site must have alike, by name.
        hyper: the `[config]` table, handed to hooks as `config` and published by the lead.
        train_config: `[train] config`, over it for the train hook alone; a global's seal is over both.
        strategy_options: the `[strategy]` table: what the strategy's class is called with.
        site_config: `config/config.json` as it stands, for hooks; never leaves the site.
        environ: the environment (with `.env`) the stores are opened with. Never printed.
    """

    root: Path
    run_id: str
    lead: str
    sites: tuple[str, ...]
    site: str
    num_passes: int
    data_dir: Path
    output_dir: Path
    poll_seconds: float = 30.0
    heartbeat_minutes: float = 2.0
    give_up_after: float = 24 * 3600.0
    root_seed: int | None = None
    initial_model: str | None = None
    policy: Policy = field(default_factory=Policy)
    transfer: Transfer = Transfer()
    hooks: Hooks = field(default_factory=Hooks)
    evaluation: Evaluation = field(default_factory=Evaluation)
    egress: Egress = Egress()
    integrity: Integrity = Integrity()
    security: Security = Security()
    privacy: Privacy = field(default_factory=Privacy)
    compression: Compression = field(default_factory=Compression)
    pins: Mapping[str, Pin] = field(default_factory=dict)
    store: StoreSettings = StoreSettings()
    urls: StoreUrls = StoreUrls()
    hyper: Mapping[str, object] = field(default_factory=dict)
    train_config: Mapping[str, object] = field(default_factory=dict)
    strategy_options: Mapping[str, object] = field(default_factory=dict)
    site_config: Mapping[str, object] = field(default_factory=dict)
    environ: Mapping[str, str] = field(repr=False, default_factory=dict)

    @property
    def is_lead(self) -> bool:
        """Whether this actor also aggregates."""
        return self.site == self.lead

    @property
    def mirror_dir(self) -> Path:
        """`stitch_store/<run_id>`: the mirror."""
        return self.root / "stitch_store" / self.run_id

    @property
    def runs_dir(self) -> Path:
        """`runs/<run_id>`: logs for people, never synced, never read on resume."""
        return self.root / "runs" / self.run_id
