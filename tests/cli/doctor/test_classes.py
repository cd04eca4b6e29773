"""`doctor` on a client's and a strategy's class, their options, and the first model."""

from __future__ import annotations

import pytest

from stitch.cli import checks_classes, checks_project
from stitch.config import load_settings
from tests.cli.doctor.conftest import Project

CLIENT = """
class Whole:
    def __init__(self, data_dir): raise RuntimeError("doctor reads no data")
    def fit(self, parameters, config): ...

class NoFit: ...

class Odd(Whole):
    def __init__(self, folder): ...
"""


def asked(project: Project, more: str) -> str:
    """Each finding of both checks on a line: name, state, code, finding, todo."""
    root = project(more, site="rush")
    (root / "code/own.py").write_text(CLIENT, encoding="utf-8")
    settings = load_settings(root, {})
    found = [*checks_classes.classes(settings), *checks_classes.initial_model(settings)]
    return "\n".join(f"{one.name} {one.state} {one.exit_code}: {one.finding} -> {one.todo}" for one in found)


@pytest.mark.parametrize(
    ("own", "code", "words"),
    [
        ("Whole", 0, "code/own.py:Whole"),
        ("NoFit", 11, "NoFit has no method fit"),
        ("Odd", 11, "Odd wants folder; a client is called with any of data_dir"),
        ("Hole", 11, "code/own.py has no class Hole; is it Whole?"),
    ],
)
def test_a_client_is_looked_at_and_not_made(project: Project, own: str, code: int, words: str) -> None:
    said = asked(project, f'[hooks]\nclient = "code/own.py:{own}"\n')
    assert f"client {'fail' if code else 'ok'} {code}: " in said
    assert words in said


@pytest.mark.parametrize(
    ("own", "options", "words"),
    [
        ("FedAdm", "", "stitch.learning has no class FedAdm; is it FedAdam?"),
        ("FedAdam", "lr = 0.1", "FedAdam has no option lr -> [strategy] may have: server_lr, beta_1, beta_2"),
        (
            "FedAdam",
            'server_lr = "fast"',
            "server_lr is 'fast', wanted a number -> Write a number without quotes",
        ),
        ("FedAdam", "server_lr = -1", "server_lr is -1 -> It is above 0."),
        ("FedProx", "", "FedProx needs the option proximal_mu -> Write it under [strategy]"),
        ("FedAdam", "lr = 0.1", "tau, weighted, max_norm."),
        ("FedAdam", "max_norm = 0", "option max_norm is 0 -> It is above 0."),
        ("FedBuff", 'max_norm = "ten"', "option max_norm is 'ten', wanted a number"),
        ("BoosterBagging", "max_norm = 1.0", "a change of trees has no norm -> Remove max_norm."),
        ("Spec", 'dtype = "f4"\nshape = []', "which is no stitch.learning.Strategy"),
    ],
)
def test_a_strategy_is_made_with_its_options(project: Project, own: str, options: str, words: str) -> None:
    said = asked(project, f'[strategy]\n{options}\n[hooks]\nstrategy = "stitch.learning:{own}"\n')
    assert "strategy fail 11: " in said
    assert words in said


def test_a_bound_of_the_norm_and_the_size_of_the_policys_buffer_are_taken(project: Project) -> None:
    said = asked(
        project,
        "[strategy]\nmax_norm = 10\nserver_lr = 0.5\n"
        '[policy]\nrequire = "buffered"\nbuffer_size = 3\n[hooks]\nstrategy = "stitch.learning:FedBuff"\n',
    )
    assert said.startswith("strategy ok 0: ")


def test_the_first_models_file_is_looked_for(project: Project) -> None:
    root = project(site="rush")
    toml = (root / "stitch.toml").read_text(encoding="utf-8")
    for name, words in (("start.npz", "start.npz does not exist"), ("stitch.toml", "stitch.toml is no .")):
        (root / "stitch.toml").write_text(f'initial_model = "{name}"\n{toml}', encoding="utf-8")
        (check,) = checks_classes.initial_model(load_settings(root, {}))
        assert (check.state, check.exit_code) == ("fail", 2)
        assert words in check.finding


def test_every_hook_that_will_run_is_looked_for(project: Project) -> None:
    root = project(
        '[hooks]\ndiagnose = "code/no.py:f"\n[privacy]\npre_release = "code/no.py:f"\n', site="rush"
    )
    failed = [one.name for one in checks_project.hooks(load_settings(root, {})) if one.state == "fail"]
    assert failed == ["hook pre_release", "hook diagnose"]


def test_a_lead_that_adds_the_noise_needs_no_aggregate_hook(project: Project) -> None:
    root = project(
        '[hooks]\nmodel_ext = "npz"\n[privacy]\nmode = "central"\nclip = 1.0\nepsilon = 8.0\ndelta = 1e-5\n'
        "data_free_start = true\n",
        site="rush",
    )
    found = [(one.name, one.state) for one in checks_project.hooks(load_settings(root, {}))]
    assert found == [("hook train", "ok")]
