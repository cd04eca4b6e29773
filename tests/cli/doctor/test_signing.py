"""What `doctor` says of keys in a run that signs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stitch.cli.checks import Check
from stitch.cli.checkup import examine
from stitch.client import Client
from stitch.client.keys import key_file, load_key, make_key
from stitch.client.operator import change_roster
from stitch.clock import SystemClock
from stitch.config import load_settings

Project = Callable[..., Path]


def found(root: Path, name: str) -> list[Check]:
    return [check for check in examine(root, {}, clock=SystemClock()) if check.name == name]


def only(root: Path, name: str) -> Check:
    (check,) = found(root, name)
    return check


def sign(lead_key: str | None) -> str:
    line = "" if lead_key is None else f'lead_key = "{lead_key}"\n'
    return f"[security]\nsign = true\n{line}"


def test_a_run_that_does_not_sign_is_not_asked_for_keys(project: Project) -> None:
    root = project()
    assert found(root, "signing") == found(root, "roster") == []


def test_without_a_key_nothing_can_be_signed(project: Project) -> None:
    check = only(project(sign("ab" * 32)), "signing")
    assert (check.state, check.exit_code) == ("fail", 2)
    assert "signing.pem is not there" in check.finding
    assert "keys init" in check.todo


def test_without_the_leads_key_nobody_can_be_believed(project: Project) -> None:
    root = project(sign(None))
    make_key(root)
    check = only(root, "signing")
    assert (check.state, check.exit_code) == ("fail", 2)
    assert "lead_key is missing" in check.finding


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda file: file.chmod(0o644), "others can read"),
        (lambda file: file.write_text("no key", encoding="utf-8"), "no private key"),
    ],
)
def test_a_key_that_cannot_be_used_is_named(
    project: Project, spoil: Callable[[Path], None], said: str
) -> None:
    root = project(sign("ab" * 32))
    make_key(root)
    spoil(key_file(root))
    check = only(root, "signing")
    assert check.state == "fail"
    assert said in check.finding
    assert check.todo


def test_the_lead_with_another_key_than_the_announced_is_told(project: Project) -> None:
    root = project(sign("ab" * 32), site="rush")
    make_key(root)
    check = only(root, "signing")
    assert (check.state, check.exit_code) == ("fail", 2)
    assert "is not [security] lead_key (abababababab...)" in check.finding


class Begun:
    """A signed run in the store beside the project, and its lead; `at` makes the project another site's."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.root = project(site="rush")
        self.key = make_key(self.root).fingerprint
        self.project(sign(self.key), site="rush")
        self.client = Client(load_settings(self.root, {}))

    def begin(self) -> None:
        self.client.begin()
        self.client.roster()

    def at(self, site: str, *, key: bool = True) -> Path:
        """The project as another site has it, with a key of its own."""
        root = self.project(sign(self.key), site=site)
        if key and site != "rush":
            key_file(root).unlink()
            make_key(root)
        return root


def test_a_roster_that_lacks_or_has_another_key_is_said_at_the_site_and_at_the_lead(project: Project) -> None:
    begun = Begun(project)
    assert only(begun.root, "roster").finding == "the lead has not begun the run: nobody's key is listed yet"
    begun.begin()
    at_lead = only(begun.root, "roster")
    assert (at_lead.state, at_lead.finding) == ("warn", "roster 1 has no key of nu")
    lead_client = begun.client
    root = begun.at("nu")
    check = only(root, "roster")
    assert (check.state, check.finding) == ("warn", "roster 1 has no key of nu: no pass is used")
    assert "sites add nu --key" in check.todo
    change_roster(lead_client, "add", site="nu", key="cd" * 32)
    assert "another key of nu (cdcdcdcdcdcd...): no pass is used" in only(root, "roster").finding
    own = only(root, "signing").finding.split()[1].rstrip(".,")
    signer = load_key(root)
    assert signer is not None
    assert signer.fingerprint.startswith(own)
    change_roster(lead_client, "add", site="nu", key=signer.fingerprint)
    check = only(root, "roster")
    assert (check.state, check.finding) == ("ok", "roster 3 lists the key of nu")
    change_roster(lead_client, "pause", site="nu")
    change_roster(lead_client, "drop", site="nu")
    assert "nu is not on roster 5" in only(root, "roster").finding
    lead_client.close()


def test_a_roster_that_the_lead_did_not_sign_is_refused_by_name(project: Project) -> None:
    begun = Begun(project)
    begun.begin()
    (signature,) = (begun.root.parent / "store/icu/global/roster").glob("0001.*.sig.json")
    signature.unlink()
    check = only(begun.at("nu"), "roster")
    assert (check.state, check.exit_code) == ("fail", 39)
    assert "global/roster/0001.json is not signed" in check.finding
    begun.client.close()
