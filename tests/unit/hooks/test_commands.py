"""Plain commands are the equals of Python functions."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from stitch.errors import ConfigError, HookFailed, HookOutput
from stitch.hooks import HookRunner, check_spec
from tests.unit.hooks.conftest import Project

# What every command test runs: it notes what it sees, writes a model and the metrics it was given.
SCRIPT = """
import json, os, sys
seen = {name: value for name, value in os.environ.items() if name.startswith("STITCH_")}
json.dump({"cwd": os.getcwd(), "argv": sys.argv[1:], **seen}, open("seen.json", "w", encoding="utf-8"))
open(os.environ["STITCH_OUT_PATH"], "wb").write(b"model")
open(os.environ["STITCH_METRICS_PATH"], "w", encoding="utf-8").write(METRICS)
"""


def command(
    project: Project, metrics: str = '{"n_samples": 5, "loss": 0.5}', *, after: str = ""
) -> tuple[str, ...]:
    project.write("code/train_script.py", f"METRICS = {metrics!r}\n{SCRIPT}\n{after}\n")
    return (sys.executable, "code/train_script.py", "--fast")


def seen(project: Project) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((project.root / "seen.json").read_text(encoding="utf-8"))
    return values


def test_a_command_is_told_everything_by_variables(project: Project) -> None:
    optional = {
        "pass_id": 3,
        "round_seed": 12345,
        "config": {"eta": 0.1, "name": "Zürich"},
        "state_dir": str(project.root / "state"),
        "fast": True,
    }
    result = project.run(project.call(command(project), optional=optional))
    assert (result.n_samples, result.metrics) == (5, {"loss": 0.5})
    told = seen(project)
    assert Path(told["cwd"]) == project.root.resolve()
    assert told["argv"] == ["--fast"]
    assert told["STITCH_HOOK"] == "train"
    assert told["STITCH_GLOBAL_PATH"] == ""
    assert told["STITCH_OUT_PATH"] == str(project.out_path)
    assert told["STITCH_DATA_DIR"] == str(project.root / "data")
    assert (told["STITCH_PASS_ID"], told["STITCH_ROUND_SEED"], told["STITCH_FAST"]) == ("3", "12345", "true")
    assert json.loads(told["STITCH_CONFIG"]) == optional["config"]
    assert json.loads(Path(told["STITCH_CONFIG_PATH"]).read_text(encoding="utf-8")) == optional["config"]


def test_a_configuration_too_long_for_a_variable_is_in_its_file(project: Project) -> None:
    config = {"features": ["x" * 100] * 2000}
    project.run(project.call(command(project), optional={"config": config}))
    assert seen(project)["STITCH_CONFIG"] == ""
    assert json.loads(Path(seen(project)["STITCH_CONFIG_PATH"]).read_text(encoding="utf-8")) == config


def test_scalars_as_jsonlite_writes_them_count_as_scalars(project: Project) -> None:
    result = project.run(project.call(command(project, '\ufeff{"n_samples": [7], "loss": [0.25]}')))
    assert (result.n_samples, result.metrics) == (7, {"loss": 0.25})


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ("{'n_samples': 1}", "no JSON (line 1)"),
        ("[1, 2]", "a list, not a map"),
        ('{"loss": 0.5}', "returned no n_samples"),
        ('{"n_samples": 5.0}', "n_samples as a float"),
        ('{"n_samples": 5, "auc": "NA"}', "'auc' as text"),
        ('{"n_samples": 5, "auc": NaN}', "'auc' as nan"),
        ('{"n_samples": 5, "auc": [1, 2]}', "'auc' as a list"),
        ('{"n_samples": 5, "auc": null}', "'auc' as nothing"),
        ('{"n_samples": 5, "x": "' + "y" * 70_000 + '"}', "over the limit of 16384"),
        ("[" * 30_000, "no JSON"),
    ],
)
def test_metrics_that_break_a_rule_are_refused_by_name(project: Project, metrics: str, said: str) -> None:
    with pytest.raises(HookOutput) as caught:
        project.run(project.call(command(project, metrics)))
    assert said in str(caught.value)
    assert caught.value.hint


def test_no_metrics_at_all_is_named(project: Project) -> None:
    after = "os.unlink(os.environ['STITCH_METRICS_PATH'])"
    with pytest.raises(HookOutput, match="ended well but wrote no metrics") as caught:
        project.run(project.call(command(project, after=after)))
    assert "STITCH_METRICS_PATH" in caught.value.hint


def test_metrics_of_an_earlier_run_do_not_count(project: Project) -> None:
    project.work_dir.mkdir()
    (project.work_dir / "metrics.json").write_text('{"n_samples": 9}', encoding="utf-8")
    project.write("code/lazy.py", "import os\nopen(os.environ['STITCH_OUT_PATH'], 'wb').write(b'm')\n")
    with pytest.raises(HookOutput, match="wrote no metrics"):
        project.run(project.call((sys.executable, "code/lazy.py")))


def test_an_exit_code_is_named_and_the_last_of_the_log_is_the_detail(project: Project) -> None:
    after = "print('Error in glm.fit: NA in y'); sys.exit(4)"
    with pytest.raises(HookFailed) as caught:
        project.run(project.call(command(project, after=after)))
    assert caught.value.kind == "exit code 4"
    assert "Error in glm.fit" in caught.value.detail
    assert "glm.fit" not in str(caught.value)


def test_a_program_that_is_not_there_is_named(project: Project) -> None:
    with pytest.raises(HookFailed, match="program Rscript-9 was not found") as caught:
        project.run(project.call(("Rscript-9", "code/train.R")))
    assert "PATH" in caught.value.hint
    with pytest.raises(ConfigError, match="program Rscript-9 was not found"):
        check_spec(project.root, ("Rscript-9", "code/train.R"))


def test_a_script_that_is_not_there_is_named(project: Project) -> None:
    with pytest.raises(ConfigError, match=r"script code/train\.R does not exist"):
        check_spec(project.root, (sys.executable, "code/train.R"))
    project.write("code/train.R", "")
    check_spec(project.root, (sys.executable, "code/train.R"))


@pytest.mark.skipif(sys.platform == "win32", reason="a file's mode")
def test_a_program_of_the_project_is_found_and_must_be_runnable(project: Project) -> None:
    script = project.write(
        "bin/train",
        """\
        #!/bin/sh
        printf m > "$STITCH_OUT_PATH"
        echo '{"n_samples": 2}' > "$STITCH_METRICS_PATH"
        """,
    )
    with pytest.raises(HookFailed, match="was not found"):
        project.run(project.call(("bin/train",)))
    script.chmod(0o755)
    assert project.run(project.call(("bin/train",))).n_samples == 2
    script.write_bytes(b"\x7fELF, but not really")
    with pytest.raises(HookFailed, match="cannot be run: Exec format error"):
        project.run(project.call(("bin/train",)))


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_a_command_starts_with_the_usual_signals_and_no_descriptor_of_ours(project: Project) -> None:
    project.write(
        "code/look.sh",
        """
        printf m > "$STITCH_OUT_PATH"
        grep SigIgn /proc/self/status > ignored
        ls /proc/self/fd > descriptors
        echo '{"n_samples": 2}' > "$STITCH_METRICS_PATH"
        """,
    )
    project.run(project.call(("sh", "code/look.sh")))
    assert int((project.root / "ignored").read_text(encoding="utf-8").split()[1], 16) == 0
    descriptors = (project.root / "descriptors").read_text(encoding="utf-8").split()
    assert set(descriptors) <= {"0", "1", "2", "3"}  # 3 is the folder that ls reads


def test_a_program_is_looked_up_on_the_path_of_the_childs_environment(
    project: Project, tmp_path: Path
) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    name = "mytrain.exe" if sys.platform == "win32" else "mytrain"
    (folder / name).symlink_to(shutil.which("true") or "true")
    runner = HookRunner(environ={**os.environ, "PATH": str(folder)})
    with pytest.raises(HookOutput, match="wrote no metrics"):
        runner.run(project.call(("mytrain",)))


@pytest.mark.r
def test_a_hook_in_r_trains(project: Project) -> None:
    project.write(
        "code/train.R",
        """
        out <- Sys.getenv("STITCH_OUT_PATH")
        writeLines("model", out)
        n <- 12L
        cat(sprintf('{"n_samples": %d, "deviance": %.6f}', n, 0.25), file = Sys.getenv("STITCH_METRICS_PATH"))
        """,
    )
    result = project.run(project.call(("Rscript", "code/train.R")))
    assert (result.n_samples, result.metrics) == (12, {"deviance": 0.25})
