"""The settings as frozen values: what `stitch.toml`, `config/config.json` and the environment say.

`load.py` reads them; nothing else in the code opens those files. Names are the seed's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Literal

from stitch.config.compression import Compression
from stitch.config.weighting import CONSTANT, Weighting

HookSpec = str | tuple[str, ...]

_BUFFER = ("buffer_size", "window_seconds", "max_staleness", "weighting")


@dataclass(frozen=True, slots=True)
class Policy:
    """When the lead closes a round.

    Attributes:
        require: "all_expected" (no deadline), "quorum" or "buffered".
        min_participants: of a quorum, how many sites a round needs (K).
        open_timeout: seconds within which so many must have started.
        collect_timeout: seconds from then on within which their passes are waited for.
        retry_budget: how many further attempts of a round one process makes when nothing can be used.
        on_mismatch: what a broken dataset commitment costs: the round, or the site its place in it.
        buffer_size: of "buffered", how many passes close a round.
        window_seconds: after which one pass is enough.
        max_staleness: how many globals may have come since a pass's base.
        weighting: how much less a stale pass counts.
    """

    require: str = "all_expected"
    min_participants: int = 1
    open_timeout: float = 86_400.0
    collect_timeout: float = 86_400.0
    retry_budget: int = 3
    on_mismatch: str = "abort"
    buffer_size: int = 1
    window_seconds: float = 86_400.0
    max_staleness: int = 4
    weighting: Weighting = CONSTANT

    @property
    def buffered(self) -> bool:
        """Whether a round takes passes that were trained from older globals."""
        return self.require == "buffered"

    @property
    def oldest(self) -> int:
        """The largest staleness that a round takes."""
        return self.max_staleness if self.buffered else 0

    def weight(self, staleness: int) -> float | None:
        """What the policy asks to multiply a delta with; None where it asks nothing."""
        return self.weighting.at(staleness) if self.buffered else None

    @property
    def facts(self) -> dict[str, object]:
        """What every actor must agree on: `require`, and what was not left as it is by default.

        Under "buffered" its four keys always, so that a proof needs no version's defaults.
        """
        default, told = Policy(), {"require", *(_BUFFER if self.buffered else ())}
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        facts = {
            name: value for name, value in given.items() if name in told or value != getattr(default, name)
        }
        return facts | ({"weighting": str(self.weighting)} if "weighting" in facts else {})


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
    """The user's code: `"path/file.py:function"`, `"package.module:function"`, or a command.

    Files and commands are relative to the project folder; a module is the project's or installed.
    `leaves` is a Python function alone: it yields what the dataset commitment covers. `client` and
    `strategy` are classes, of which `stitch.learning` makes the hooks (`config/bridge.py`).
    `pre_aggregate` is the lead's own transform of each input, before they are aggregated.
    """

    train: HookSpec = "code/train.py:train"
    aggregate: HookSpec = "code/aggregate.py:aggregate"
    evaluate: HookSpec | None = None
    evaluate_central: HookSpec | None = None
    diagnose: HookSpec | None = None
    pre_aggregate: HookSpec | None = None
    admit: HookSpec | None = None
    leaves: str | None = None
    client: str | None = None
    strategy: str | None = None
    model_ext: str = "npz"
    contract: str = "1"
    timeout_minutes: float | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How globals are scored.

    Attributes:
        when: the evaluate hook runs on every global ("always"), or on the "final" one alone.
        best_metric: by which metric globals are compared; None compares none.
        mode: whether more of it is better ("max"), or less ("min").
        patience: after how many globals without a better one the run ends; None: never.
        by: whose means are compared: those of the sites' scores, or where they score no global before
            the final one those of their training.
    """

    when: Literal["always", "final"] = "always"
    best_metric: str | None = None
    mode: Literal["max", "min"] | None = None
    patience: int | None = None
    by: Literal["evaluation", "train"] = "evaluation"

    @property
    def facts(self) -> dict[str, object]:
        """What every actor must agree on: all that decides when a run ends."""
        if self.best_metric is None:
            return {}
        facts: dict[str, object] = {"best_metric": self.best_metric, "mode": self.mode, "by": self.by}
        return facts if self.patience is None else {**facts, "patience": self.patience}


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
class Privacy:
    """What happens to a model before it may leave, and what it may cost (docs/privacy.md).

    Attributes:
        mode: "local": each site clips and adds noise; "central": sites clip, the lead adds noise once;
            None: neither.
        clip: the most that the L2 norm of a delta may be.
        noise_multiplier: the noise's standard deviation divided by `clip`; None for the least with
            which `num_passes` passes stay within the budget.
        epsilon, delta: what each site's data set may give away in all runs together.
        adjacency: what must not be told apart, see `rounds.accountant.Adjacency`.
        data_free_start: the hook that makes global 0 is given an empty data folder.
        groups: beginnings of the tensors' names that may leave; None for any.
        frozen: beginnings of the names of tensors that no site may change: they leave as the global's.
        pre_release: the site's own transform of its trained model, before all others.
        dataset: this site's own: which data its budget is of.
        journal_dir: this site's own: where it keeps its journals; None for `privacy/` in the project.
    """

    mode: Literal["local", "central"] | None = None
    clip: float = 0.0
    noise_multiplier: float | None = None
    epsilon: float = 0.0
    delta: float = 0.0
    adjacency: Literal["add_remove", "replace"] = "add_remove"
    data_free_start: bool = False
    groups: tuple[str, ...] | None = None
    frozen: tuple[str, ...] = ()
    pre_release: HookSpec | None = None
    dataset: str = "default"
    journal_dir: Path | None = None

    @property
    def facts(self) -> dict[str, object]:
        """What every actor must agree on: whatever was not left as it is by default."""
        default, own = Privacy(), ("pre_release", "dataset", "journal_dir")
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in own and value != getattr(default, name)
        }


@dataclass(frozen=True, slots=True)
class Pin:
    """A file that every site must have with exactly these bytes.

    Attributes:
        path: relative to the project folder, with forward slashes.
        sha256: of its bytes.
        when: at every pass, or "pass_0": until the first pass is trained from global 0.
    """

    path: str
    sha256: str
    when: Literal["always", "pass_0"] = "always"


def pins_in_force(pins: Mapping[str, Pin], pass_id: int) -> dict[str, Pin]:
    """The pins that a pass must keep: a warm start matters for globals 0 and for the pass trained from it."""
    return {name: pin for name, pin in pins.items() if pin.when == "always" or pass_id <= 1}


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
    policy: Policy = Policy()
    transfer: Transfer = Transfer()
    hooks: Hooks = Hooks()
    evaluation: Evaluation = Evaluation()
    egress: Egress = Egress()
    integrity: Integrity = Integrity()
    security: Security = Security()
    privacy: Privacy = Privacy()
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
