"""A project folder whose hooks a test writes, and the processes that a hook names."""

from __future__ import annotations

import textwrap
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from stitch.hooks import HookCall, HookName, HookResult, HookRunner, HookSpec

DEADLINE_S = 20.0


@dataclass
class Project:
    root: Path

    @property
    def out_path(self) -> Path:
        return self.root / "stage" / "model.npz"

    @property
    def work_dir(self) -> Path:
        return self.root / "stage" / "work"

    @property
    def log(self) -> str:
        return (self.root / "runs" / "train.log").read_text("utf-8", "replace")

    def write(self, name: str, source: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return path

    def train(self, body: str) -> None:
        """Write code/train.py whose `train` has this body; a model is written before it."""
        head = "import ctypes, os, signal, subprocess, sys, threading, time\n"
        signature = "def train(global_path, out_path, data_dir):\n    out_path.write_bytes(b'model')\n"
        self.write("code/train.py", head + signature + textwrap.indent(textwrap.dedent(body), "    "))

    def call(
        self,
        spec: HookSpec = "code/train.py:train",
        *,
        hook: HookName = "train",
        optional: Mapping[str, object] | None = None,
        timeout_s: float | None = DEADLINE_S,
        max_bytes: int = 1024 * 1024,
        default_n_samples: int | None = None,
    ) -> HookCall:
        required = {"global_path": None, "out_path": str(self.out_path), "data_dir": str(self.root / "data")}
        if hook == "aggregate":
            required = {"site_dir": str(self.root / "sites"), "out_path": str(self.out_path)}
        if hook == "leaves":
            required = {"data_dir": str(self.root / "data")}
        return HookCall(
            hook=hook,
            spec=spec,
            root=self.root,
            required=required,
            optional=optional or {},
            out_path=None if hook == "evaluate" else self.out_path,
            work_dir=self.work_dir,
            log_path=self.root / "runs" / "train.log",
            timeout_s=timeout_s,
            max_bytes=max_bytes,
            default_n_samples=default_n_samples,
        )

    def run(self, call: HookCall | None = None, *, stop: threading.Event | None = None) -> HookResult:
        return HookRunner(grace_s=2.0).run(call or self.call(), stop=stop)

    def noted(self, name: str) -> int:
        """Wait for the number that a hook's process wrote to a file of this name."""
        path = self.root / name
        until(lambda: path.exists() and path.read_text(encoding="utf-8").endswith("\n"))
        return int(path.read_text(encoding="utf-8"))


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; fail at the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        threading.Event().wait(0.01)


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "stage").mkdir()
    (tmp_path / "data").mkdir()
    return Project(tmp_path)
