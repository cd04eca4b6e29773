"""`clif-stitch try`: what would leave is shown, and nothing leaves."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.cli.federation import Federation, Site

RICH = 'return {"n_samples": 50, "loss": 0.5}'


def scratch(site: Site, hook: str) -> Path:
    return site.root / "runs" / "icu" / "try" / hook


def test_train_works_before_the_run_has_begun(federation: Federation) -> None:
    said = federation.nu.call("try", "train")
    assert said.code == 0
    assert "makes a starting model first" in said.out
    assert "sites/nu/pass_001, from a starting model made now" in said.out
    assert (scratch(federation.nu, "train") / "pass" / "model.json").read_text(encoding="utf-8") == "2"


def test_each_file_that_would_leave_is_named_with_size_and_hash(federation: Federation) -> None:
    said = federation.nu.call("try", "train")
    digest = hashlib.sha256(b"2").hexdigest()
    for text in (
        f"sites/nu/pass_001/model.{digest[:12]}.json   1 B",
        f"SHA-256 {digest}",
        "sites/nu/pass_001/metrics.json",
        "n_samples 50; metrics: loss",
        "sites/nu/events/pass_001.completed.json",
    ):
        assert text in said.out
    assert max(len(line) for line in said.out.splitlines()) <= 100


def test_nothing_leaves_and_the_mirror_stays_empty(federation: Federation) -> None:
    federation.lead.call("try", "aggregate")
    assert list(federation.store.iterdir()) == []
    assert not federation.lead.mirror.exists()


def test_no_store_is_needed(federation: Federation) -> None:
    (federation.nu.root / ".env").unlink()
    assert federation.nu.call("try", "train").code == 0


def test_the_hooks_own_words_are_shown(federation: Federation) -> None:
    federation.nu.hooks("    base =", '    print("two rows look odd")\n    base =')
    assert "two rows look odd" in federation.nu.call("try", "train").out


def test_metrics_that_egress_keeps_here_are_marked(federation: Federation) -> None:
    federation.nu.hooks(RICH, 'return {"n_samples": 50, "loss": 0.5, "oldest": 97}')
    federation.nu.toml("[hooks]", '[egress]\nmetrics = ["loss"]\n[hooks]')
    said = federation.nu.call("try", "train")
    assert "oldest 97   stays here: not in [egress] metrics" in said.out
    assert "n_samples 50; metrics: loss\n" in said.out


def test_too_few_samples_are_refused_as_run_would(federation: Federation) -> None:
    federation.nu.hooks('"n_samples": 50', '"n_samples": 9')
    said = federation.nu.call("try", "train")
    assert said.code == 36
    assert "n_samples is 9" in said.cause
    assert "n_samples 9" in said.out


def test_a_failing_hook_is_named_by_file_and_line(federation: Federation) -> None:
    federation.nu.hooks("    base =", '    raise ValueError("no cohort")\n    base =')
    said = federation.nu.call("try", "train")
    assert said.code == 11
    assert "error: the train hook code/hooks.py:train raised ValueError at code/hooks.py:7\n" in said.err
    assert "runs/icu/try/start/train.log" in said.err
    assert "ValueError: no cohort" in said.out


def test_aggregate_works_alone_on_a_pass_trained_now(federation: Federation) -> None:
    said = federation.lead.call("try", "aggregate")
    assert said.code == 0
    assert "global/pass_001, from a pass of rush trained now" in said.out
    assert said.out.count("makes a starting model first") == 1
    assert (scratch(federation.lead, "aggregate") / "pass" / "model.json").read_text(
        encoding="utf-8"
    ) == "2.0"


def test_after_a_run_they_use_what_is_in_the_mirror(federation: Federation) -> None:
    federation.finish()
    assert "sites/nu/pass_001, from global 0" in federation.nu.call("try", "train").out
    said = federation.lead.call("try", "aggregate")
    assert "from pass 1 of nu, pass 1 of rush" in said.out
    sealed = (federation.lead.mirror / "global" / "pass_001" / "model.json").read_bytes()
    assert (scratch(federation.lead, "aggregate") / "pass" / "model.json").read_bytes() == sealed


@pytest.mark.parametrize(("hook", "number"), [("train", "7"), ("aggregate", "3")])
def test_a_pass_that_is_not_here_is_said(federation: Federation, hook: str, number: str) -> None:
    said = federation.lead.call("try", hook, "--pass", number)
    assert said.code == 2
    assert "Leave out --pass" in said.todo


def test_pass_0_is_the_starting_model(federation: Federation) -> None:
    assert "global/pass_000, from nothing" in federation.lead.call("try", "train", "--pass", "0").out


ADMIT = """

def admit(model_path, base_path, reason_path):
    pathlib.Path(reason_path).write_text("its change is too large")
    return {}
"""


def test_a_pass_that_the_admit_hook_leaves_out_is_refused_as_run_would(federation: Federation) -> None:
    nu = federation.nu
    nu.write("code/hooks.py", (nu.root / "code/hooks.py").read_text(encoding="utf-8") + ADMIT)
    nu.toml("[hooks]", '[hooks]\nadmit = "code/hooks.py:admit"')
    said = nu.call("try", "train")
    assert said.code == 13
    assert "pass 1 would not be admitted: its change is too large" in said.cause


def test_scores_and_a_carried_state_are_in_the_list_of_what_leaves(federation: Federation) -> None:
    state = 'pathlib.Path(outer_out_path).write_text("momentum")'
    evaluate = '\n\ndef evaluate(global_path, data_dir):\n    return {"n_samples": 50}\n'
    federation.lead.hooks(
        "def aggregate(site_dir, out_path):\n",
        f"def aggregate(site_dir, out_path, outer_out_path):\n    {state}\n",
    )
    hooks = federation.lead.root / "code/hooks.py"
    federation.lead.write("code/hooks.py", hooks.read_text(encoding="utf-8") + evaluate)
    federation.lead.toml("[hooks]", '[hooks]\nevaluate = "code/hooks.py:evaluate"')
    digest = hashlib.sha256(b"momentum").hexdigest()
    aggregated = federation.lead.call("try", "aggregate").out
    assert f"global/pass_001/outer_state.{digest[:12]}.json   8 B\n    SHA-256 {digest}" in aggregated
    assert "evaluated" not in aggregated
    assert "sites/rush/events/pass_000.evaluated.json" in federation.lead.call("try", "train").out
