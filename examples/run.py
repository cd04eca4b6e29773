"""Runs one example: a whole federation, one process a site, on this machine.

    uv run python examples/run.py icu-numpy
    uv run --group examples python examples/run.py clif-demo half-0 --dir out

An example is a template of `clif-stitch init` and what differs from it: its folder's example.toml
says which template, which settings, which `[policy]`, and which variants (without a name, all of them
run); files in its `project/` folder are laid over the template's. The finished project is federated by
`clif-stitch demo --project`, and stays in the folder that --dir names, to be read.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from stitch.cli.demo_policy import with_table
from stitch.cli.scaffold import render_project

HERE = Path(__file__).resolve().parent
SITES = ("rush", "nu", "uchicago")


def with_setting(toml: str, key: str, value: object) -> str:
    """`toml` with the one line that sets `key` saying `value`; a new line in [config] if there is none."""
    line = f"{key} = {json.dumps(value)}"
    text, changed = re.subn(rf"(?m)^{re.escape(key)} = .*$", line, toml)
    if changed > 1:
        raise SystemExit(f"{key} stands in several tables of stitch.toml")
    return text if changed else re.sub(r"(?m)^\[config\].*$", lambda table: f"{table[0]}\n{line}", toml)


def make_project(name: str, variant: dict[str, object], folder: Path) -> Path:
    """The example as a project folder, as a lead would commit it."""
    example = tomllib.loads((HERE / name / "example.toml").read_text(encoding="utf-8"))
    project = render_project(
        folder / "project", lead=SITES[0], sites=SITES, template=example["template"]
    ).root
    if (HERE / name / "project").is_dir():
        shutil.copytree(HERE / name / "project", project, dirs_exist_ok=True)
    toml = (project / "stitch.toml").read_text(encoding="utf-8") + example.get("append", "")
    for key, value in {**example.get("settings", {}), **variant, "run_id": name}.items():
        toml = with_setting(toml, key, value)
    if "policy" in example:
        toml = with_table(
            toml, "policy", {key: json.dumps(value) for key, value in example["policy"].items()}
        )
    (project / "stitch.toml").write_text(toml, encoding="utf-8", newline="\n")
    return project


def main() -> None:
    names = sorted(path.parent.name for path in HERE.glob("*/example.toml"))
    parser = argparse.ArgumentParser(description="Run an example federation.")
    parser.add_argument("example", choices=names)
    parser.add_argument("variant", nargs="?", default="", help="one variant of the example; all, if absent")
    parser.add_argument(
        "--dir", type=Path, default=Path("clif-stitch-examples"), help="where everything is put"
    )
    args = parser.parse_args()
    variants = tomllib.loads((HERE / args.example / "example.toml").read_text(encoding="utf-8"))["variants"]
    if args.variant and args.variant not in variants:
        parser.error(f"{args.example} has the variants {', '.join(variants)}")
    for name in [args.variant] if args.variant else variants:
        folder = args.dir / args.example / name
        print(f"== {args.example}, {name}: {folder}", flush=True)
        project = folder / "project"
        if not project.exists():
            make_project(args.example, variants[name], folder)
        passes = tomllib.loads((project / "stitch.toml").read_text(encoding="utf-8"))["num_passes"]
        command = [sys.executable, "-m", "stitch.cli", "demo", "--project", str(project)]
        done = subprocess.run(
            [*command, "--dir", str(folder / "sites"), "--passes", str(passes)], check=False
        )
        if done.returncode:
            raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()
