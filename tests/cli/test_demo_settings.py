"""How a demo's options become a plan, and a project's stitch.toml a demo's."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from stitch.cli.demo_build import with_key
from stitch.cli.demo_plan import Plan, plan_of
from stitch.cli.demo_policy import DemoPolicy, set_policy
from stitch.config.policy import policy_of
from stitch.config.schema import PolicyTable
from stitch.errors import ConfigError

TOML = """# settings
run_id = "x"
sites = [
  "rush",  # the lead
  "nu",
]
num_passes = 100  # many

[transfer]
num_passes = "not this one"
[[later]]
sites = []
"""


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("num_passes", "5", 5),
        ("sites", '["a", "b"]', ["a", "b"]),
        ("poll_seconds", "0.5", 0.5),
        ("run_id", '"y"', "y"),
    ],
)
def test_a_top_level_key_is_set_and_nothing_else_changes(key: str, value: str, wanted: object) -> None:
    before, after = tomllib.loads(TOML), tomllib.loads(with_key(TOML, key, value=value))
    assert after == before | {key: wanted}


def test_a_key_is_put_into_a_file_of_tables_alone() -> None:
    assert tomllib.loads(with_key("[hooks]\na = 1\n", "num_passes", value="3")) == {
        "num_passes": 3,
        "hooks": {"a": 1},
    }


POLICIES = {
    "its own": '[a]\nb = 1\n[policy]  # when\nrequire = "quorum"\nmin_participants = 2\n\n[hooks]\nc = 2\n',
    "at the end": '[a]\nb = 1\n[hooks]\nc = 2\n[policy]\nrequire = "all_expected"',
    "none": "[a]\nb = 1\n[hooks]\nc = 2\n",
}


@pytest.mark.parametrize("text", POLICIES.values(), ids=POLICIES)
def test_the_policy_is_set_whatever_stood_there(tmp_path: Path, text: str) -> None:
    (tmp_path / "stitch.toml").write_text(text, encoding="utf-8")
    set_policy(tmp_path / "stitch.toml", DemoPolicy.BUFFERED, sites=3)
    made = tomllib.loads((tmp_path / "stitch.toml").read_text(encoding="utf-8"))
    policy = made.pop("policy")
    assert made == {"a": {"b": 1}, "hooks": {"c": 2}}
    assert policy_of(PolicyTable(**policy), sites=3, file="stitch.toml").buffer_size == 2


def test_a_demo_of_another_policy_is_not_continued(tmp_path: Path) -> None:
    plan(tmp_path).remember()
    other = plan_of(tmp_path, project=None, sites=None, passes=5, store="", policy=DemoPolicy.BUFFERED)
    with pytest.raises(ConfigError, match="begun with policy all_expected"):
        other.check()


def plan(folder: Path, *, project: Path | None = None, sites: int | None = None, store: str = "") -> Plan:
    return plan_of(folder, project=project, sites=sites, passes=5, store=store)


def test_three_sites_are_the_default_and_the_first_one_leads(tmp_path: Path) -> None:
    made = plan(tmp_path)
    assert (made.sites, made.lead) == (("rush", "nu", "uchicago"), "rush")


def test_a_projects_own_roster_takes_part_its_lead_first(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "make_synthetic.py").touch()
    text = 'run_id = "x"\nlead = "NU"\nsites = ["Rush", "nu", "emory"]\nnum_passes = 2\n'
    (tmp_path / "stitch.toml").write_text(text, encoding="utf-8")
    assert plan(tmp_path / "d", project=tmp_path).sites == ("nu", "rush", "emory")
    assert plan(tmp_path / "d", project=tmp_path, sites=2).sites == ("nu", "rush")
    with pytest.raises(ConfigError, match="has 3 sites, not 4"):
        plan(tmp_path / "d", project=tmp_path, sites=4)


def test_a_tokens_signature_is_not_remembered(tmp_path: Path) -> None:
    made = plan(tmp_path, store="http://127.0.0.1:10000/devstoreaccount1/box?sv=1&sig=abcdefgh")
    made.remember()
    text = (tmp_path / "demo.json").read_text(encoding="utf-8")
    assert "abcdefgh" not in text + repr(made)
    plan(tmp_path, store="http://127.0.0.1:10000/devstoreaccount1/box?sv=1&sig=another").check()


@pytest.mark.parametrize("store", ["memory:", "missing/folder"])
def test_a_store_that_cannot_serve_is_refused_before_anything_is_made(tmp_path: Path, store: str) -> None:
    with pytest.raises(ConfigError):
        plan(tmp_path / "d", store=store)
    assert list(tmp_path.iterdir()) == []
