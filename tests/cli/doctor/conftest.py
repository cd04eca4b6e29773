"""A project as `setup` leaves it, with a folder for a store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

TOML = 'run_id = "icu"\nlead = "rush"\nsites = ["rush", "nu"]\nnum_passes = 2\n[transfer]\nmax_file_mb = 1\n'
HOOKS = "def train(global_path, out_path, data_dir): ...\ndef aggregate(site_dir, out_path): ...\n"

Project = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    root = tmp_path / "project"
    for folder in ("code", "tables", "config"):
        (root / folder).mkdir(parents=True)
    (tmp_path / "store").mkdir()
    for name in ("train", "aggregate"):
        (root / "code" / f"{name}.py").write_text(HOOKS, encoding="utf-8")
    for name in [name for name in os.environ if name.startswith(("STITCH_", "HTTPS_PROXY"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(root)

    def write(more: str = "", *, site: str = "nu", env: str = "STITCH_STORE=../store\n") -> Path:
        (root / "stitch.toml").write_text(TOML + more, encoding="utf-8")
        raw = {"site_name": site, "data_directory": "tables"}
        (root / "config/config.json").write_text(json.dumps(raw), encoding="utf-8")
        (root / ".env").write_text(env, encoding="utf-8")
        return root

    return write
