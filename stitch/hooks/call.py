"""What a hook run is asked for and what it gives back, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from stitch.errors import Stopped

HookName = Literal[
    "train",
    "aggregate",
    "evaluate",
    "evaluate_central",
    "diagnose",
    "leaves",
    "pre_release",
    "release",
    "expand",
    "pre_aggregate",
    "admit",
]

HookSpec = str | tuple[str, ...]
"""`"path/file.py:function"`, `"package.module:function"`, or a command: `("Rscript", "code/train.R")`."""


@dataclass(frozen=True, slots=True)
class HookCall:
    """One run of one hook.

    Attributes:
        hook: which hook this is.
        spec: what to run; paths are relative to `root`.
        root: the project folder, the child's working directory.
        required: arguments that are always passed, by keyword (seed's names), e.g. `global_path`,
            `out_path`, `data_dir`; JSON values, paths as absolute strings, None allowed.
        optional: arguments passed only if the Python function accepts them (a `**kwargs` accepts
            all). A command gets both kinds as `STITCH_<NAME>` variables.
        out_path: the model file the hook must write, with the configured extension; None for
            `evaluate`, `diagnose` and `admit`, which write no model. Of `leaves`, where the SHA-256 of
            each leaf goes.
        work_dir: this run's own scratch folder (inside the staging folder, exists, empty).
        log_path: where stdout and stderr are teed to.
        timeout_s: seconds until the hook is ended; None for no limit.
        max_bytes: legal size of the model file.
        default_n_samples: used when the hook returns no `n_samples` (aggregate: the inputs' sum).
    """

    hook: HookName
    spec: HookSpec
    root: Path
    required: Mapping[str, object]
    out_path: Path | None
    work_dir: Path
    log_path: Path
    optional: Mapping[str, object] = field(default_factory=dict)
    timeout_s: float | None = None
    max_bytes: int = 512 * 1024 * 1024
    default_n_samples: int | None = None


@dataclass(frozen=True, slots=True)
class HookResult:
    """What a hook gave back, checked.

    Attributes:
        n_samples: an integer >= 0.
        metrics: the rest of the returned map: finite numbers, at most 64 keys and 16 KiB as JSON.
        should_stop: the aggregate hook's wish to end the run early.
        seconds: how long the child ran.
    """

    n_samples: int
    metrics: dict[str, float]
    should_stop: bool
    seconds: float


class HookStopped(Stopped):
    """The hook was ended because its caller asked for it; nothing of it is left running."""
