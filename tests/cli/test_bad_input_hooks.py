"""Hooks that are missing or give back what cannot be used: named, nothing leaves, corrected and re-run."""

from __future__ import annotations

import pytest

from tests.cli.federation import Federation, Said, unchanged

EVENTS = ("/events/", "/join/")
WRITE = "pathlib.Path(out_path).write_text(json.dumps(base + 1))"


def refused(federation: Federation) -> Said:
    """The site runs into the trouble: no pass of it is in the store or the mirror afterwards."""
    with unchanged(federation.store, but=EVENTS):
        said = federation.nu.call("run")
    assert list((federation.nu.mirror / "sites").glob("nu/pass_*")) == []
    assert list((federation.nu.root / "output").rglob("m*.*")) == []  # no copy of a model or its metrics
    return said


def corrected(federation: Federation) -> None:
    federation.nu.write_honest_hooks()
    federation.finish_well()


def test_a_hooks_file_that_is_missing_is_told_before_anything_begins(federation: Federation) -> None:
    for site in (federation.lead, federation.nu):
        (site.root / "code/hooks.py").unlink()
        with unchanged(federation.store, site.root):
            said = site.call("run")
        assert said.code == 2
        assert said.cause == 'the hook "code/hooks.py:train" names a file that does not exist'
        assert said.todo == "Paths in [hooks] are relative to the folder of stitch.toml."
    federation.lead.write_honest_hooks()
    corrected(federation)


def test_the_leads_aggregate_hook_is_looked_for_before_a_whole_round_is_trained(
    federation: Federation,
) -> None:
    federation.lead.toml("code/hooks.py:aggregate", "code/agregate.py:aggregate")
    with unchanged(federation.store, federation.lead.root):
        said = federation.lead.call("run")
    assert (said.code, said.cause) == (
        2,
        'the hook "code/agregate.py:aggregate" names a file that does not exist',
    )


@pytest.mark.parametrize(
    ("old", "new", "code", "cause", "todo"),
    [
        ("def train", "def trian", 11, "hooks.py has no function train; is it trian?", "Correct [hooks]"),
        ('"loss": 0.5', '"loss": float("nan")', 13, "returned 'loss' as nan", "Return finite numbers"),
        ('"n_samples": 50, ', "", 13, "the train hook returned no n_samples", 'Return {"n_samples": rows'),
        (
            WRITE,
            WRITE.replace("out_path", 'str(out_path) + ".npz"'),
            13,
            "wrote no model.json but",
            "exactly as given",
        ),
        (WRITE, "pathlib.Path(out_path).touch()", 13, "wrote an empty model.json", "Close the file"),
    ],
    ids=["no function", "nan", "no n_samples", "wrong extension", "empty model"],
)
def test_what_a_hook_gave_back_is_named_and_its_pass_is_trained_again(
    federation: Federation, old: str, new: str, code: int, cause: str, todo: str
) -> None:
    federation.begin()
    federation.nu.hooks(old, new)
    said = refused(federation)
    assert said.code == code
    assert cause in said.cause
    assert todo in said.todo
    assert (federation.run / "sites/nu/events/pass_001.failed.json").is_file()
    corrected(federation)


def test_fewer_samples_than_may_leave_stay_here(federation: Federation) -> None:
    federation.begin()
    federation.nu.hooks('"n_samples": 50', '"n_samples": 7')
    said = refused(federation)
    assert said.code == 36
    assert said.cause == "n_samples is 7, below the smallest count that may leave (10)"
    assert said.todo.startswith("Widen the cohort, or agree on another [egress] min_n")
    told = "".join(path.read_text("utf-8") for path in federation.run.rglob("*nu/events/*.json"))
    assert '"EgressRefused"' in told
    assert "is 7" not in told
    corrected(federation)


def test_a_model_over_the_limit_stays_here(federation: Federation) -> None:
    federation.begin()
    federation.nu.toml("max_retries = 0", "max_retries = 0\nmax_file_mb = 1")
    federation.nu.hooks("json.dumps(base + 1)", '"9" * 3_000_000')
    said = refused(federation)
    assert said.code == 13
    assert said.cause == "the train hook wrote a model.json of 3.0 MB, over the limit of 1 MB"
    assert said.todo == "Write a smaller model, or raise transfer.max_file_mb at all sites."
    corrected(federation)


def test_zero_samples_everywhere_publish_no_global_and_name_the_sites(federation: Federation) -> None:
    for site in (federation.lead, federation.nu):
        site.hooks('"n_samples": 50', '"n_samples": 0')
    federation.begin()
    assert federation.nu.call("step").code == 0
    with unchanged(federation.store):
        for _ in range(2):
            said = federation.lead.call("run")
            assert said.code == 40
            assert said.cause == "round 1: no site contributed a sample (nu, rush); no global was published"
            assert said.todo == (
                "Let these sites check their cohorts, then begin a new run under another run_id."
            )
    assert not (federation.run / "global/pass_001").exists()
    assert not (federation.run / "global/rounds").exists()
    for site in (federation.lead, federation.nu):
        site.write_honest_hooks()
        site.toml('run_id = "icu"', 'run_id = "icu-2"')
    lead, nu = federation.finish()
    assert (lead.code, nu.code) == (0, 0)
    assert (federation.store / "icu-2/global/DONE.json").is_file()


def test_one_site_without_samples_is_left_out_and_named(federation: Federation) -> None:
    federation.nu.hooks('"n_samples": 50', '"n_samples": 0')
    lead, nu = federation.finish()
    assert (lead.code, nu.code) == (0, 0)
    seal = (federation.run / "global/pass_001/metrics.json").read_text(encoding="utf-8")
    assert '"zero samples"' in seal
