"""What code of clif-stitch says inside a hook's process is for the console; what strangers say is not."""

from __future__ import annotations

import pytest

from stitch.errors import HookFailed
from tests.unit.hooks.conftest import Project

HOOK = """
from stitch.learning.strategies.settings import within
from stitch.learning.strategies.fedavgm import FedAvgM

def train(global_path, out_path, data_dir):
    {line}
"""


def failing(project: Project, line: str) -> HookFailed:
    project.write("code/train.py", HOOK.format(line=line))
    with pytest.raises(HookFailed) as caught:
        project.run(project.call())
    return caught.value


def test_a_refusal_of_ours_is_said_with_what_to_do(project: Project) -> None:
    error = failing(project, "within('beta', 2.0, low=0.0, high=1.0)")
    assert str(error) == "the train hook code/train.py:train: the strategy's option beta is 2"
    assert error.hint == "It lies between 0 and 1."
    assert (error.kind, error.where) == ("ConfigError", "code/train.py:6")
    assert error.exit_code == 11


@pytest.mark.parametrize(
    "line",
    [
        "raise ValueError('Mr Smith, 67')",
        "within('Mr Smith, 67', 0, low=None, high=1)",  # Python's words, in a frame of ours
    ],
)
def test_other_words_stay_with_the_traceback(project: Project, line: str) -> None:
    error = failing(project, line)
    assert str(error).startswith("the train hook code/train.py:train raised ")
    assert "Smith" not in f"{error} {error.hint}"
