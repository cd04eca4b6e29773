"""`clif-stitch demo`: a newcomer sees a federation; whatever dies, the same command continues."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from stitch.cli.demo_build import HEARTBEAT_MINUTES, POLL_SECONDS, ROOT_SEED
from stitch.cli.scaffold import Pace, render_project
from stitch.testing.azurite import Azurite
from tests.e2e.federation import REPO, until

PASSES = "3"
SITES = ("rush", "nu", "uchicago")
_WITHIN_S = 240.0


@dataclass
class Demo:
    """The demo in one folder, called as a user calls it.

    Attributes:
        here: the current folder of every call; the demo lies in the folder below it.
        options: what every call is given.
    """

    here: Path
    options: tuple[str, ...] = ("--passes", PASSES)

    @property
    def folder(self) -> Path:
        return self.here / "clif-stitch-demo"

    def start(self, *more: str) -> psutil.Popen:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("STITCH_")}
        environ |= {"COLUMNS": "80", "PYTHONPATH": str(REPO), "STITCH_STORE": "memory:"}
        return psutil.Popen(
            [sys.executable, "-m", "stitch.cli", "demo", *self.options, *more],
            cwd=self.here,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def call(self, *more: str) -> tuple[int, str]:
        """Run it to its end: exit code, and what it printed."""
        process = self.start(*more)
        text, _ = process.communicate(timeout=_WITHIN_S)
        return process.returncode, text

    def await_key(self, key: str) -> None:
        path = self.folder / "store" / "demo" / key
        until(path.is_file, key, within_s=_WITHIN_S)

    def processes(self) -> list[psutil.Process]:
        """Everything that runs in a project of this demo: sites, guards and hooks."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def process_of(self, demo: psutil.Popen, site: str) -> psutil.Process:
        """The process of one site."""
        return next(child for child in demo.children() if Path(child.cwd()).name == site)

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return Path(process.cwd()).is_relative_to(self.folder)
        except (psutil.Error, OSError):
            return False


def sha256_in(text: str) -> str:
    found = re.search(r"^SHA-256 ([0-9a-f]{64})$", text, re.MULTILINE)
    assert found is not None, text
    return found[1]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    made = Demo(tmp_path)
    yield made
    for process in made.processes():
        process.kill()


@dataclass(frozen=True)
class Undisturbed:
    """A demo that nothing happened to; only looked at."""

    demo: Demo
    code: int
    text: str


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    made = Demo(tmp_path_factory.mktemp("calm"))
    return Undisturbed(made, *made.call())


def test_it_ends_well_and_says_what_to_look_at(calm: Undisturbed) -> None:
    assert calm.code == 0, calm.text
    assert calm.text.isascii()
    for line in calm.text.partition("Look at:")[2].splitlines():
        named = re.match(r"  (\S+)   ", line)
        if named:
            assert (calm.demo.folder / named[1]).exists(), line
    assert calm.demo.processes() == []


def test_a_table_shows_each_sites_model_the_global_and_the_model_alone(calm: Undisturbed) -> None:
    table = calm.text.partition("AUROC     alone  model")[2]
    for site in SITES:
        own, together = re.search(rf"^{site} .*\n.*global.*$", table, re.MULTILINE)[0].splitlines()  # type: ignore[index]  # else the test fails
        alone, *passes = (float(word) for word in re.findall(r"\d\.\d{3}", own))
        globals_ = [float(word) for word in re.findall(r"\d\.\d{3}", together)]
        assert len(passes) == int(PASSES)
        assert len(globals_) == int(PASSES) + 1
        assert globals_[0] == 0.5
        assert 0.6 < alone < 1
        assert globals_[-1] > 0.6
    assert "The final global scores" in calm.text


def test_each_site_is_a_project_as_init_renders_it_and_nobody_has_anothers_data(calm: Undisturbed) -> None:
    data = set()
    for site in SITES:
        home = calm.demo.folder / site
        for name in ("stitch.toml", "code/train.py", "README.md", "run_stitch.sh", "stitch_store", "runs"):
            assert (home / name).exists(), name
        assert json.loads((home / "config/config.json").read_text(encoding="utf-8"))["site_name"] == site
        data.add((home / "data/cohort.csv").read_bytes())
    assert len(data) == len(SITES)
    assert {(calm.demo.folder / site / "stitch.toml").read_bytes() for site in SITES} == {
        (calm.demo.folder / "rush" / "stitch.toml").read_bytes()
    }


def test_whatever_init_renders_is_there_byte_for_byte(calm: Undisturbed, tmp_path: Path) -> None:
    """What a demo adds is data, the site's `.env`, one table of stitch.toml, and what running leaves."""
    table = b'\n[evaluation]\nwhen = "final"  # `base_auroc` says it of the others\n'
    pace = Pace(int(PASSES), POLL_SECONDS, HEARTBEAT_MINUTES, ROOT_SEED)
    for site in SITES:
        fresh = render_project(
            tmp_path / site, lead=SITES[0], sites=SITES, run_id="demo", site=site, pace=pace
        )
        with (fresh.root / "stitch.toml").open("ab") as toml:
            toml.write(table)
        home = calm.demo.folder / site
        differing = [
            name for name in fresh.files if (home / name).read_bytes() != (fresh.root / name).read_bytes()
        ]
        assert differing == []
        there = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
        added = {name for name in there - set(fresh.files) if "__pycache__" not in name}
        assert {name.partition("/")[0] for name in added} <= {
            ".env",
            "data",
            "output",
            "runs",
            "stitch_store",
        }


def test_again_in_the_same_folder_it_says_that_it_is_finished(calm: Undisturbed) -> None:
    code, text = calm.demo.call()
    assert code == 0
    assert "this demo is finished already" in text
    assert sha256_in(text) == sha256_in(calm.text)


@pytest.mark.parametrize("other", [("--passes", "4"), ("--sites", "2"), ("--store", ".")])
def test_another_demo_is_not_mixed_into_it(calm: Undisturbed, other: tuple[str, str]) -> None:
    code, text = calm.demo.call(*other)
    assert code == 2
    assert "was begun with " + other[0].removeprefix("--") in text
    assert "another --dir" in text


def test_a_folder_of_somebody_elses_is_left_alone(demo: Demo) -> None:
    demo.folder.mkdir()
    (demo.folder / "thesis.docx").touch()
    code, text = demo.call()
    assert code == 2
    assert "thesis.docx" in text
    assert [path.name for path in demo.folder.iterdir()] == ["thesis.docx"]


def test_killed_whole_it_leaves_no_process_and_the_same_command_continues(
    demo: Demo, calm: Undisturbed
) -> None:
    running = demo.start()
    demo.await_key("global/pass_001/metrics.json")
    running.kill()
    running.communicate()
    until(lambda: demo.processes() == [], "no survivors")
    code, text = demo.call()
    assert code == 0
    assert "continuing 3 sites" in text
    assert sha256_in(text) == sha256_in(calm.text)


@pytest.mark.parametrize("victim", ["nu", "rush"])
def test_a_killed_site_is_reported_and_the_same_command_continues(
    demo: Demo, calm: Undisturbed, victim: str
) -> None:
    running = demo.start()
    demo.await_key("global/pass_001/metrics.json")
    demo.process_of(running, victim).kill()
    text, _ = running.communicate(timeout=_WITHIN_S)
    assert running.returncode == 1
    assert f"the process of {victim} ended (killed by signal 9)" in text
    assert "the same command continues" in text
    assert demo.processes() == []
    code, text = demo.call()
    assert code == 0
    assert sha256_in(text) == sha256_in(calm.text)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_by_its_user_it_ends_every_site_in_order(
    demo: Demo, number: signal.Signals, code: int
) -> None:
    running = demo.start()
    demo.await_key("global/pass_000/metrics.json")
    running.send_signal(number)
    text, _ = running.communicate(timeout=_WITHIN_S)
    assert running.returncode == code
    assert "stopped; the same command continues" in text
    assert demo.processes() == []
    for site in SITES:
        log = (demo.folder / site / "runs" / "console.log").read_text(encoding="utf-8")
        assert "nothing is lost: the same command continues" in log


def test_killed_while_it_builds_it_builds_the_rest(demo: Demo, calm: Undisturbed) -> None:
    running = demo.start()
    until((demo.folder / "rush").is_dir, "a first project", within_s=_WITHIN_S)
    running.kill()
    running.communicate()
    assert not (demo.folder / "demo.json").exists()
    code, text = demo.call()
    assert code == 0, text
    assert sha256_in(text) == sha256_in(calm.text)


def test_on_azure_blob_it_comes_to_the_same_model(demo: Demo, calm: Undisturbed, azurite: Azurite) -> None:
    url = azurite.container_url(azurite.new_container())
    code, text = demo.call("--store", url)
    assert code == 0, text
    assert sha256_in(text) == sha256_in(calm.text)
    signature = url.partition("sig=")[2].partition("&")[0]
    holders = [
        path for path in demo.folder.rglob("*") if path.is_file() and signature in path.read_text("latin-1")
    ]
    assert {path.name for path in holders} == {".env"}
    assert signature not in text
    shutil.rmtree(demo.folder)
    code, text = demo.call("--store", url)
    assert code == 2
    assert "already holds a run named demo" in text


def test_buffered_rounds_come_to_a_model_and_its_record_is_proven(demo: Demo, azurite: Azurite) -> None:
    """Which model depends on who was quick; that each was made as recorded does not."""
    url = azurite.container_url(azurite.new_container())
    code, text = demo.call("--policy", "buffered", "--store", url)
    assert code == 0, text
    assert "The final global scores" in text
    said = _in_project(demo, "verify", "--rerun")
    assert said.returncode == 0, said
    assert said.stdout.count("rerun") == int(PASSES)
    status = json.loads(_in_project(demo, "status", "--json").stdout)
    closed_by = [item["global"]["policy"] for item in status["passes"] if item["pass_id"] > 0]
    assert closed_by == ["buffered"] * int(PASSES)


def test_a_projects_own_hooks_are_federated_on_its_own_data(demo: Demo, calm: Undisturbed) -> None:
    """The template's own project, changed and used: nothing of its site or its data goes along."""
    project = demo.here / "project"
    shutil.copytree(calm.demo.folder / "nu", project)
    toml = project / "stitch.toml"
    text = toml.read_text(encoding="utf-8").replace("local_steps = 10", "local_steps = 11")
    toml.write_text(text.replace('run_id = "demo"', 'run_id = "mine"'), encoding="utf-8")
    (project / "data" / "secret.csv").touch()
    (project / "output" / "intermediate_phi" / "cohort.csv").touch()
    demo.options = ("--project", "project", "--passes", "1", "--sites", "2")
    code, text = demo.call()
    assert code == 0, text
    assert sha256_in(text) != sha256_in(calm.text)
    assert {path.name for path in demo.folder.iterdir()} == {"rush", "nu", "store", "demo.json"}
    assert (demo.folder / "store" / "mine" / "global" / "DONE.json").is_file()
    assert list(demo.folder.rglob("secret.csv")) == []
    assert list(demo.folder.rglob("intermediate_phi/cohort.csv")) == []


def test_a_project_without_demo_data_is_refused_before_anything_is_made(
    demo: Demo, calm: Undisturbed
) -> None:
    project = demo.here / "project"
    shutil.copytree(calm.demo.folder / "nu" / "code", project / "code")
    shutil.copyfile(calm.demo.folder / "nu" / "stitch.toml", project / "stitch.toml")
    code, text = demo.call("--project", "project")
    assert code == 2
    assert "demo/make_synthetic.py" in text
    assert not demo.folder.exists()


def _in_project(demo: Demo, *words: str) -> subprocess.CompletedProcess[str]:
    """What the demo's reader types in a site's folder."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("STITCH_")}
    return subprocess.run(
        [sys.executable, "-m", "stitch.cli", *words],
        cwd=demo.folder / "nu",
        env=environ | {"COLUMNS": "80", "PYTHONPATH": str(REPO)},
        capture_output=True,
        encoding="utf-8",
        timeout=_WITHIN_S,
        check=False,
    )


def test_the_finished_demo_is_proven_until_a_byte_is_flipped(calm: Undisturbed) -> None:
    said = _in_project(calm.demo, "verify", "--rerun")
    assert said.returncode == 0, said
    assert "run demo holds; DONE: completed" in said.stdout
    assert said.stdout.count("rerun") == int(PASSES)
    (model,) = (calm.demo.folder / "store/demo/sites/rush/pass_002").glob("model.*")
    whole = model.read_bytes()
    model.write_bytes(whole[:99] + bytes([whole[99] ^ 1]) + whole[100:])
    try:
        said = _in_project(calm.demo, "verify", "--rerun")
    finally:
        model.write_bytes(whole)
    assert said.returncode == 33
    assert f"sites/rush/pass_002/{model.name}" in said.stderr
