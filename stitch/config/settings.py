"""The settings as frozen values: what `stitch.toml`, `config/config.json` and the environment say.

`load.py` reads them; nothing else in the code opens those files. Names are the seed's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HookSpec = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """When the lead closes a round. `require` is "all_expected" (no deadline)."""

    require: str = "all_expected"


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
class Hooks:
    """The user's code: `"path/file.py:function"` or a command, relative to the project folder."""

    train: HookSpec = "code/train.py:train"
    aggregate: HookSpec = "code/aggregate.py:aggregate"
    evaluate: HookSpec | None = None
    model_ext: str = "npz"
    contract: str = "1"
    timeout_minutes: float | None = None


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
    """

    global_: str = field(repr=False, default="")
    site: str = field(repr=False, default="")
    heartbeat: str = field(repr=False, default="")
    lanes: Mapping[str, str] = field(repr=False, default_factory=dict)


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
        hyper: the `[config]` table, handed to hooks as `config` and published by the lead.
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
    policy: Policy = Policy()
    transfer: Transfer = Transfer()
    hooks: Hooks = Hooks()
    egress: Egress = Egress()
    store: StoreSettings = StoreSettings()
    urls: StoreUrls = StoreUrls()
    hyper: Mapping[str, object] = field(default_factory=dict)
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
