"""What `stitch.toml` and the site's file say, and what a mistake in them gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from stitch.config import config_facts, config_sha256, load_settings, require_urls
from stitch.errors import ConfigError

TOML = """
run_id = "icu-1"
lead = "Rush"
sites = ["Rush", "nu", "UChicago"]
num_passes = 5
"""

Project = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    def write(
        more: str = "", *, toml: str = TOML, site: object = None, place: str = "config/config.json"
    ) -> Path:
        (tmp_path / "stitch.toml").write_text(toml + more, encoding="utf-8")
        file = tmp_path / place
        file.parent.mkdir(exist_ok=True)
        text = (
            site if isinstance(site, str) else json.dumps(site or {"site_name": "NU", "data_directory": "d"})
        )
        file.write_text(text, encoding="utf-8")
        return tmp_path

    return write


def refused(root: Path) -> tuple[str, str]:
    with pytest.raises(ConfigError) as caught:
        load_settings(root, {})
    message, hint = str(caught.value), caught.value.hint
    assert "\n" not in message + hint
    assert caught.value.exit_code == 2
    return message, hint


def test_the_least_file_gets_the_defaults(project: Project) -> None:
    settings = load_settings(project(), {})
    assert (settings.site, settings.lead, settings.is_lead) == ("nu", "rush", False)
    assert settings.sites == ("rush", "nu", "uchicago")
    assert settings.data_dir == settings.root / "d"
    assert settings.poll_seconds == 30
    assert settings.heartbeat_minutes == 2
    assert settings.give_up_after == 24 * 3600
    assert settings.transfer.max_retries == 5
    assert settings.egress.min_n == 10
    assert settings.hooks.model_ext == "npz"


def test_every_key_is_read(project: Project) -> None:
    settings = load_settings(
        project(
            """
poll_seconds = 1.5
heartbeat_minutes = 1
give_up_after = "90m"
root_seed = 7
initial_model = "run:icu-0/pass_008"
[policy]
require = "all_expected"
[transfer]
max_retries = 2
retry_backoff_seconds = 1
max_file_mb = 4
[hooks]
train = ["Rscript", "code/train.R"]
aggregate = "code/agg.py:mean"
evaluate = "code/eval.py:evaluate"
model_ext = "json"
contract = "2"
timeout_minutes = 60
[egress]
metrics = ["loss"]
min_n = 20
error_messages = true
[config]
lr = 0.1
layers = [1, 2]
[store]
synced = true
ca_bundle = "ca.pem"
"""
        ),
        {},
    )
    assert (settings.poll_seconds, settings.heartbeat_minutes, settings.give_up_after) == (1.5, 1, 5400)
    assert (settings.root_seed, settings.initial_model) == (7, "run:icu-0/pass_008")
    assert settings.transfer.max_bytes == 4_000_000
    assert settings.hooks.train == ("Rscript", "code/train.R")
    assert settings.hooks.timeout_minutes == 60
    assert settings.egress.metrics == ("loss",)
    assert settings.hyper == {"lr": 0.1, "layers": [1, 2]}
    assert settings.store.synced
    assert settings.store.ca_bundle == settings.root / "ca.pem"


@pytest.mark.parametrize(
    ("duration", "seconds"), [('"24h"', 86400), ('"30s"', 30), ('"1.5h"', 5400), ('"2d"', 172800), ("45", 45)]
)
def test_durations(project: Project, duration: str, seconds: float) -> None:
    assert load_settings(project(f"give_up_after = {duration}"), {}).give_up_after == seconds


@pytest.mark.parametrize(
    ("more", "key", "advice"),
    [
        ("pol_seconds = 3", "'pol_seconds'", "'poll_seconds'"),
        ("max_retries = 3", "'max_retries'", "[transfer]"),
        ("[transfer]\nmax_retrys = 3", "'transfer.max_retrys'", "'max_retries'"),
        ("[policy]\npoll_seconds = 3", "'policy.poll_seconds'", "above the first [table]"),
        ("[egres]\nmin_n = 3", "'egres'", "'egress'"),
        ("[transfer]\nmin_n = 3", "'transfer.min_n'", "[egress]"),
        ("zzz = 3", "'zzz'", "poll_seconds"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_valid_one(
    project: Project, more: str, key: str, advice: str
) -> None:
    message, hint = refused(project(more))
    assert message.startswith("stitch.toml: unknown key ")
    assert key in message
    assert advice in hint


@pytest.mark.parametrize(
    ("more", "parts"),
    [
        ('poll_seconds = "30"', ("poll_seconds", "'30'", "text", "a number of seconds")),
        ("poll_seconds = 0", ("poll_seconds", "above 0")),
        ("poll_seconds = true", ("poll_seconds", "true")),
        ("poll_seconds = inf", ("poll_seconds",)),
        ('give_up_after = "soon"', ("give_up_after", '"24h"')),
        ("transfer = 3", ("transfer", "a table")),
        ("[transfer]\nmax_retries = 1.5", ("transfer.max_retries", "1.5", "a whole number")),
        ("[transfer]\nmax_retries = -1", ("transfer.max_retries", "-1")),
        ("[transfer]\nmax_file_mb = 0", ("transfer.max_file_mb",)),
        ('[policy]\nrequire = "most"', ("policy.require", "all_expected", "quorum")),
        ('[hooks]\ntrain = "code/train.py"', ("hooks.train", "path/file.py:function")),
        ("[hooks]\ntrain = []", ("hooks.train", "list")),
        ("[hooks]\ntrain = [1]", ("hooks.train",)),
        ("[egress]\nmetrics = 'auroc'", ("egress.metrics", "a list of metric names")),
        ('[egress]\nerror_messages = "no"', ("egress.error_messages", "true or false")),
        ("[config]\nwhen = 2026-01-01", ("config", "no dates")),
        ("[config]\nlr = nan", ("config", "nan")),
        ("root_seed = -1", ("root_seed",)),
        ('initial_model = "run:icu/pass"', ("initial_model", "names no pass")),
    ],
)
def test_a_wrong_value_is_named_with_what_was_wanted(
    project: Project, more: str, parts: tuple[str, ...]
) -> None:
    message, _ = refused(project(more))
    assert message.startswith("stitch.toml: ")
    for part in parts:
        assert part in message


def test_missing_keys_are_named(project: Project) -> None:
    message, hint = refused(project(toml='lead = "nu"\nsites = ["nu"]\n'))
    assert "'run_id' is missing (and 1 more)" in message
    assert "run_id" in hint


def test_no_toml_and_no_project(project: Project, tmp_path: Path) -> None:
    message, hint = refused(tmp_path)
    assert "no stitch.toml" in message
    assert "init" in hint
    message, _ = refused(project('path = "C:\\Users"'))
    assert "not valid TOML" in message
    assert "line 6" in message


@pytest.mark.parametrize(
    "sites",
    [
        "con",
        "nul",
        "com1",
        "lpt9",
        "1a",
        "-a",
        "a-",
        "a--b",
        "a_b",
        "a b",
        "",
        "x" * 41,
        "global",
        "aux.b",
        "é",
    ],
)
def test_illegal_site_ids(project: Project, sites: str) -> None:
    message, _ = refused(project(toml=TOML.replace("UChicago", sites)))
    assert "cannot be a site id" in message


def test_sites_that_differ_by_case_alone_collide(project: Project) -> None:
    message, _ = refused(project(toml=TOML.replace("UChicago", "NU")))
    assert "'nu' and 'NU' are the same site" in message


@pytest.mark.parametrize("run_id", ["", ".a", "-a", "a.", "con", "NUL.x", "a/b", "a b", "x" * 65, "a\\\\b"])
def test_illegal_run_ids(project: Project, run_id: str) -> None:
    message, _ = refused(project(toml=TOML.replace("icu-1", run_id)))
    assert "cannot be a run id" in message


@pytest.mark.parametrize("ext", [".npz", "model.json", "NPZ", "tar.gz", "", "part"])
def test_illegal_extensions(project: Project, ext: str) -> None:
    message, _ = refused(project(f'[hooks]\nmodel_ext = "{ext}"'))
    assert "model_ext" in message


def test_a_site_or_lead_outside_the_roster(project: Project) -> None:
    message, hint = refused(project(site={"site_name": "uchicgo", "data_directory": "d"}))
    assert "config/config.json: site_name: 'uchicgo' is not one of the sites" in message
    assert '"uchicago"' in hint
    message, _ = refused(project(toml=TOML.replace('"Rush"\nsites', '"mayo"\nsites')))
    assert "lead: 'mayo'" in message


@pytest.mark.parametrize("place", ["config/config.json", "config/clif_config.json", "clif_config.json"])
@pytest.mark.parametrize(("name", "data"), [("site", "tables_path"), ("site_name", "data_directory")])
def test_the_dialects_of_the_sites_file(project: Project, place: str, name: str, data: str) -> None:
    raw = {name: "NU", data: "/srv/clif", "file_type": "parquet", "timezone": "US/Central", "extra": 1}
    settings = load_settings(project(site="\ufeff" + json.dumps(raw), place=place), {})
    assert settings.site == "nu"
    assert settings.data_dir == Path("/srv/clif")
    assert settings.site_config == raw


def test_two_spellings_that_disagree(project: Project) -> None:
    message, _ = refused(project(site={"site": "nu", "site_name": "rush", "data_directory": "d"}))
    assert "site_name and site say different things" in message


def test_a_site_key_that_is_missing_or_mistyped(project: Project) -> None:
    message, hint = refused(project(site={"site_name": "nu", "data_directry": "d"}))
    assert "'data_directory' is missing" in message
    assert "'data_directry'" in hint
    message, _ = refused(project(site={"site_name": 3, "data_directory": "d"}))
    assert "'site_name' is a number" in message


@pytest.mark.parametrize(
    ("path", "mended"),
    [(r"C:\Users\me", "C:/Users/me"), (r"C:\temp\new", "C:/temp/new"), (r"D:\x\y", "D:/x/y")],
)
def test_single_backslashes_in_json_are_explained(project: Project, path: str, mended: str) -> None:
    text = f'{{\n "site_name": "nu",\n "data_directory": "{path}"\n}}'
    _, hint = refused(project(site=text))
    assert "backslash" in hint
    assert mended in hint


@pytest.mark.parametrize("text", ["{'site': 'nu'}", '{"site": "nu",}', "", "[1]", "{"])
def test_broken_json_names_the_place(project: Project, text: str) -> None:
    message, _ = refused(project(site=text or " "))
    assert message.startswith("config/config.json")


def test_files_in_other_encodings(project: Project) -> None:
    root = project()
    (root / "stitch.toml").write_bytes(TOML.encode("utf-16"))
    assert load_settings(root, {}).site == "nu"
    (root / "stitch.toml").write_bytes(b'run_id = "\xe9"')
    message, hint = refused(root)
    assert "stitch.toml, line 1: not UTF-8" in message
    assert "UTF-8" in hint


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ('initial_model = "https://a.blob.core.windows.net/c?sv=1&sig=SECRETVALUE"', "initial_model"),
        ('[config]\nurls = ["x", "sig=SECRETVALUE"]', "config.urls[2]"),
        ('[config]\nAccountKey = "SECRETVALUE"', "config.AccountKey"),
        ("# STITCH_STORE=https://a/c?sv=1&sig=SECRETVALUE", "line 6"),
        ('url = "AccountName=a;AccountKey=SECRETVALUE"', "url"),
        ("broken = https://a/c?sig=SECRETVALUE", "line 6"),
    ],
)
def test_tokens_in_the_committed_file_are_refused_by_name(project: Project, more: str, place: str) -> None:
    message, hint = refused(project(more))
    assert place in message
    assert ".env" in hint
    assert "SECRETVALUE" not in message + hint


def test_tokens_in_the_sites_file_are_refused_by_name(project: Project) -> None:
    raw = {"site_name": "nu", "data_directory": "d", "store": {"url": "https://a/c?sv=1&sig=SECRETVALUE"}}
    message, hint = refused(project(site=raw))
    assert "config/config.json" in message
    assert "store.url" in message
    assert "SECRETVALUE" not in message + hint


def test_words_that_only_look_like_tokens_pass(project: Project) -> None:
    load_settings(project('[config]\nnote = "design=1, sig="\n'), {})


def test_the_command_line_can_name_the_site(project: Project) -> None:
    root = project()
    (root / "config/config.json").unlink()
    message, hint = refused(root)
    assert "config/config.json is missing" in message
    assert "setup" in hint
    assert load_settings(root, {}, site="UChicago").site == "uchicago"


def test_the_hash_covers_what_must_agree_and_nothing_else(project: Project) -> None:
    base = load_settings(project(), {})
    same = load_settings(
        project("poll_seconds = 1\n[transfer]\nmax_file_mb = 3"), {"STITCH_STORE": "memory:"}
    )
    assert config_sha256(base) == config_sha256(same)
    for more in ('[hooks]\nmodel_ext = "json"', "[config]\nlr = 0.1", '[hooks]\ncontract = "2"'):
        other = load_settings(project(more), {})
        assert config_sha256(other) != config_sha256(base)
        assert config_facts(other) != config_facts(base)
    assert config_sha256(load_settings(project("[config]\na = 1\nb = 2"), {})) == config_sha256(
        load_settings(project("[config]\nb = 2\na = 1"), {})
    )


def test_require_urls_names_what_is_missing(project: Project) -> None:
    with pytest.raises(ConfigError, match="STITCH_STORE_GLOBAL, STITCH_STORE_SITE"):
        require_urls(load_settings(project(), {}))
    lead = load_settings(
        project(), {"STITCH_STORE_GLOBAL": "memory:", "STITCH_STORE_SITE": "memory:"}, site="rush"
    )
    with pytest.raises(ConfigError, match="STITCH_STORE_NU, STITCH_STORE_UCHICAGO"):
        require_urls(lead)
    require_urls(load_settings(project(), {"STITCH_STORE": "memory:"}, site="rush"))
