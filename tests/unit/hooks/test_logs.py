"""A hook may print what and as much as it likes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from stitch.errors import HookFailed
from stitch.hooks import HookRunner
from stitch.hooks.log import HookLog
from tests.unit.hooks.conftest import Project


def test_output_and_errors_are_in_the_log_in_their_order_behind_earlier_runs(project: Project) -> None:
    project.train(
        """
        print("first")
        print("second", file=sys.stderr)
        os.write(1, b"third\\n")
        subprocess.run([sys.executable, "-c", "print('fourth')"])
        return {"n_samples": 1}
        """
    )
    project.run()
    project.out_path.unlink()
    project.run()
    parts = project.log.split("--- train: code/train.py:train, ")
    assert len(parts) == 3
    assert [part.split(" ---\n")[1] for part in parts[1:]] == ["first\nsecond\nthird\nfourth\n"] * 2


def test_lines_are_handed_over_as_they_come(project: Project) -> None:
    project.train(
        """
        print("pass 1")
        while not os.path.exists("seen"): time.sleep(0.01)
        sys.stdout.write("\\r10%\\r50%\\r100%\\nlast without an end")
        return {"n_samples": 1}
        """
    )
    lines: list[str] = []

    def on_line(line: str) -> None:
        lines.append(line)
        (project.root / "seen").touch()

    HookRunner().run(project.call(), on_line=on_line)
    assert lines == ["pass 1", "100%", "last without an end"]


def test_bytes_that_are_no_utf8_do_no_harm(project: Project) -> None:
    project.train("os.write(2, b'Gr\\xf6\\xdfe \\xff\\xfe\\x00\\n')\nreturn {'n_samples': 1}")
    lines: list[str] = []
    HookRunner().run(project.call(), on_line=lines.append)
    assert lines == ["Gr\ufffd\ufffde \ufffd\ufffd\x00"]
    project.train("os.write(2, b'\\xff\\n')\nos._exit(2)")
    with pytest.raises(HookFailed) as caught:
        project.run()
    assert "\ufffd" in caught.value.detail


def test_a_flood_neither_blocks_the_hook_nor_the_parent(project: Project) -> None:
    project.train(
        """
        block = b"x" * 99 + b"\\n"
        for _ in range(640):
            os.write(1, block * 1024)
        print("the end")
        return {"n_samples": 1}
        """
    )
    lines: list[str] = []
    HookRunner().run(project.call(), on_line=lines.append)
    size = (project.root / "runs" / "train.log").stat().st_size
    assert size > 64_000_000
    assert lines[-1] == "the end"
    if len(lines) < 640_000:  # the parent fell behind, and said so
        assert any(line.endswith("bytes more in the log ...") for line in lines)


def test_a_grandchild_that_keeps_the_log_open_holds_nobody_up(project: Project) -> None:
    project.train(
        """
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        return {"n_samples": 1}
        """
    )
    assert project.run().seconds < 10


def test_a_line_longer_than_what_is_read_at_once_arrives_whole(tmp_path: Path, project: Project) -> None:
    lines: list[str] = []
    log = HookLog(project.call(), on_line=lines.append)
    try:
        log.file.write(b"y" * 300_000 + b"\nz")
        log.follow()
        log.finish("crashed\n")
    finally:
        log.close()
    assert lines == ["y" * 300_000, "zcrashed"]


def test_nobody_listening_is_no_reason_to_read(project: Project) -> None:
    project.train("print('x')\nreturn {'n_samples': 1}")
    HookRunner().run(project.call(), stop=threading.Event())
    assert "x\n" in project.log
