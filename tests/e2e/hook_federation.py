"""A federation of hooks alone: child processes and folders, no store, no loops.

It shows that a project's hooks fit together and that what they compute is right. That the protocol
carries them is the business of the other e2e tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stitch.config.load import load_settings
from stitch.hooks import HookCall, HookName, HookResult, HookRunner

SITES = ("rush", "nu", "uchicago")


@dataclass
class HookFederation:
    """One project whose hooks are run for every site, on data that its own `demo/` makes.

    Attributes:
        project: a rendered project; its settings are read as an actor would read them.
        scratch: where data, models and state go.
        hyper: replaces values of `[config]`.
    """

    project: Path
    scratch: Path
    sites: Sequence[str] = SITES
    hyper: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.settings = load_settings(self.project, {}, site=self.sites[0])
        self.runner = HookRunner(environ=dict(os.environ))
        self.config = {**self.settings.hyper, **self.hyper, "site": {"site_name": "here"}}
        self._runs = 0

    def make_data(self) -> None:
        """Run the project's demo/make_synthetic.py once for each site."""
        for index, site in enumerate(self.sites):
            make_site_data(self.project, site, index=index, of=len(self.sites), out=self.data(site))

    def data(self, site: str) -> Path:
        """The folder of a site's data."""
        return self.scratch / "data" / site

    def model(self, pass_id: int, site: str = "") -> Path:
        """A site's model of a pass, or the global one."""
        name = f"model.{self.settings.hooks.model_ext}"
        folder = self.scratch / "inputs" / f"{pass_id:03d}" / site if site else self.scratch / "global"
        return folder / f"pass_{pass_id:03d}" / name

    def train(self, pass_id: int, site: str, *, out: Path | None = None) -> HookResult:
        """Train one site's pass from the global before it, and seal it as the mirror would."""
        base = self.model(pass_id - 1) if pass_id else None
        target = out or self.model(pass_id, site if pass_id else "")
        state = self.scratch / "state" / site
        state.mkdir(parents=True, exist_ok=True)
        result = self._run(
            "train",
            {
                "global_path": str(base) if base else None,
                "out_path": str(target),
                "data_dir": str(self.data(site)),
            },
            {"pass_id": pass_id, "config": self.config, "state_dir": str(state), "round_seed": pass_id},
            out_path=target,
        )
        seal(target.parent, result)
        return result

    def aggregate(self, pass_id: int, *, out: Path | None = None) -> HookResult:
        """Combine the passes of all sites into the next global."""
        target, base = out or self.model(pass_id), self.model(pass_id - 1)
        bases = self.scratch / "bases" / f"{pass_id:03d}"
        laid = bases / f"pass_{pass_id - 1:03d}" / base.name
        laid.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(base, laid)
        return self._run(
            "aggregate",
            {"site_dir": str(self.scratch / "inputs" / f"{pass_id:03d}"), "out_path": str(target)},
            {
                "pass_id": pass_id,
                "config": self.config,
                "global_path": str(base),
                "bases_dir": str(bases),
            },
            out_path=target,
        )

    def evaluate(self, pass_id: int, site: str) -> HookResult:
        """Score a global on a site's held-out rows."""
        required = {"global_path": str(self.model(pass_id)), "data_dir": str(self.data(site))}
        return self._run("evaluate", required, {"config": self.config}, out_path=None)

    def run(self, passes: int) -> list[dict[str, HookResult]]:
        """Pass 0 at the lead, then `passes` rounds; a row of site results each. Stops when asked to."""
        self.make_data()
        self.train(0, self.sites[0])
        rows = []
        for pass_id in range(1, passes + 1):
            rows.append({site: self.train(pass_id, site) for site in self.sites})
            if self.aggregate(pass_id).should_stop:
                break
        return rows

    def _run(
        self,
        hook: HookName,
        required: Mapping[str, object],
        optional: Mapping[str, object],
        *,
        out_path: Path | None,
    ) -> HookResult:
        self._runs += 1
        if out_path is not None:
            out_path.parent.mkdir(parents=True, exist_ok=True)
        spec = getattr(self.settings.hooks, hook)
        assert spec is not None
        work = self.scratch / "work" / f"{self._runs:03d}"
        work.mkdir(parents=True)
        call = HookCall(
            hook=hook,
            spec=spec,
            root=self.project,
            required=required,
            optional=optional,
            out_path=out_path,
            work_dir=work,
            log_path=work / "hook.log",
            timeout_s=120,
        )
        return self.runner.run(call)


def make_site_data(project: Path, site: str, *, index: int, of: int, out: Path) -> str:
    """Run a project's generator as `clif-stitch demo` does; returns what it printed."""
    script = project / "demo" / "make_synthetic.py"
    command = [sys.executable, str(script), "--site", site, "--index", str(index), "--of", str(of)]
    done = subprocess.run(
        [*command, "--out", str(out)], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout


def seal(folder: Path, result: HookResult) -> None:
    """The part of metrics.json that an aggregate hook may read, and the round's word on a fresh pass."""
    text = json.dumps({"n_samples": result.n_samples, "metrics": result.metrics}, indent=2)
    (folder / "metrics.json").write_text(text, encoding="utf-8")
    number = folder.name.removeprefix("pass_")
    if not number.isdigit():
        return  # trained anew beside the federation
    said = {"site": folder.parent.name, "base_pass": int(number) - 1, "staleness": 0, "weight": 1.0}
    (folder / "round.json").write_text(json.dumps(said), encoding="utf-8")


def rscript() -> str:
    """The path of Rscript; a missing one fails the test, as the stage of .ci/run installs it."""
    found = shutil.which("Rscript")
    assert found, "Rscript is not on the PATH: install r-base-core"
    return found
