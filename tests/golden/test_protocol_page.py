"""docs/protocol.md says what the code does: examples, fields, hashes, and the names that code cites."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from stitch.config import config_sha256
from stitch.hooks.call import HookSpec
from stitch.hooks.spec import hooks_sha256
from stitch.rounds import dataset_root, round_seed
from stitch.wire import (
    Attachment,
    BestGlobal,
    Directive,
    Document,
    Evaluated,
    Excluded,
    Input,
    RosterSite,
    RoundRecord,
    Score,
)
from stitch.wire.base import Part
from tests.golden.make_run import SITES, settings
from tests.house.source import ROOT

PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^##+ (.+)$", PAGE, re.MULTILINE)
GOLDEN = ROOT / "tests" / "golden"
KINDS = {kind.NAME: kind for kind in Document.__subclasses__()}
LISTED: dict[str, dict[str, type[Part]]] = {
    "roster": {"sites[]": RosterSite},
    "metrics": {
        "attachments[]": Attachment,
        "": RoundRecord,
        "inputs[]": Input,
        "excluded[]": Excluded,
        "evaluated": Evaluated,
        "evaluated.sites[]": Score,
    },
    "orchestration": {"directive": Directive, "best": BestGlobal},
}
"""Parts whose fields stand in the table of a kind, and under which name."""


def section(heading: str) -> str:
    """What stands below a heading, up to the next one."""
    found = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##+ |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def fields(part: type[Part]) -> set[str]:
    return {info.alias or name for name, info in part.model_fields.items()}


@pytest.mark.parametrize("name", KINDS)
def test_the_table_of_a_kind_has_exactly_its_fields(name: str) -> None:
    wanted = fields(KINDS[name])
    for place, part in LISTED.get(name, {}).items():
        wanted |= {f"{place}.{field}".lstrip(".") for field in fields(part)}
    tables = re.findall(r"^\| field \|.*\n\|[-|]+\n((?:\|.*\n)+)", section(name), re.MULTILINE)
    rows = [row.split("|")[1].strip().strip("`") for table in tables for row in table.splitlines()]
    assert set(rows) == wanted
    assert f"kind `stitch.{name}/{KINDS[name].MAJOR}`" in section(name)


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_has_an_example_that_is_a_golden_file(name: str) -> None:
    known = {file.read_text(encoding="utf-8") for file in (GOLDEN / "documents").glob(f"{name}*.json")}
    examples = re.findall(r"```json\n(.*?)```", section(name), re.DOTALL)
    assert examples
    assert [one for one in examples if one not in known] == []


def test_the_settings_hash_is_that_of_the_text_on_the_page(tmp_path: Path) -> None:
    text = re.search(r"```text\n(.*)\n```", section("Hashes and seeds"))
    assert text is not None
    manifest = json.loads((GOLDEN / "documents" / "manifest.json").read_bytes())
    assert json.loads(text[1]) == manifest["settings"]
    assert hashlib.sha256(text[1].encode()).hexdigest() == manifest["config_sha256"]
    assert {config_sha256(settings(tmp_path, site)) for site in SITES} == {manifest["config_sha256"]}


def test_the_seeds_are_those_of_the_page() -> None:
    found = re.search(r"rounds 0, 1, 2 and 1000 have\s+((?:`\d+`[,.]\s)+)", section("Hashes and seeds"))
    assert found is not None
    assert [round_seed(7, k) for k in (0, 1, 2, 1000)] == [int(n) for n in re.findall(r"\d+", found[1])]


def test_the_roots_of_data_are_those_of_the_page() -> None:
    shown = re.findall(r"^    ([0-9a-f]{64})$", section("The dataset's root"), re.MULTILINE)
    files = [
        (name, hashlib.sha256(data).digest()) for name, data in ((b"a.csv", b"one"), (b"b/c.csv", b"two"))
    ]
    assert [dataset_root(some, secret=bytes(range(32))) for some in (files[:1], files)] == shown


def test_the_hooks_hash_is_made_as_the_page_says(tmp_path: Path) -> None:
    code = tmp_path / "code"
    (code / "deeper").mkdir(parents=True)
    (code / "train.py").write_bytes(b"\xef\xbb\xbfdef train():\r\n    ...\r\n")
    (code / "fit.R").write_bytes(b"x <- 1\n")
    (code / "notes.txt").write_bytes(b"no source")
    (code / "deeper" / "more.py").write_bytes(b"not beside the hook")
    train = b"def train():\n    ...\n"
    parts = [b"spec Rscript code/fit.R\n", b"spec code/train.py:train\n"]
    parts += [b"file code/fit.R 7\nx <- 1\n", b"file code/train.py %d\n" % len(train) + train]
    specs: list[HookSpec] = ["code\\train.py:train", ("Rscript", "code/fit.R"), "code/train.py:train"]
    assert hooks_sha256(tmp_path, specs) == hashlib.sha256(b"".join(parts)).hexdigest()


def test_the_laws_are_numbered_one_to_eleven_and_code_cites_no_other() -> None:
    numbers = [int(n) for n in re.findall(r"^(\d+)\. \*\*", section("The laws"), re.MULTILINE)]
    assert numbers == list(range(1, 12))
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "stitch").rglob("*.py"))]
    cited = {int(n) for text in texts for n in re.findall(r"\b[Ll]aws? (\d+)", text)}
    assert cited <= set(numbers)
    assert len(cited) > 5


def test_places_of_the_page_that_code_cites_are_headings() -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "stitch").rglob("*.py"))]
    cited = {name for text in texts for name in re.findall(r"docs/protocol\.md, ([A-Z][^).\n]*)", text)}
    assert cited
    assert {name for name in cited if name not in HEADINGS} == set()
