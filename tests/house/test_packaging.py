"""What is installed is what was tested: bounded ranges, and a lock without addresses."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.source import ROOT, project_files

LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _declared() -> list[Requirement]:
    """What the lock must cover: the core, its extras and the dev group."""
    extras = PROJECT["project"]["optional-dependencies"].values()
    listed = [*PROJECT["project"]["dependencies"], *PROJECT["dependency-groups"]["dev"]]
    every = [Requirement(text) for text in [*listed, *(text for extra in extras for text in extra)]]
    return [r for r in every if canonicalize_name(r.name) != PROJECT["project"]["name"]]


def test_the_lock_names_packages_and_hashes_but_no_address() -> None:
    assert (
        re.findall(r"https?:|://|file:|index|find-links|@ |^-e|\.(?:com|org|net|dev)\b", LOCK, re.MULTILINE)
        == []
    )
    packages = re.findall(
        r"^[A-Za-z0-9][\w.\-\[\]]*==\S+.*?(?=^[A-Za-z0-9]|\Z)", LOCK, re.MULTILINE | re.DOTALL
    )
    assert len(packages) > len(_declared())
    assert [p.split("==")[0] for p in packages if "--hash=sha256:" not in p] == []


@pytest.mark.parametrize("requirement", _declared(), ids=lambda r: r.name)
def test_the_lock_was_refreshed_after_a_dependency_changed(requirement: Requirement) -> None:
    name = re.escape(canonicalize_name(requirement.name))
    pins = re.findall(rf"^{name}==([^\s;]+)", LOCK, re.MULTILINE)
    assert pins != []
    assert [pin for pin in pins if not requirement.specifier.contains(pin)] == []


@pytest.mark.parametrize("requirement", _declared(), ids=lambda r: r.name)
def test_every_range_has_an_upper_bound(requirement: Requirement) -> None:
    assert any(s.operator == "<" for s in requirement.specifier)


def test_npm_lockfiles_hold_no_address() -> None:
    lockfiles = [p for p in project_files() if p.name == "package-lock.json"]
    assert lockfiles != [], "Azurite is pinned in one"
    for path in lockfiles:
        packages = json.loads((ROOT / path).read_text(encoding="utf-8"))["packages"]
        assert [name for name, package in packages.items() if "resolved" in package] == []
        assert [name for name, package in packages.items() if name and "integrity" not in package] == []
