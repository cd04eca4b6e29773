"""Lines for a person: wrapped between words in a terminal, one line of ASCII everywhere else."""

from __future__ import annotations

import io
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stitch.cli.app import main
from stitch.cli.project import quoted, typed_in
from stitch.cli.saying import spoken

pty = pytest.importorskip("pty", reason="a terminal of its own needs POSIX")
LONG = "the store folder /mnt/study/a-very-long-name does not exist " * 3
PROJECT = 'run_id = "icu"\nlead = "rush"\nsites = ["rush"]\nnum_passes = 2\n'
CAUSE = "stitch.toml: 'policy.require' is 'all_expectd' (text), wanted \"all_expected\""


class Screen(io.TextIOWrapper):
    """A terminal of 80 columns that knows the letters of one encoding."""

    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_in_a_terminal_words_stay_whole_and_later_lines_are_indented() -> None:
    first, *others = spoken(LONG, Screen("utf-8"), indent=7).split("\n")
    assert others
    assert max(map(len, (first, *others))) <= 80
    assert [line for line in others if line[:7].strip() or line[7] == " "] == []
    assert " ".join(" ".join((first, *others)).split()) == LONG.strip()


def test_a_path_is_never_broken_so_that_it_can_be_copied() -> None:
    path = "/very/long" * 12
    assert path in spoken(f"look at {path} now", Screen("utf-8"), indent=7).split("\n")[1]


@pytest.mark.parametrize(
    ("encoding", "shown"), [("utf-8", "K\u00f6ln"), ("cp1252", "K\u00f6ln"), ("ascii", "K\\xf6ln")]
)
def test_a_terminal_shows_the_letters_it_has(encoding: str, shown: str) -> None:
    assert spoken("in K\u00f6ln", Screen(encoding)) == f"in {shown}"


def test_elsewhere_it_is_one_line_of_ascii() -> None:
    said = spoken(f"{LONG}\nK\u00f6ln\x1b[2J", io.StringIO())
    assert said == f"{LONG} K\\xf6ln?[2J"


def test_control_sequences_reach_no_terminal() -> None:
    assert spoken("a\x1b[2Jb\u202ec", Screen("utf-8")) == "a?[2Jb?c"


def test_an_error_in_a_terminal_of_60_columns_is_wrapped_between_words(tmp_path: Path) -> None:
    (tmp_path / "stitch.toml").write_text(f'{PROJECT}[policy]\nrequire = "all_expectd"\n', encoding="utf-8")
    code, text = in_a_terminal(tmp_path, "status", columns=60)
    lines = text.replace("\r\n", "\n").strip().split("\n")
    assert code == 2
    assert max(map(len, lines)) <= 60
    assert " ".join(" ".join(lines).split()).startswith(f"error: {CAUSE}")
    assert [line for line in lines if not line.startswith(("error: ", "do:    ", " " * 7))] == []


def test_setup_that_nobody_answers_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project_in(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(SystemExit) as ended:
        main(["setup"])
    assert ended.value.code == 2
    assert "nobody answers here" in capsys.readouterr().err
    assert not (tmp_path / "config").exists()


def test_ctrl_c_at_a_question_ends_like_everywhere_else(tmp_path: Path) -> None:
    project_in(tmp_path)
    code, _ = in_a_terminal(tmp_path, "setup", columns=80, typed=b"\x03", after=b"Which site")
    assert code == 130


def test_the_demo_names_the_environment_that_it_ran_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my clone").mkdir()
    (tmp_path / "my clone" / "pyproject.toml").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "my clone" / ".venv"))
    home = tmp_path / "demo" / "rush"
    assert typed_in(home) == 'uv run --no-sync --project "../../my clone" clif-stitch'
    monkeypatch.setattr(sys, "prefix", "/usr")
    assert typed_in(home) == "clif-stitch"
    assert quoted("a") == "a"


def project_in(folder: Path) -> None:
    (folder / "stitch.toml").write_text(PROJECT, encoding="utf-8")


def in_a_terminal(
    folder: Path, verb: str, *, columns: int, typed: bytes = b"", after: bytes = b""
) -> tuple[int, str]:
    """Exit code and text of one verb in a terminal; `typed` once it has shown `after`."""
    import termios  # noqa: PLC0415  POSIX alone

    reader, writer = pty.openpty()
    termios.tcsetwinsize(writer, (40, columns))
    own = "import os, sys; os.login_tty(0); os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", own, sys.executable, "-m", "stitch.cli", verb],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
        stdin=writer,
        stdout=writer,
        stderr=writer,
    )
    os.close(writer)
    said, until = b"", time.monotonic() + 60.0
    while time.monotonic() < until:
        if not select.select([reader], [], [], 0.5)[0]:
            if typed and after in said:
                os.write(reader, typed)  # again and again, as a person would: between two reads a key is lost
            continue
        if not (piece := read(reader)):
            break
        said += piece
    if time.monotonic() >= until:
        process.kill()
    os.close(reader)
    return process.wait(60), said.decode("utf-8")


def read(reader: int) -> bytes:
    """What the terminal was sent next; nothing when the command has ended."""
    try:
        return os.read(reader, 4096)
    except OSError:  # Linux says so when the last writer is gone
        return b""
