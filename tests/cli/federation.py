"""A small federation as people set it up: one project folder a site, a store, and the command line.

Hooks are a few lines of standard library, so that a test spends its time in the product. What a test
corrects, it corrects as a person would: it writes a file again and runs the same command.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli import inside

RUN = "icu"
TOML = """run_id = "icu"
lead = "rush"
sites = ["rush", "nu"]
num_passes = 1
poll_seconds = 0.2
heartbeat_minutes = 0.05
root_seed = 7
[transfer]
max_retries = 0
retry_backoff_seconds = 0.1
[hooks]
train = "code/hooks.py:train"
aggregate = "code/hooks.py:aggregate"
model_ext = "json"
"""
HOOKS = '''"""Counts how often a model was trained."""
import json
import pathlib


def train(global_path, out_path, data_dir):
    base = json.loads(pathlib.Path(global_path).read_text()) if global_path else 0
    pathlib.Path(out_path).write_text(json.dumps(base + 1))
    return {"n_samples": 50, "loss": 0.5}


def aggregate(site_dir, out_path):
    models = [json.loads(path.read_text()) for path in sorted(pathlib.Path(site_dir).glob("*/*/model.json"))]
    pathlib.Path(out_path).write_text(json.dumps(sum(models) / len(models)))
    return {}
'''
_WITHIN_S = 60.0
_LIFE = ("heartbeat.json", "term-", "orchestration.json", "local/locks", "local/nonces")


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def cause(self) -> str:
        """The line after "error:"; checked to be the only one, short and in ASCII."""
        return self._line("error: ")

    @property
    def todo(self) -> str:
        """The line after "do:"."""
        return self._line("do:    ")

    def _line(self, begin: str) -> str:
        found = [line for line in self.err.splitlines() if line.startswith(begin)]
        assert len(found) == 1, self
        assert "Traceback" not in self.out + self.err, self
        assert "sig=" not in (self.out + self.err).replace("sig=***", ""), self
        assert found[0].isascii(), self
        return found[0].removeprefix(begin)


@dataclass
class Site:
    """One site's project folder.

    Attributes:
        root: the folder.
        wrap: words before every command, to run it as somebody else or somewhere else.
        environ: added to the environment of every command.
    """

    root: Path
    wrap: Sequence[str] = ()
    environ: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, text: str) -> None:
        """Write a file of the project, as an editor would."""
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def toml(self, old: str, new: str) -> None:
        """Replace a piece of stitch.toml."""
        text = (self.root / "stitch.toml").read_text(encoding="utf-8")
        assert old in text
        self.write("stitch.toml", text.replace(old, new))

    def hooks(self, old: str, new: str) -> None:
        """Write the honest hooks with one piece replaced."""
        assert old in HOOKS
        self.write("code/hooks.py", HOOKS.replace(old, new))

    def write_honest_hooks(self) -> None:
        """Correct the hooks."""
        self.write("code/hooks.py", HOOKS)

    def command(self, *words: str) -> list[str]:
        """The command line of a verb."""
        return [*self.wrap, sys.executable, "-m", "stitch.cli", *words]

    def call(self, *words: str, within: float = _WITHIN_S) -> Said:
        """Run a verb to its end: in this process, or, wrapped, in one of its own."""
        if not self.wrap:
            return Said(*inside.call(words, folder=self.root, environ=self._environ()))
        return self.process(*words, within=within)

    def process(self, *words: str, within: float = _WITHIN_S) -> Said:
        """Run a verb to its end in a process of its own."""
        done = subprocess.run(
            self.command(*words),
            cwd=self.root,
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=within,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def running(self, *words: str) -> Iterator[Running]:
        """A verb that works beside the test; ended with it."""
        begun = len(list(self.root.parent.glob(f"{self.root.name}-*.out")))
        out, err = (self.root.parent / f"{self.root.name}-{begun}.{name}" for name in ("out", "err"))
        with out.open("wb") as to, err.open("wb") as errors:
            process = subprocess.Popen(
                self.command(*(words or ("run",))),
                cwd=self.root,
                env=self._environ(),
                stdin=subprocess.DEVNULL,
                stdout=to,
                stderr=errors,
            )
        try:
            yield Running(process, out, err)
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def mirror(self) -> Path:
        """This site's mirror of the run."""
        return self.root / "stitch_store" / RUN

    def _environ(self) -> dict[str, str]:
        foreign = ("STITCH_", "AZURE_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return {
            **kept,
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            "COLUMNS": "80",
            **self.environ,
        }


@dataclass
class Running:
    """A verb under way."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path

    def said(self, within: float = _WITHIN_S) -> Said:
        """Wait for its end."""
        self.process.wait(within)
        return Said(self.process.returncode, *(path.read_text("utf-8") for path in (self.out, self.err)))

    def await_line(self, text: str) -> str:
        """Wait until it prints a line that holds `text`; give that line."""

        def look() -> str:
            return next((line for line in self.out.read_text("utf-8").splitlines() if text in line), "")

        await_that(lambda: bool(look()), text, or_end=self)
        return look()


@dataclass
class Federation:
    """A lead, a site and their store."""

    lead: Site
    nu: Site
    store: Path

    @property
    def run(self) -> Path:
        """The run in the folder store."""
        return self.store / RUN

    def finish(self) -> tuple[Said, Said]:
        """Both run until the end marker."""
        with self.nu.running() as site:
            lead = self.lead.call("run")
            return lead, site.said()

    def begin(self) -> None:
        """The lead publishes global 0 and its own pass 1; the site has done nothing yet."""
        said = self.lead.call("step")
        assert (said.code, said.err) == (0, ""), said

    def finish_well(self) -> None:
        """Both run to the end marker, and the final model is the mean of what both trained."""
        lead, site = self.finish()
        assert (lead.code, site.code) == (0, 0), (lead, site)
        (final,) = (self.run / "global/pass_001").glob("model.*.json")
        assert final.read_text(encoding="utf-8") == "2.0"

    def await_key(self, key: str) -> Path:
        """Wait until a key is in the folder store."""
        await_that((self.run / key).is_file, key)
        return self.run / key


def build(folder: Path, *, store: str = "../store") -> Federation:
    """Two projects and a folder store."""
    (folder / "store").mkdir()
    sites = []
    for name in ("rush", "nu"):
        site = Site(folder / name)
        site.write("stitch.toml", TOML)
        site.write("code/hooks.py", HOOKS)
        site.write("config/config.json", json.dumps({"site_name": name, "data_directory": "data"}))
        site.write(".env", f'STITCH_STORE="{store}"\n')
        (site.root / "data").mkdir()
        sites.append(site)
    return Federation(sites[0], sites[1], folder / "store")


def snapshot(folder: Path, *, but: Sequence[str] = _LIFE) -> dict[str, str]:
    """Every file below a folder with its hash, except those that show that a process lives."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part in path.as_posix() for part in but)
    }


@contextlib.contextmanager
def unchanged(*folders: Path, but: Sequence[str] = ()) -> Iterator[None]:
    """Checks that nothing is added, lost or altered below the folders, beyond signs of life."""
    before = [snapshot(folder, but=(*_LIFE, *but)) for folder in folders]
    yield
    assert [snapshot(folder, but=(*_LIFE, *but)) for folder in folders] == before


def await_that(holds: Callable[[], bool], what: str, *, or_end: Running | None = None) -> None:
    """Poll until something holds."""
    until = time.monotonic() + _WITHIN_S
    while not holds():
        ended = or_end is not None and or_end.process.poll() is not None
        if ended and not holds():
            assert or_end is not None
            raise AssertionError(f"ended without {what!r}: {or_end.said()}")
        assert time.monotonic() < until, f"waited in vain for {what!r}"
        threading.Event().wait(0.02)
