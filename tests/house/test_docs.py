"""The documents hold together: links lead somewhere, decisions are numbered, commands are tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.source import ROOT, project_files

PAGES = [p for p in project_files() if p.suffix == ".md" and p.parts[0] not in {"templates", "tests"}]
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
FENCE = re.compile(r"```.*?```", re.DOTALL)
HEADINGS_OF_A_DECISION = ["## What was the question", "## Decision", "## Options refused"]


def _read(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _anchors(page: Path) -> set[str]:
    """The fragments that a page's headings answer to."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", _read(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_relative_link_leads_to_a_file_and_heading(page: Path) -> None:
    broken: list[str] = []
    for target in LINK.findall(FENCE.sub("", _read(page))):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, fragment = target.partition("#")
        there = (ROOT / page.parent / name).resolve().relative_to(ROOT) if name else page
        if not (ROOT / there).exists() or (fragment and fragment not in _anchors(there)):
            broken.append(target)
    assert broken == []


def test_every_page_of_docs_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    ahead = [Path("README.md")]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        for target in LINK.findall(_read(page)):
            there = ROOT / page.parent / target.partition("#")[0]
            if "://" not in target and there.suffix == ".md" and there.is_file():
                ahead += [p for p in [there.resolve().relative_to(ROOT)] if p not in reached]
    assert sorted(p for p in PAGES if p.parts[0] == "docs" and p not in reached) == []


def test_decisions_are_numbered_without_gaps_and_say_what_was_refused() -> None:
    decisions = sorted(p for p in PAGES if p.parent == Path("docs/adr") and p.name != "README.md")
    assert [p.name[:4] for p in decisions] == [f"{n:04}" for n in range(1, len(decisions) + 1)]
    assert [
        f"{p} lacks {heading}"
        for p in decisions
        for heading in HEADINGS_OF_A_DECISION
        if heading not in _read(p)
    ] == []
    assert [p for p in decisions if not _read(p).startswith(f"# {p.name[:4]} ")] == []


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    assert "## Unreleased" in _read(Path("docs/changelog.md"))


def test_ci_runs_the_two_commands_of_the_readme() -> None:
    block = re.search(r"```sh\n(.*?)```", _read(Path("README.md")), re.DOTALL)
    assert block is not None
    commands = [
        c.strip() for line in block[1].splitlines() for c in line.partition("#")[0].split("&&") if c.strip()
    ]
    ci = _read(Path(".ci/run"))
    assert len(commands) >= 2
    assert [c for c in commands if c not in ci and c != "pip install uv"] == []
