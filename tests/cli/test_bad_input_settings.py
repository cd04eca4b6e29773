"""Settings, names and stores that do not belong together: told before anything is touched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stitch.cli import scaffold
from stitch.cli.app import main
from tests.cli.federation import RUN, Federation, unchanged


@pytest.mark.parametrize(
    ("old", "new", "cause", "todo"),
    [
        (
            "poll_seconds",
            "pol_seconds",
            "stitch.toml: unknown key 'pol_seconds'",
            "The nearest valid key is 'poll_seconds'.",
        ),
        (
            "[hooks]",
            "[egress]\nmin = 3\n[hooks]",
            "stitch.toml: unknown key 'egress.min'",
            "The nearest valid key is 'min_n' under [egress].",
        ),
        (
            "num_passes = 1",
            'num_passes = "1"',
            "stitch.toml: 'num_passes' is '1' (text), wanted a whole number, 0 or more",
            "Write a whole number, 0 or more for num_passes.",
        ),
        (
            '"rush", "nu"',
            '"rush", "nu", "NU"',
            "stitch.toml: sites: 'nu' and 'NU' are the same site, since case does not count",
            "Give every site a name of its own.",
        ),
    ],
)
def test_a_mistake_in_stitch_toml_is_named_with_its_cure_and_touches_nothing(
    federation: Federation, old: str, new: str, cause: str, todo: str
) -> None:
    federation.begin()
    federation.nu.toml(old, new)
    with unchanged(federation.store, federation.nu.root):
        said = federation.nu.call("run")
    assert (said.code, said.cause, said.todo) == (2, cause, todo)
    assert said.out == ""
    federation.nu.toml(new, old)
    assert federation.nu.call("step").code == 0


def test_a_site_that_is_not_in_the_roster_is_shown_the_nearest_name(federation: Federation) -> None:
    federation.begin()
    federation.nu.write("config/config.json", '{"site_name": "nuu", "data_directory": "data"}')
    with unchanged(federation.store, federation.nu.root):
        said = federation.nu.call("run")
    assert said.code == 2
    assert (
        said.cause == "config/config.json: site_name: 'nuu' is not one of the sites of stitch.toml (rush, nu)"
    )
    assert said.todo.endswith('Did you mean "nu"?')


def test_site_names_that_are_one_when_case_is_folded_are_refused_by_init_too(federation: Federation) -> None:
    said = federation.lead.call("init", "../made", "--lead", "rush", "--sites", "rush,nu,Nu")
    assert said.code == 2
    assert said.cause == "--sites: 'nu' and 'Nu' are the same site, since case does not count"
    assert not (federation.store.parent / "made").exists()


def test_files_that_are_one_when_case_is_folded_are_a_warning_of_doctor(federation: Federation) -> None:
    federation.nu.write("code/Features.py", "")
    federation.nu.write("code/features.py", "")
    said = federation.nu.call("doctor")
    assert "code/Features.py and code/features.py are one file where case does not count" in said.out


def test_settings_other_than_the_runs_are_named_with_both_values(federation: Federation) -> None:
    federation.begin()
    federation.nu.toml("num_passes = 1", "num_passes = 9")
    federation.nu.toml("[transfer]", "[config]\nlr = 0.5\n[transfer]")
    with unchanged(federation.store):
        said = federation.nu.call("run")
    assert said.code == 2
    assert said.cause == (
        "run icu was begun with other settings: "
        "config.lr (begun with nothing, here 0.5), num_passes (begun with 1, here 9)"
    )
    assert said.todo == "Use the stitch.toml that the run was begun with; other settings need a new run_id."
    federation.nu.toml("num_passes = 9", "num_passes = 1")
    federation.nu.toml("[config]\nlr = 0.5\n", "")
    federation.finish_well()


def test_a_run_id_that_others_used_in_this_store_is_refused(federation: Federation) -> None:
    """The mirror holds one run's manifest, the store another's under the same run_id."""
    federation.begin()
    assert federation.nu.call("step").code == 0
    kept = federation.store / "kept"
    federation.run.rename(kept)
    shutil.rmtree(federation.lead.mirror)
    federation.begin()
    with unchanged(federation.store, federation.nu.mirror):
        said = federation.nu.call("run")
    assert (said.code, said.cause) == (
        30,
        "the store has another manifest of run icu: it was emptied or swapped",
    )
    assert said.todo == "Check the store URL. For a new run choose a new run_id; nothing was changed."


@pytest.mark.parametrize("who", ["lead", "nu"])
def test_a_store_that_was_emptied_is_noticed_by_everybody_and_filled_by_nobody(
    federation: Federation, who: str
) -> None:
    federation.begin()
    assert federation.nu.call("step").code == 0
    kept = federation.store.parent / "kept"
    federation.run.rename(kept)
    site = getattr(federation, who)
    with unchanged(federation.store, site.mirror):
        for verb in ("run", "step"):
            said = site.call(verb)
            cause = f"the store has no manifest of run {RUN}: it was emptied or swapped"
            assert (said.code, said.cause) == (30, cause)
    assert not federation.run.exists()
    kept.rename(federation.run)
    federation.finish_well()


def test_formats_that_run_code_when_opened_are_a_warning_of_doctor(federation: Federation) -> None:
    federation.nu.toml('model_ext = "json"', 'model_ext = "pkl"')
    said = federation.nu.call("doctor")
    assert said.code == 0
    (line,) = [line for line in said.out.splitlines() if line.startswith("warn  model")]
    assert ".pkl: pickle runs code when it is opened -> Use a format of plain numbers: npz" in line


def test_they_are_a_warning_of_init_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(scaffold.templates_dir(), tmp_path / "templates")
    template = tmp_path / "templates/numpy/template.toml"
    template.write_text(template.read_text("utf-8").replace('"npz"', '"pkl"'), encoding="utf-8")
    monkeypatch.setattr(scaffold, "templates_dir", lambda: tmp_path / "templates")
    with pytest.raises(SystemExit) as ended:
        main(["init", str(tmp_path / "made"), "--lead", "rush", "--sites", "rush"])
    assert ended.value.code == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning:")]
    assert line.startswith('warning: model_ext = "pkl": pickle runs code when it is opened; prefer npz')
