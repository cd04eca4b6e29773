"""How a Python hook is found, called, and what of its answer arrives."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stitch.errors import HookFailed, HookOutput
from stitch.hooks import HookRunner
from tests.unit.hooks.conftest import Project

PLAIN = """\
def train(global_path, out_path, data_dir):
    out_path.write_bytes(b"m")
    return {"n_samples": 1}
"""


def test_numbers_of_numpy_arrive_as_plain_numbers(project: Project) -> None:
    project.train(
        """
        import numpy as np
        return {"n_samples": np.int64(120), "loss": np.float32(0.5), "count": np.array(7), "auc": 0.75}
        """
    )
    result = project.run()
    assert (result.n_samples, result.should_stop) == (120, False)
    assert result.metrics == {"loss": 0.5, "count": 7, "auc": 0.75}
    assert result.seconds > 0


def test_optional_arguments_go_only_to_a_function_that_accepts_them(project: Project) -> None:
    project.write(
        "code/train.py",
        """
        def train(global_path, out_path, data_dir, *, pass_id, state_dir="none"):
            out_path.write_bytes(b"m")
            return {"n_samples": 1, "pass_id": pass_id, "has_state": float(state_dir.name == "state")}
        """,
    )
    optional = {
        "pass_id": 7,
        "state_dir": str(project.root / "state"),
        "config": {"eta": 0.1},
        "round_seed": 3,
    }
    assert project.run(project.call(optional=optional)).metrics == {"pass_id": 7, "has_state": 1.0}


def test_keyword_arguments_take_everything_and_paths_arrive_as_paths(project: Project) -> None:
    project.write(
        "code/train.py",
        """
        import json, pathlib
        def train(out_path, **rest):
            out_path.write_bytes(b"m")
            seen = {name: [type(value).__name__, str(value)] for name, value in rest.items()}
            pathlib.Path("seen.json").write_text(json.dumps(seen))
            return {"n_samples": 1}
        """,
    )
    project.run(project.call(optional={"config": {"a": [1]}, "bases_dir": str(project.root), "pass_id": 2}))
    seen = json.loads((project.root / "seen.json").read_text(encoding="utf-8"))
    assert seen["global_path"] == ["NoneType", "None"]
    assert seen["data_dir"] == [type(Path()).__name__, str(project.root / "data")]
    assert seen["bases_dir"][0] == type(Path()).__name__
    assert seen["config"][0] == "dict"
    assert seen["pass_id"] == ["int", "2"]


def test_a_decorated_function_shows_the_signature_beneath(project: Project) -> None:
    project.write(
        "code/train.py",
        """
        import functools
        def logged(function):
            @functools.wraps(function)
            def inner(*args, **kwargs):
                return function(*args, **kwargs)
            return inner
        @logged
        def train(global_path, out_path, data_dir):
            out_path.write_bytes(b"m")
            return {"n_samples": 1}
        """,
    )
    assert project.run(project.call(optional={"pass_id": 2})).n_samples == 1


def test_a_function_that_does_not_accept_an_argument_is_told_which(project: Project) -> None:
    project.write("code/train.py", "def train(out_path, data): ...\n")
    with pytest.raises(HookFailed, match="train does not accept global_path, data_dir") as caught:
        project.run()
    assert "global_path, out_path, data_dir, by keyword" in str(caught.value)
    assert caught.value.hint


def test_a_function_that_wants_what_stitch_does_not_have_is_told_what(project: Project) -> None:
    project.write("code/train.py", "def train(global_path, out_path, data_dir, epochs): ...\n")
    with pytest.raises(HookFailed, match="train wants epochs, which STITCH does not have"):
        project.run()


def test_a_missing_file_and_a_missing_function_are_named(project: Project) -> None:
    with pytest.raises(HookFailed, match=r"code/train\.py does not exist"):
        project.run()
    project.write("code/train.py", "import os\ndef fit(): ...\n")
    with pytest.raises(HookFailed, match=r"train\.py has no function train; it defines fit"):
        project.run()


def test_files_beside_the_hook_and_packages_of_the_project_are_importable(project: Project) -> None:
    project.write("code/features.py", "ROWS = 5\n")
    project.write("cohort/__init__.py", "SITES = 3\n")
    project.write("code/call.py", "MINE = 1\n")
    project.write("code/guard.py", "MINE = 1\n")
    project.train(
        """
        import features, cohort, call, guard, importlib.util
        ours = [name for name in ("runner", "launch") if importlib.util.find_spec(name)]
        mine = call.MINE + guard.MINE
        return {"n_samples": features.ROWS, "sites": cohort.SITES, "ours": len(ours), "mine": mine}
        """
    )
    result = project.run()
    assert result.n_samples == 5
    assert result.metrics == {"sites": 3, "ours": 0, "mine": 2}


def test_a_hook_inside_a_package_keeps_its_relative_imports(project: Project) -> None:
    project.write("model/__init__.py", "")
    project.write("model/parts.py", "ROWS = 9\n")
    project.write(
        "model/train.py",
        """
        from .parts import ROWS
        def train(global_path, out_path, data_dir):
            out_path.write_bytes(b"m")
            return {"n_samples": ROWS}
        """,
    )
    assert project.run(project.call("model/train.py:train")).n_samples == 9


def test_workers_that_are_spawned_find_the_hooks_own_functions(project: Project) -> None:
    project.write(
        "code/01-train.py",
        """
        import dataclasses, multiprocessing
        @dataclasses.dataclass
        class Row:
            value: int
        def double(row):
            return Row(2 * row.value)
        def train(global_path, out_path, data_dir):
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                rows = pool.map(double, [Row(1), Row(2)])
            out_path.write_bytes(b"m")
            return {"n_samples": sum(row.value for row in rows)}
        """,
    )
    assert project.run(project.call("code/01-train.py:train")).n_samples == 6


def test_a_hook_named_like_a_loaded_module_of_python_does_not_replace_it(project: Project) -> None:
    project.write(
        "hooks/json.py",
        """
        import json
        def train(global_path, out_path, data_dir):
            out_path.write_bytes(b"m")
            return {"n_samples": json.loads("3")}
        """,
    )
    assert project.run(project.call("hooks/json.py:train")).n_samples == 3


def test_windows_line_ends_byte_order_mark_and_backslashes_are_read(project: Project) -> None:
    (project.root / "code").mkdir()
    data = b"\xef\xbb\xbf" + PLAIN.replace("\n", "\r\n").encode()
    (project.root / "code" / "train.py").write_bytes(data)
    assert project.run(project.call("code\\train.py:train")).n_samples == 1


def test_the_hook_runs_in_the_project_folder_with_an_empty_stdin(project: Project) -> None:
    project.train(
        """
        assert os.getcwd() == os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        assert sys.stdin.read() == ""
        assert sys.flags.utf8_mode
        print("größer 中")
        return {"n_samples": 1}
        """
    )
    project.run()
    assert "größer 中" in project.log


def test_the_child_imports_nothing_of_stitch(project: Project) -> None:
    project.train(
        """
        ours = ("stitch", "azure", "pydantic", "psutil")
        names = [name for name in sys.modules if name.partition(".")[0] in ours]
        print(names)
        return {"n_samples": 1, "imported": len(names)}
        """
    )
    assert project.run().metrics["imported"] == 0, project.log


def test_returning_no_map_is_named(project: Project) -> None:
    project.train("pass")
    with pytest.raises(HookOutput, match="returned NoneType, not a map"):
        project.run()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("float('nan')", "'loss' as nan"),
        ("np.float32('inf')", "'loss' as inf"),
        ("True", "'loss' as a boolean"),
        ("np.bool_(True)", "'loss' as a boolean"),
        ("np.zeros(1)", "'loss' as ndarray"),
        ("'0.5'", "'loss' as str"),
        ("None", "'loss' as NoneType"),
    ],
)
def test_a_metric_that_is_no_finite_number_is_refused_by_name(
    project: Project, value: str, said: str
) -> None:
    project.train(f"import numpy as np\nreturn {{'n_samples': 1, 'loss': {value}}}")
    with pytest.raises(HookOutput, match=said):
        project.run()


def test_only_aggregate_may_wish_to_stop_and_counts_its_inputs(project: Project) -> None:
    project.write(
        "code/aggregate.py",
        """
        def aggregate(site_dir, out_path):
            out_path.write_bytes(b"m")
            return {"should_stop": True, "drift": 0.25}
        """,
    )
    call = project.call("code/aggregate.py:aggregate", hook="aggregate", default_n_samples=300)
    result = project.run(call)
    assert (result.n_samples, result.metrics, result.should_stop) == (300, {"drift": 0.25}, True)


def test_evaluate_writes_no_model(project: Project) -> None:
    project.write(
        "code/evaluate.py",
        "def evaluate(global_path, data_dir, **rest):\n    return {'n_samples': 10, 'auroc': 0.75}\n",
    )
    call = project.call("code/evaluate.py:evaluate", hook="evaluate")
    assert project.run(call).metrics == {"auroc": 0.75}


def test_one_runner_runs_hooks_at_once_from_several_threads(tmp_path: Path) -> None:
    runner, projects = HookRunner(), [Project(tmp_path / name) for name in "abcd"]
    for number, project in enumerate(projects):
        (project.root / "stage").mkdir(parents=True)
        project.train(f"return {{'n_samples': {number}}}")
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(runner.run, [project.call() for project in projects]))
    assert [result.n_samples for result in results] == [0, 1, 2, 3]
