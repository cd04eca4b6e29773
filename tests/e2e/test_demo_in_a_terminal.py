"""`clif-stitch demo` in a terminal: one live picture of who does what and of the scores so far."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.cli.terminal import terminal


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal is POSIX's")
def test_the_picture_shows_each_site_at_work_and_the_scores_as_they_come(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "stitch.cli", "demo", "--passes", "2", "--sites", "2")
    with terminal(tmp_path, *command) as shown:
        assert shown.end() == 0, shown.screen
    assert shown.text.isascii()
    before, *pictures = re.split(r"^[a-z ]+: pass [012] of 2\n", shown.screen, flags=re.MULTILINE)
    assert "starting 2 sites" in before
    assert len(pictures) >= 3
    live = pictures[:-1]  # the final scores follow upon the last one
    for wanted in (
        r"^site +process +state +pass +n$",
        r"^rush \(lead\) +running +(waiting|training|done) +[0-2] ",
        r"^nu +running +(waiting|training|done) +[0-2] ",
        r"^no score yet$",
        r"^rush +0\.\d{3}  site +- +0\.\d{3}",
        r"^ +global  0\.500",
    ):
        assert any(re.search(wanted, picture, re.MULTILINE) for picture in live), (wanted, live)
    assert "The final global scores" in pictures[-1]
    assert max(len(line) for picture in live for line in picture.splitlines()) <= 80
    assert " pass 1 done, n_samples" not in shown.screen  # the lines that a file or a pipe gets
