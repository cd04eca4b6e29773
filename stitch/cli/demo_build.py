"""Builds a demo's folder: one project a site as `init` renders it, its made-up data, and the store."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stitch.cli.demo_plan import OWN_STORE, RUN_ID, Plan
from stitch.cli.demo_policy import DemoPolicy, set_policy
from stitch.cli.demo_privacy import make_private
from stitch.cli.scaffold import Pace, render_project
from stitch.config.environment import STORE
from stitch.errors import ConfigError
from stitch.files import disk, write_file

POLL_SECONDS = 0.5
HEARTBEAT_MINUTES = 0.1
ROOT_SEED = 20260131

_DATA = "data"
_NEVER = frozenset({"__pycache__", "config.json", "clif_config.json", "stitch_store"})
_NOT_AT_THE_TOP = frozenset({"data", "runs"})
_SITES_OWN_OUTPUT = frozenset({"final_no_phi", "intermediate_phi"})
_GENERATOR_S = 300


def build(plan: Plan, *, say: Callable[[str], None]) -> None:
    """Build what is missing; a folder that an earlier call left half-built is completed.

    Raises:
        ConfigError: the project cannot be copied or makes no data.
        DiskError: the folder cannot be written.
    """
    say(f"building {len(plan.sites)} projects in {plan.folder}")
    with disk(plan.folder):
        plan.folder.mkdir(parents=True, exist_ok=True)
        if not plan.store:
            (plan.folder / OWN_STORE).mkdir(exist_ok=True)
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        list(pool.map(lambda site: _build_site(plan, site), plan.sites))
    plan.remember()


def _build_site(plan: Plan, site: str) -> None:
    home = plan.home(site)
    if (home / ".env").is_file():
        return  # written last: this site is whole
    shutil.rmtree(home, ignore_errors=True)
    if plan.project is None:
        render_project(
            home,
            lead=plan.lead,
            sites=plan.sites,
            run_id=RUN_ID,
            site=site,
            pace=Pace(plan.passes, POLL_SECONDS, HEARTBEAT_MINUTES, ROOT_SEED),
        )
        _score_the_final_global_alone(home / "stitch.toml")
        if plan.privacy:
            make_private(home / "stitch.toml")
    else:
        with disk(home):
            _copy_project(plan, plan.project, home)
            _write_site_file(home, site)
    if plan.policy is not DemoPolicy.ALL_EXPECTED:
        set_policy(home / "stitch.toml", plan.policy, sites=len(plan.sites))
    _make_data(plan, site)
    _write_env(plan, site)


def _score_the_final_global_alone(toml: Path) -> None:
    """The template's training reports how good its base was: a second hook a pass would tell the same."""
    with disk(toml), toml.open("a", encoding="utf-8", newline="\n") as text:
        text.write('\n[evaluation]\nwhen = "final"  # `base_auroc` says it of the others\n')


def renew_tokens(plan: Plan) -> None:
    """Give every site the store's URL of this call: its token may be newer than the folder."""
    for site in plan.sites:
        _write_env(plan, site)


def _write_env(plan: Plan, site: str) -> None:
    store = plan.store or f"../{OWN_STORE}"
    with disk(plan.home(site)):
        write_file(plan.home(site) / ".env", f'{STORE}="{store}"\n'.encode(), durable=False)


def _copy_project(plan: Plan, project: Path, home: Path) -> None:
    """The project as a site would clone it: no data, no site's settings, no earlier run."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        here = Path(folder).absolute()
        if here.name in _SITES_OWN_OUTPUT:
            return set(names)
        private = {name for name in names if name.startswith(".") or name in _NEVER}
        private |= set(names) & _NOT_AT_THE_TOP if here == project else set()
        return private | {name for name in names if here / name == plan.folder}

    shutil.copytree(project, home, ignore=left_out)
    toml = home / "stitch.toml"
    text = toml.read_text(encoding="utf-8-sig")
    for key, value in _overrides(plan).items():
        text = with_key(text, key, value=value)
    toml.write_text(text, encoding="utf-8", newline="\n")


def _overrides(plan: Plan) -> dict[str, str]:
    return {
        "sites": "[" + ", ".join(f'"{site}"' for site in plan.sites) + "]",
        "num_passes": str(plan.passes),
        "poll_seconds": f"{POLL_SECONDS:g}",
        "heartbeat_minutes": f"{HEARTBEAT_MINUTES:g}",
        "root_seed": str(ROOT_SEED),
    }


def with_key(text: str, key: str, *, value: str) -> str:
    """The TOML text with a top-level key set: where it stands, else at the very top."""
    table = re.search(r"^[ \t]*\[[A-Za-z\[\"']", text, re.MULTILINE)
    head, tables = (text[: table.start()], text[table.start() :]) if table else (text, "")
    setting = re.compile(rf"^{key}[ \t]*=[ \t]*(?:\[[^\]]*\]|[^\n#]*)", re.MULTILINE)
    if setting.search(head) is None:
        return f"{key} = {value}\n{text}"
    return setting.sub(lambda _: f"{key} = {value} ", head, count=1) + tables


def _write_site_file(home: Path, site: str) -> None:
    config = home / "config"
    template = config / "config_template.json"
    known = json.loads(template.read_text(encoding="utf-8-sig")) if template.is_file() else {}
    mine = {"site_name": site, "data_directory": _DATA, "output_directory": "output"}
    config.mkdir(exist_ok=True)
    text = json.dumps({"filetype": "csv", "timezone": "UTC"} | known | mine, indent=2) + "\n"
    (config / "config.json").write_text(text, encoding="utf-8")


def _make_data(plan: Plan, site: str) -> None:
    """Run the project's own generator for this site."""
    script = [sys.executable, str(Path("demo") / "make_synthetic.py")]
    who = ["--site", site, "--index", str(plan.sites.index(site)), "--of", str(len(plan.sites))]
    command = [*script, *who, "--out", _DATA]
    try:
        subprocess.run(
            command,
            cwd=plan.home(site),
            check=True,
            capture_output=True,
            timeout=_GENERATOR_S,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
        raise ConfigError(
            f"demo/make_synthetic.py failed for {site}: {last[0][:200]}",
            hint="Run it by hand: python demo/make_synthetic.py " + " ".join(who) + f" --out {_DATA}",
        ) from None
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"demo/make_synthetic.py took longer than {_GENERATOR_S} s for {site}", hint="Make less data."
        ) from None
