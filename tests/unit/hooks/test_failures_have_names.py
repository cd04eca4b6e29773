"""Every way a hook can fail has a kind, a place in the user's own code, and a hint."""

from __future__ import annotations

import dataclasses
import signal
import sys
from pathlib import Path

import pytest

from stitch.errors import ConfigError, DiskError, HookFailed, HookOutput, HookTimeout
from stitch.hooks import HookRunner, end_survivor
from stitch.hooks.failures import exit_name
from tests.unit.hooks.conftest import Project, lives, until

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")


def failed(project: Project) -> HookFailed:
    with pytest.raises(HookFailed) as caught:
        project.run()
    error = caught.value
    assert error.hook == "train"
    assert error.hint
    assert "\n" not in str(error) + error.hint
    return error


def test_an_exception_is_named_with_the_deepest_place_in_the_users_code(project: Project) -> None:
    project.write("code/cohort.py", "import json\ndef load():\n    return json.loads('{')\n")
    project.train("import cohort\ncohort.load()")
    error = failed(project)
    assert (error.kind, error.where) == ("JSONDecodeError", "code/cohort.py:3")
    assert str(error) == "the train hook code/train.py:train raised JSONDecodeError at code/cohort.py:3"
    assert "Expecting property name" in error.detail
    assert "Expecting property name" in project.log
    assert "_bootstrap" not in error.detail
    assert "child.py" not in error.detail


def test_the_message_of_an_exception_is_in_the_detail_alone(project: Project) -> None:
    project.train("raise ValueError('patient 4711')")
    error = failed(project)
    assert "4711" not in f"{error} {error.hint} {error.kind} {error.where}"
    assert "patient 4711" in error.detail


def test_an_exception_in_an_installed_package_is_placed_at_the_users_call(project: Project) -> None:
    project.write(".venv/lib/site-packages/vendored.py", "def fit():\n    raise KeyError('x')\n")
    project.train("sys.path.append('.venv/lib/site-packages')\nimport vendored\nvendored.fit()")
    error = failed(project)
    assert (error.kind, error.where) == ("KeyError", "code/train.py:6")


def test_a_syntax_error_and_an_import_error_are_placed(project: Project) -> None:
    project.write("code/train.py", "x = 1\ndef train(:\n")
    assert (failed(project).kind, failed(project).where) == ("SyntaxError", "code/train.py:2")
    project.write("code/train.py", "\nimport not_there_at_all\n")
    assert (failed(project).kind, failed(project).where) == ("ModuleNotFoundError", "code/train.py:2")


def test_an_exception_that_cannot_print_itself_is_still_named(project: Project) -> None:
    project.train(
        """
        class Odd(Exception):
            def __str__(self):
                raise RuntimeError("no")
        raise Odd
        """
    )
    assert failed(project).kind == "Odd"


def test_memory_error_says_what_to_do(project: Project) -> None:
    project.train("raise MemoryError")
    error = failed(project)
    assert error.kind == "MemoryError"
    assert "memory" in error.hint


def test_exit_codes_are_named(project: Project) -> None:
    project.train("sys.exit(3)")
    error = failed(project)
    assert (error.kind, error.where) == ("exit code 3", "code/train.py:4")
    project.train("os._exit(7)")
    assert failed(project).kind == "exit code 7"
    project.train("sys.exit('no cohort')")
    assert failed(project).kind == "exit code 1"
    assert "no cohort" in project.log


@pytest.mark.parametrize("leave", ["sys.exit(0)", "sys.exit()", "os._exit(0)", "raise SystemExit"])
def test_leaving_before_returning_is_no_success(project: Project, leave: str) -> None:
    project.train(leave)
    error = failed(project)
    assert error.kind == "exit code 0"
    assert "before it returned its metrics" in str(error)


@posix
def test_a_segmentation_fault_is_named_and_placed(project: Project) -> None:
    project.train("ctypes.string_at(0)")
    error = failed(project)
    assert (error.kind, error.where) == ("SIGSEGV", "code/train.py:4")
    assert "was killed by SIGSEGV at code/train.py:4" in str(error)
    assert "Fatal Python error: Segmentation fault" in project.log
    assert "Fatal Python error" in error.detail


@posix
@pytest.mark.parametrize("name", ["SIGABRT", "SIGTERM", "SIGFPE", "SIGUSR1"])
def test_any_signal_is_named(project: Project, name: str) -> None:
    project.train(f"os.kill(os.getpid(), signal.{name})\ntime.sleep(30)")
    assert failed(project).kind == name


@posix
def test_a_kill_that_we_did_not_send_is_taken_for_a_lack_of_memory(project: Project) -> None:
    project.train("os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(30)")
    error = failed(project)
    assert error.kind == "SIGKILL"
    assert "probably because memory ran out" in str(error)
    assert "memory" in error.hint


@posix
def test_a_crash_after_returning_is_no_success(project: Project) -> None:
    project.train("import atexit\natexit.register(ctypes.string_at, 0)\nreturn {'n_samples': 1}")
    error = failed(project)
    assert error.kind == "SIGSEGV"
    assert "after it had returned" in str(error)


@posix
def test_a_hook_whose_guard_is_killed_does_not_go_on(project: Project) -> None:
    project.train(
        "open('pid', 'w').write(f'{os.getpid()}\\n')\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(30)"
    )
    error = failed(project)
    assert "lost the process that guards it" in str(error)
    until(lambda: not lives(project.noted("pid")))


def test_a_hook_that_takes_too_long_is_ended(project: Project) -> None:
    project.train("print('slow', flush=True)\ntime.sleep(60)")
    with pytest.raises(HookTimeout, match=r"ran longer than 0\.7 s and was ended") as caught:
        project.run(project.call(timeout_s=0.7))
    assert "timeout_minutes" in caught.value.hint
    assert caught.value.kind == "timeout"


def test_the_model_must_be_there_and_be_a_whole_file(project: Project) -> None:
    def refused(body: str) -> str:
        project.out_path.unlink(missing_ok=True)
        project.train(body + "\nreturn {'n_samples': 1}")
        with pytest.raises(HookOutput) as caught:
            project.run(project.call(max_bytes=10))
        return f"{caught.value} {caught.value.hint}"

    assert "wrote no model.npz" in refused("out_path.unlink()")
    assert "wrote no model.npz but model.npz.npy" in refused("out_path.rename(str(out_path) + '.npy')")
    assert "ends in .npz" in refused("out_path.unlink()")
    assert "wrote an empty model.npz" in refused("out_path.write_bytes(b'')")
    assert "over the limit" in refused("out_path.write_bytes(b'x' * 11)")
    if sys.platform != "win32":
        link = "out_path.unlink(); out_path.symlink_to(os.path.abspath(__file__))"
        assert "symbolic link" in refused(link)
    assert "something else than a file" in refused("out_path.unlink(); out_path.mkdir()")
    project.out_path.rmdir()


def test_a_model_of_an_earlier_run_does_not_count(project: Project) -> None:
    project.out_path.write_bytes(b"stale")
    project.write(
        "code/train.py", "def train(global_path, out_path, data_dir):\n    return {'n_samples': 1}\n"
    )
    with pytest.raises(HookOutput, match=r"left model\.npz as it was before"):
        project.run()


def test_what_cannot_be_started_or_logged_is_named(project: Project, tmp_path: Path) -> None:
    project.train("return {'n_samples': 1}")
    with pytest.raises(ConfigError, match="does not name a Python function"):
        project.run(project.call("code/train.py"))
    (project.root / "file").write_text("a file where a folder should be", encoding="utf-8")
    call = dataclasses.replace(project.call(), log_path=project.root / "file" / "train.log")
    with pytest.raises(DiskError, match="log"):
        project.run(call)


def test_a_project_folder_that_is_gone_is_named(project: Project, tmp_path: Path) -> None:
    call = dataclasses.replace(project.call(("true",)), root=tmp_path / "gone")
    with pytest.raises(HookFailed, match="no process can be started") as caught:
        HookRunner().run(call)
    assert caught.value.kind == "FileNotFoundError"
    assert not end_survivor(call.work_dir)


@posix
def test_exit_codes_of_posix_have_names() -> None:
    assert exit_name(3, windows=False) == "exit code 3"
    assert exit_name(-signal.SIGBUS, windows=False) == "killed by SIGBUS"
    assert exit_name(-64, windows=False) in ("killed by SIGRTMAX", "killed by signal 64")


def test_exit_codes_of_windows_have_names() -> None:
    assert exit_name(0xC0000005, windows=True) == "0xC0000005 (access violation)"
    assert exit_name(0xC0000005 - 2**32, windows=True) == "0xC0000005 (access violation)"
    assert exit_name(0xC00000FD, windows=True) == "0xC00000FD (stack overflow)"
    assert exit_name(1, windows=True) == "exit code 1"
