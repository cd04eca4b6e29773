"""A linter's finding is followed or answered: ruff and mypy see to the codes, this to the reasons."""

from __future__ import annotations

import re
import tomllib

from tests.house.source import ROOT, modules

EVERYWHERE = ("stitch", "templates", "examples", "benchmarks", "tests")
EXEMPTION = re.compile(r"#\s*(?:no" + r"qa: [A-Z]+[0-9]+(?:, ?[A-Z]+[0-9]+)*|type: " + r"ignore\[[\w, -]+\])")
REASON = re.compile(r"[A-Za-z]{2,}.*[A-Za-z]{2,}")


def test_every_exemption_in_the_code_gives_its_reason() -> None:
    """In the rest of its line, or in a comment line right above."""
    silent: list[str] = []
    for module in modules(*EVERYWHERE):
        lines = module.text.splitlines()
        for number, line in enumerate(lines):
            above = lines[number - 1].strip() if number else ""
            hit = EXEMPTION.search(line)
            if hit and not REASON.search(line[hit.end() :]) and not above.startswith("#"):
                silent.append(f"{module.name}:{number + 1}")
    assert not silent, "\n".join(silent)


def test_every_rule_that_pyproject_turns_off_gives_its_reason() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    start = lines.index("ignore = [")
    end = lines.index("[tool.ruff.lint.flake8-tidy-imports]")
    rules = [line for line in lines[start:end] if re.match(r'\s+"[A-Z]+[0-9]*",', line)]
    assert len(rules) > 10
    assert [line for line in rules if not REASON.search(line.partition("#")[2])] == []


def test_the_linters_stay_strict() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert {"D", "PGH", "S", "BLE", "T20"} <= set(tool["ruff"]["lint"]["select"])
    assert tool["mypy"]["strict"] is True
    assert tool["mypy"]["files"] == ["benchmarks", "stitch", "tests"]
    assert "error" in tool["pytest"]["ini_options"]["filterwarnings"]
