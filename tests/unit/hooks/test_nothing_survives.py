"""Whatever dies, and in whatever order: no process of a hook goes on (law 3)."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from stitch.errors import HookFailed, HookTimeout
from stitch.hooks import RECORD_NAME, HookRunner, HookStopped, end_survivor
from stitch.hooks.environment import RUN_MARK
from stitch.hooks.survivors import record
from tests.unit.hooks.conftest import DEADLINE_S, Project, lives, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the tree of a POSIX hook")

# A child, its child in a session of its own, and a daemon that forked twice and left everybody.
FAMILY = """
def note(name):
    with open(name + ".part", "w") as file:
        file.write(f"{os.getpid()}\\n")
    os.rename(name + ".part", name)
child = "import os, time; open('child', 'w').write(f'{os.getpid()}\\\\n'); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child])
subprocess.Popen([sys.executable, "-c", child.replace("'child'", "'session'")], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note("daemon")
        time.sleep(600)
    os._exit(0)
note("hook")
"""
ALL_THERE = """
for name in ("child", "session", "daemon"):
    while not os.path.exists(name):
        time.sleep(0.01)
"""
NAMES = ("child", "session", "daemon", "hook")


def ids(project: Project) -> list[int]:
    return [project.noted(name) for name in NAMES]


def stopped(project: Project, *, once: tuple[str, ...] = ("hook",)) -> float:
    """Run the hook, stop it once these processes are there; seconds from the stop to the return."""
    stop, at = threading.Event(), [0.0]

    def when_ready() -> None:
        for name in once:
            project.noted(name)
        at[0] = time.monotonic()
        stop.set()

    waiter = threading.Thread(target=when_ready)
    waiter.start()
    with pytest.raises(HookStopped):
        project.run(stop=stop)
    waiter.join()
    return time.monotonic() - at[0]


def test_a_stop_ends_the_hook_and_everything_it_started(project: Project) -> None:
    project.train(FAMILY + "time.sleep(600)")
    stopped(project, once=NAMES)
    assert [pid for pid in ids(project) if lives(pid)] == []
    assert not (project.work_dir / RECORD_NAME).exists()


def test_a_timeout_ends_the_hook_and_everything_it_started(project: Project) -> None:
    project.train(FAMILY + "time.sleep(600)")
    with pytest.raises(HookTimeout):
        project.run(project.call(timeout_s=3.0))
    there = [name for name in NAMES if (project.root / name).exists()]
    assert there
    assert [name for name in there if lives(project.noted(name))] == []


def test_what_a_hook_leaves_behind_ends_with_it(project: Project) -> None:
    project.train(FAMILY + ALL_THERE + "return {'n_samples': 1}")
    assert project.run().n_samples == 1
    assert [pid for pid in ids(project) if lives(pid)] == []


def test_a_crashing_hook_takes_its_children_along(project: Project) -> None:
    project.train(FAMILY + ALL_THERE + "ctypes.string_at(0)")
    with pytest.raises(HookFailed, match="SIGSEGV"):
        project.run()
    assert [pid for pid in ids(project) if lives(pid)] == []


def test_a_stop_before_the_start_runs_nothing(project: Project) -> None:
    project.train("open('ran', 'w').close()")
    stop = threading.Event()
    stop.set()
    with pytest.raises(HookStopped):
        project.run(stop=stop)
    assert not (project.root / "ran").exists()


@pytest.mark.parametrize(
    "busy",
    [
        "import re\nre.match(r'(a+)+$', 'a' * 64 + 'b')",
        "ctypes.PyDLL(None).sleep(600)",
        "signal.signal(signal.SIGTERM, lambda *_: None)\nctypes.PyDLL(None).sleep(600)",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass",
        "os.kill(os.getpid(), signal.SIGSTOP)",
    ],
    ids=["regex", "sleeping in C", "handling SIGTERM with the GIL held", "ignoring SIGTERM", "stopped"],
)
def test_a_hook_that_cannot_listen_is_ended_all_the_same(project: Project, busy: str) -> None:
    project.train("open('part', 'w').write(f'{os.getpid()}\\n')\nos.rename('part', 'hook')\n" + busy)
    assert stopped(project) < 2.0 + DEADLINE_S  # the grace, and room for a loaded machine
    assert not lives(project.noted("hook"))


def test_a_hook_may_put_its_things_in_order_within_the_grace(project: Project) -> None:
    project.train(
        """
        def tidy(*_):
            open("tidied", "w").close()
            sys.exit(0)
        signal.signal(signal.SIGTERM, tidy)
        open("part", "w").write(f"{os.getpid()}\\n")
        os.rename("part", "hook")
        time.sleep(600)
        """
    )
    stopped(project)
    assert (project.root / "tidied").exists()


def test_the_parents_threads_go_on_while_a_hook_holds_its_gil(project: Project) -> None:
    project.train("ctypes.PyDLL(None).sleep(1)\nreturn {'n_samples': 1}")
    beats, over = [], threading.Event()

    def beat() -> None:
        while not over.wait(0.01):
            beats.append(time.monotonic())

    thread = threading.Thread(target=beat)
    thread.start()
    project.run()
    over.set()
    thread.join()
    gaps = [later - earlier for earlier, later in itertools.pairwise(beats)]
    assert len(beats) > 5
    assert max(gaps) < 0.9  # of the second that the hook holds its own


PARENT = """
import sys
from pathlib import Path
from tests.unit.hooks.conftest import Project
print("up", flush=True)
Project(Path(sys.argv[1])).run()
"""


@pytest.fixture
def parent(project: Project) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own that runs the project's hook, its family all there."""
    project.train(FAMILY + "while True:\n    open('beat', 'a').write('x')\n    time.sleep(0.01)")
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), str(project.root)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        start_new_session=True,
    )
    with process:
        ids(project)
        yield process
        process.kill()


def guard_of(hook: int) -> psutil.Process:
    guard = psutil.Process(hook).parent()
    assert guard is not None
    return guard


def test_no_descendant_survives_a_parent_that_is_killed(
    project: Project, parent: subprocess.Popen[bytes]
) -> None:
    everybody = [*ids(project), guard_of(project.noted("hook")).pid]
    assert all(lives(pid) for pid in everybody)
    parent.kill()
    until(lambda: not any(lives(pid) for pid in everybody))
    written = (project.root / "beat").stat().st_size
    threading.Event().wait(0.1)
    assert (project.root / "beat").stat().st_size == written


def test_an_interrupt_from_the_terminal_reaches_the_parent_alone(
    project: Project, parent: subprocess.Popen[bytes]
) -> None:
    hook = project.noted("hook")
    assert len({os.getpgid(parent.pid), os.getpgid(hook), os.getpgid(guard_of(hook).pid)}) == 3
    assert len({os.getsid(parent.pid), os.getsid(hook)}) == 2
    os.killpg(parent.pid, signal.SIGINT)  # what a terminal does
    parent.wait(DEADLINE_S)
    assert not any(lives(pid) for pid in ids(project))


def test_an_orphan_whose_guard_was_killed_too_is_ended_by_the_next_start(
    project: Project, parent: subprocess.Popen[bytes]
) -> None:
    family = ids(project)
    guard = guard_of(family[-1])
    guard.suspend()
    parent.kill()
    guard.kill()
    until(lambda: not lives(family[-1]))  # the hook itself is bound to its guard by the kernel
    assert lives(project.noted("daemon"))
    assert end_survivor(project.work_dir)
    assert [pid for pid in family if lives(pid)] == []
    assert not (project.work_dir / RECORD_NAME).exists()
    assert not end_survivor(project.work_dir)


def test_a_recycled_process_id_is_never_hit(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as stranger:
        record(tmp_path, pid=stranger.pid, mark="gone")
        recorded = json.loads((tmp_path / RECORD_NAME).read_text(encoding="utf-8"))
        recorded["created"] -= 60
        (tmp_path / RECORD_NAME).write_text(json.dumps(recorded), encoding="utf-8")
        assert not end_survivor(tmp_path)
        assert lives(stranger.pid)
        record(tmp_path, pid=stranger.pid, mark="gone")
        assert end_survivor(tmp_path)
        assert not lives(stranger.pid)


def test_half_a_record_ends_nothing(tmp_path: Path) -> None:
    for text in ("", '{"pid": 1', "[]", '{"pid": 1, "created": null, "mark": ""}'):
        (tmp_path / RECORD_NAME).write_text(text, encoding="utf-8")
        assert not end_survivor(tmp_path)
        assert not (tmp_path / RECORD_NAME).exists()
    assert not HookRunner().end_survivor(tmp_path / "never made")


def test_the_record_is_there_before_the_hooks_code_runs(project: Project) -> None:
    project.train(
        f"""
        import json
        recorded = json.load(open({str(project.work_dir / RECORD_NAME)!r}))
        same = recorded["mark"] == os.environ[{RUN_MARK!r}] and recorded["pid"] == os.getppid()
        return {{"n_samples": 1, "same": int(same)}}
        """
    )
    assert project.run().metrics == {"same": 1}
    assert not (project.work_dir / RECORD_NAME).exists()
